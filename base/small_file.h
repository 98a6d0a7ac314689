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

// Whether `directory` has a regular file of this name, or a link to one.
bool HasFile(const std::string& directory, absl::string_view name);

}  // namespace castor

#endif  // CASTOR_BASE_SMALL_FILE_H_
