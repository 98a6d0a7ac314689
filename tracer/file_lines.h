// The lines of a file in bounded memory, however large the file is.
#ifndef CASTOR_TRACER_FILE_LINES_H_
#define CASTOR_TRACER_FILE_LINES_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

struct FileLineLimits {
  int64_t max_bytes = 0;       // of the file
  int64_t max_line_bytes = 0;  // without its newline
};

// Calls `line` with each line that has its newline, without it, until it says
// false. Returns whether something else than zero bytes, which are what an
// AppendFile has behind its text, follows the last line.
//
// A line that is longer than it may be comes as its beginning, which is longer,
// too, and is the last one. Memory: a line, and a piece of the file.
//
// NotFound: there is no such file, or it may not be read. InvalidArgument: it
// is no regular file, or larger than max_bytes. Unavailable: reading failed.
// Messages begin with the file's path.
absl::StatusOr<bool> ForEachLine(
    const std::string& path, const FileLineLimits& limits,
    absl::FunctionRef<bool(absl::string_view)> line);

}  // namespace castor

#endif  // CASTOR_TRACER_FILE_LINES_H_
