// What the passes of attention have in common, in every type: where a head's
// rows lie, which scores count, dropout.
#ifndef CASTOR_KERNELS_ATTENTION_OPERANDS_H_
#define CASTOR_KERNELS_ATTENTION_OPERANDS_H_

#include <cstdint>

#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// One head's rows in a larger matrix: row r starts at first + r * stride.
template <class T>
struct RowsOfHead {
  T* first;
  int64_t stride;  // in elements

  CASTOR_HD T* at(int64_t row) const { return first + row * stride; }
};

// Shapes are those of kernels/attention/attention.h; `head` is b H + h.
template <class T>
struct AttentionOperands {
  int64_t positions, heads, head_size;  // T, H, D
  bool causal;
  // Rows begin at multiples of 16 bytes and are made of vectors of 16 bytes.
  bool whole_vectors;
  float scale;  // of the scores
  bool drops;
  uint32_t threshold;
  float kept;  // what kept elements are multiplied by
  RandomKey key;
  const T* qkv;

  CASTOR_HD int64_t channels() const { return heads * head_size; }
  CASTOR_HD int64_t tiles(int64_t rows) const {
    return (positions + rows - 1) / rows;
  }
  // A head's rows of part 0 (q), 1 (k), 2 (v) of x [B, T, 3C].
  template <class X>
  CASTOR_HD RowsOfHead<X> InQkv(X* x, int64_t head, int part) const {
    return {x + (head / heads) * positions * 3 * channels() +
                part * channels() + head % heads * head_size,
            3 * channels()};
  }
  // A head's rows of x [B, T, C].
  template <class X>
  CASTOR_HD RowsOfHead<X> InOut(X* x, int64_t head) const {
    return {
        x + (head / heads) * positions * channels() + head % heads * head_size,
        channels()};
  }
  // The number of elements before a row of [B, H, T].
  CASTOR_HD int64_t InRows(int64_t head, int64_t position) const {
    return head * positions + position;
  }
  CASTOR_HD bool Sees(int64_t i, int64_t j) const {
    return j < positions && (!causal || j <= i);
  }
  CASTOR_HD uint64_t Element(int64_t head, int64_t i, int64_t j) const {
    return static_cast<uint64_t>(InRows(head, i)) *
               static_cast<uint64_t>(positions) +
           static_cast<uint64_t>(j);
  }
  // The factor of p's element; `words` is the thread's own.
  CASTOR_HD float Factor(WordReader& words, uint64_t element) const {
    return words.At(element) >= threshold ? kept : 0.0f;
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_OPERANDS_H_
