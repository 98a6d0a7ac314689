// The error of an index outside of the table, on every device.
#ifndef CASTOR_KERNELS_EMBEDDING_BAD_INDEX_H_
#define CASTOR_KERNELS_EMBEDDING_BAD_INDEX_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor::kernels {

// Returns InvalidArgument, naming the kernel `what`.
absl::Status BadIndex(absl::string_view what, int64_t index, int64_t position,
                      int64_t vocabulary);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_EMBEDDING_BAD_INDEX_H_
