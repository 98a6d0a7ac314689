// Reads the lines of a file of any size in bounded memory.
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

// Calls `line` with each line that ends with a newline, without the newline,
// until it returns false. Returns true if bytes other than zeros follow the
// last line; an AppendFile has zeros behind its text.
//
// A line that exceeds the limit is passed as its beginning, which exceeds it,
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
