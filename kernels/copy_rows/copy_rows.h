// Copies rows of one matrix into another, bit by bit; either may be a part of
// wider rows. Used to put the newest keys and values of a sequence into a
// cache, or to take the last position out of a sequence.
#ifndef CASTOR_KERNELS_COPY_ROWS_COPY_ROWS_H_
#define CASTOR_KERNELS_COPY_ROWS_COPY_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// y[r, c] = x[r, c] for R rows of C columns. Row r begins at element r * stride
// of its array. x and y do not overlap.
struct CopyRowsArgs {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;      // R
  int64_t columns = 0;   // C
  int64_t x_stride = 0;  // in elements, at least C
  int64_t y_stride = 0;
  const void* x = nullptr;
  void* y = nullptr;

  // InvalidArgument: a negative size, or a stride below the columns.
  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_COPY_ROWS_COPY_ROWS_H_
