// The document that a row of a batch belongs to, on every device.
#ifndef CASTOR_KERNELS_POSITION_LOSS_DOCUMENT_AT_H_
#define CASTOR_KERNELS_POSITION_LOSS_DOCUMENT_AT_H_

#include <cstdint>

#include "base/document_range.h"

namespace castor::kernels {

// The rows [first, first + tokens) of the document of one row.
struct DocumentRows {
  int32_t first;
  int32_t tokens;
};

// Returns the document of row `n` in samples of `positions` rows; rows are
// fewer than 2^31, and so are numbered with 32 bits. `documents`: one for each
// row, or null where each sample is a document.
constexpr DocumentRows DocumentAt(int64_t n, int64_t positions,
                                  const DocumentRange* documents) {
  // A 64-bit division would be a call on a GPU.
  const uint32_t length = static_cast<uint32_t>(positions);
  const auto sample =
      static_cast<int32_t>(static_cast<uint32_t>(n) / length * length);
  if (documents == nullptr) return {sample, static_cast<int32_t>(positions)};
  const DocumentRange range = documents[n];
  return {sample + range.begin, range.end - range.begin};
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_POSITION_LOSS_DOCUMENT_AT_H_
