// A process's messages on standard error: a line for each error and each note,
// as text for people or as JSON for machines (docs/json.md). Everything that is
// not a progress bar is said through this file, so that the form is chosen
// once.
//
// Threads: any, at once; each call writes its line in one piece.
#ifndef CASTOR_BASE_STANDARD_ERROR_H_
#define CASTOR_BASE_STANDARD_ERROR_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor {

// Makes each line a JSON object from now on. Called before other threads start.
void WriteErrorsAsJson();
bool ErrorsAreJson();

// Says each error of `status` (base/error_list.h), which is not OK, in a line:
// "PROGRAM: MESSAGE", or an object with `level` ("error"), `program`,
// `message`, `code` (the name of the status's code) and `exit_status`, with
// which the process ends.
void TellError(absl::string_view program, const absl::Status& status,
               int exit_status);

// Says something that is worth knowing and ends nothing: "PROGRAM: MESSAGE", or
// an object with `level` ("note"), `program` and `message`.
void TellNote(absl::string_view program, absl::string_view message);

// Writes the line of an error of "castor" into `buffer`, for the moment in
// which no memory can be had. The line is shortened to the buffer's `size`
// bytes and ends with a line feed. `code` has no characters that JSON escapes;
// those of `message` become spaces.
void FormatErrorWithoutMemory(const char* message, const char* code,
                              int exit_status, char* buffer, size_t size);

}  // namespace castor

#endif  // CASTOR_BASE_STANDARD_ERROR_H_
