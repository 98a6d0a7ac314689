// Rotary position embedding: rotates pairs of a head's channels by angles that
// grow with the position.
//
// With c and s the cosine and sine for the row's position and the pair,
//   y[d]         = x[d] c - x[d + R / 2] s
//   y[d + R / 2] = x[d + R / 2] c + x[d] s      for d in [0, R / 2),
//   y[d]         = x[d]                         for d in [R, D).
// Its derivative is the rotation by the opposite angle: dx from dy with -s.
// Source: Su et al., "RoFormer: Enhanced transformer with rotary position
// embedding", 2021; the pairs are those of transformers' rotate_half, not
// neighbours as in the paper.
//
// Rounding: both products and their sum are each rounded to fp32, in the order
// in which PyTorch does it, and the result once more to x's type. The bits are
// the same on every device, and PyTorch's where x is fp32.
#ifndef CASTOR_KERNELS_ROTARY_ROTARY_H_
#define CASTOR_KERNELS_ROTARY_ROTARY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/document_range.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// x, y [N, H, D]; cos, sin [P, R / 2] fp32. Row n stands at position
// begin + n % T of the tables' P; in documents, at its place within its own.
struct RotaryArgs {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;       // N = B T
  int64_t length = 1;     // T, rows of one sequence
  int64_t heads = 1;      // H
  int64_t head_size = 2;  // D
  int64_t channels = 2;   // R <= D, even: those that turn
  // Elements from one row of x (and y) to the next; at least H D. If more, the
  // heads are a part of a wider matrix, such as packed queries, keys and
  // values, the rest of which is not written.
  int64_t stride = 2;
  int64_t begin = 0;  // position of each sequence's first row
  // [N], with a `begin` of 0: positions are those in the documents that share
  // each sequence. Null: each sequence is one. The results are undefined if
  // values are no documents.
  const DocumentRange* documents = nullptr;
  const float* cos = nullptr;
  const float* sin = nullptr;
  bool inverse = false;  // turns back: -s for s
  const void* x = nullptr;
  void* y = nullptr;  // may equal x

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ROTARY_ROTARY_H_
