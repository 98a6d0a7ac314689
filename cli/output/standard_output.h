// Standard output that may be closed, or full, while the program goes on.
#ifndef CASTOR_CLI_OUTPUT_STANDARD_OUTPUT_H_
#define CASTOR_CLI_OUTPUT_STANDARD_OUTPUT_H_

#include "absl/strings/string_view.h"

namespace castor::cli {

// Makes sure that the standard streams are open. Call before any file is
// opened: a file that got the number of a standard stream which the caller had
// closed would receive the printed text. From then on a line of standard error
// is one write.
void OpenStandardStreams();

// Writes out what was printed. Returns false if it could not; the first time,
// standard error says so. That is no error of the run, whose progress is lost.
bool FlushOutput();

// Prints a line and writes it out at once: it may be long until the next one.
// Bytes of control in it are escaped (base/printable.h).
void PrintLine(absl::string_view line);

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_STANDARD_OUTPUT_H_
