// Queues programs whose arguments are ranges of a chunk (range_pieces.h).
#ifndef CASTOR_KERNELS_CUDA_LAUNCH_RANGES_H_
#define CASTOR_KERNELS_CUDA_LAUNCH_RANGES_H_

#include <cstdint>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"

namespace castor::kernels::cuda {

// Calls run(T(), gradient) with the type T of `dtype` and a pointer to the
// gradients that an optimizer's kernel reads: `sum`, or if it is null the
// elements of type T at `gradient`.
template <class Run>
absl::Status WithGradient(DType dtype, const float* sum, const void* gradient,
                          const Run& run) {
  return WithType(dtype, [&]<class T>(T type) {
    return sum != nullptr ? run(type, sum)
                          : run(type, static_cast<const T*>(gradient));
  });
}

// Queues copies of `program`, each with up to kMost of the nonempty ranges
// (with members begin and end) in its member `pieces`, with the Scalars that
// scalars(range) returns.
template <class Program, class Range, class ScalarsOf>
absl::Status LaunchRanges(const ExecContext& context, const char* kernel,
                          Program program, int64_t block_elements,
                          const Range* ranges, int64_t num_ranges,
                          const ScalarsOf& scalars) {
  auto& pieces = program.pieces;
  pieces.count = 0;
  int64_t blocks = 0;
  for (int64_t r = 0; r < num_ranges; ++r) {
    const int64_t size = ranges[r].end - ranges[r].begin;
    if (size > 0) {
      pieces.at[pieces.count++] = {ranges[r].begin, ranges[r].end, blocks,
                                   scalars(ranges[r])};
      blocks += (size + block_elements - 1) / block_elements;
    }
    if (pieces.count == pieces.kMost || r + 1 == num_ranges) {
      CASTOR_RETURN_IF_ERROR(Launch(context, kernel, blocks, program));
      pieces.count = 0;
      blocks = 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_LAUNCH_RANGES_H_
