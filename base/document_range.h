// Documents that share a row of a batch: which of them a position is in.
#ifndef CASTOR_BASE_DOCUMENT_RANGE_H_
#define CASTOR_BASE_DOCUMENT_RANGE_H_

#include <cstdint>

namespace castor {

// The positions [begin, end) of a position's document within its row. A row of
// T positions has T of these: each position lies in its own range, and all
// positions of a range have the same. So documents are whole, one after
// another. Attention stays within a document, and its first token is at
// position 0 of it.
struct DocumentRange {
  int32_t begin = 0;
  int32_t end = 0;

  friend bool operator==(const DocumentRange&, const DocumentRange&) = default;
};
// On devices they are pairs of 32-bit numbers, [.., 2].
static_assert(sizeof(DocumentRange) == 2 * sizeof(int32_t));

}  // namespace castor

#endif  // CASTOR_BASE_DOCUMENT_RANGE_H_
