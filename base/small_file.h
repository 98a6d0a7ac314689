// Reads whole small files: configurations, indexes.
#ifndef CASTOR_BASE_SMALL_FILE_H_
#define CASTOR_BASE_SMALL_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

// Returns the file's content. InvalidArgument: more than `max_bytes`. NotFound
// and other errors name the file.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          int64_t max_bytes);

// Returns true if `directory` has a file of this name, and false only if
// nothing has the name, so that an unreadable file is never taken for a missing
// one. FailedPrecondition: the entry is a link that leads nowhere, a directory,
// a FIFO, a device, or a file without permission to read it.
absl::StatusOr<bool> FindFile(const std::string& directory,
                              absl::string_view name);

}  // namespace castor

#endif  // CASTOR_BASE_SMALL_FILE_H_
