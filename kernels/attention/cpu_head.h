// One query head of one sample, for the host's passes of attention: the places
// of its rows, the keys that they see, its dropout.
#ifndef CASTOR_KERNELS_ATTENTION_CPU_HEAD_H_
#define CASTOR_KERNELS_ATTENTION_CPU_HEAD_H_

#include <algorithm>
#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/dropout/dropout.h"

namespace castor::kernels::cpu {

// A head's rows in a matrix of `dtype`: row r starts (begin + r) * stride
// elements after `first`.
template <class Pointer>
struct HeadRows {
  DType dtype;
  Pointer first;
  int64_t stride;
  int64_t head_size;

  Pointer at(int64_t row) const { return Offset(dtype, first, row * stride); }
  // Returns rows [begin, begin + rows) as fp32; `buffer` has room for them.
  FloatView Load(int64_t begin, int64_t rows, float* buffer) const {
    return AsFloat(dtype, at(begin), stride, rows, head_size, buffer);
  }
  // Stores x [rows, head_size] as rows [begin, begin + rows).
  void Store(int64_t begin, int64_t rows, const float* x, int64_t ldx) const {
    StoreTile(dtype, x, ldx, rows, head_size, at(begin), stride);
  }
};

class Head {
 public:
  // `shape` is filled, outlives the head, and so do the `documents` of all
  // samples (null: none); `index` is b H + h.
  Head(const AttentionShape& shape, const DocumentRange* documents,
       int64_t index)
      : shape_(shape),
        index_(index),
        b_(index / shape.heads),
        h_(index % shape.heads),
        band_(BandOf(shape, documents, b_)),
        threshold_(DropoutThreshold(shape.dropout)),
        kept_(DropoutScale(shape.dropout)) {}

  const AttentionBand& band() const { return band_; }
  bool drops() const { return shape_.dropout > 0; }

  // Return the head's rows of q, of k or v, and of out.
  template <class Pointer>
  HeadRows<Pointer> InQ(Pointer q) const {
    return Rows(q, b_ * shape_.positions, shape_.q_stride, h_);
  }
  template <class Pointer>
  HeadRows<Pointer> InK(Pointer k) const {
    return Rows(k, b_ * shape_.key_rows, shape_.kv_stride, h_ / shape_.group());
  }
  template <class Pointer>
  HeadRows<Pointer> InOut(Pointer out) const {
    return Rows(out, b_ * shape_.positions, shape_.heads * shape_.head_size,
                h_);
  }
  // The number of elements before query i in [B, H, T].
  int64_t InRows(int64_t i) const { return index_ * shape_.positions + i; }

  // Computes the dropout factors of p[i, j] and the elements after it.
  void Factors(int64_t i, int64_t j, int64_t size, float* factors) const {
    DropoutMask(
        shape_.key,
        static_cast<uint64_t>(InRows(i)) * static_cast<uint64_t>(shape_.keys) +
            static_cast<uint64_t>(j),
        size, threshold_, kept_, factors);
  }

 private:
  static AttentionBand BandOf(const AttentionShape& shape,
                              const DocumentRange* documents, int64_t sample) {
    AttentionBand band = shape.band();
    if (documents != nullptr) {
      band.documents = documents + sample * shape.positions;
    }
    return band;
  }
  template <class Pointer>
  HeadRows<Pointer> Rows(Pointer x, int64_t rows, int64_t stride,
                         int64_t head) const {
    return {shape_.dtype,
            Offset(shape_.dtype, x, rows * stride + head * shape_.head_size),
            stride, shape_.head_size};
  }

  const AttentionShape& shape_;
  const int64_t index_, b_, h_;
  const AttentionBand band_;
  const uint32_t threshold_;
  const float kept_;
};

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_ATTENTION_CPU_HEAD_H_
