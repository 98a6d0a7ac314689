// Whole small files at once: configurations, indexes.
#ifndef CASTOR_BASE_SMALL_FILE_H_
#define CASTOR_BASE_SMALL_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

// InvalidArgument: more than `max_bytes`. NotFound and others: the file, with
// its name.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          int64_t max_bytes);

// Whether `directory` has a file of this name; false only where nothing has it,
// so that a file that cannot be read is never taken for one that is not there.
// FailedPrecondition: what has the name is a link that leads nowhere, a
// directory, a FIFO, a device, or a file without permission to read it.
absl::StatusOr<bool> FindFile(const std::string& directory,
                              absl::string_view name);

}  // namespace castor

#endif  // CASTOR_BASE_SMALL_FILE_H_
