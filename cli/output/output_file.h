// Files that a command writes, whole or not at all.
#ifndef CASTOR_CLI_OUTPUT_OUTPUT_FILE_H_
#define CASTOR_CLI_OUTPUT_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor::cli {

// Says now what would otherwise be known only when the work is done.
// InvalidArgument: there is something at `path` that is no regular file; what
// takes its name by a rename must not take that of a directory or device.
absl::Status CheckWritable(const std::string& path);

// The first half of it: makes no file.
absl::Status CheckRegular(const std::string& path);

// A file that a command reads, or another one that it writes, and what it is
// called in messages: "data.train". An empty path is none.
struct OtherFile {
  std::string name;
  std::string path;
};

// InvalidArgument: `path` is one of `others`, by whatever name, and writing it
// would replace that.
absl::Status CheckReplacesNone(const std::string& path,
                               absl::Span<const OtherFile> others);

// The file that `path` leads to: a rename would put a file in a link's place,
// not in its target's.
std::string LinkTarget(const std::string& path);

// Writes `text` to `path`, which is checked and resolved as above.
absl::Status WriteWhole(const std::string& path, absl::string_view text);

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_OUTPUT_FILE_H_
