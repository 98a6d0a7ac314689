// Chooses which of attention's programs a shape takes on the GPU, and divides
// their workspaces.
#ifndef CASTOR_KERNELS_ATTENTION_GPU_SIZES_H_
#define CASTOR_KERNELS_ATTENTION_GPU_SIZES_H_

#include <cstdint>
#include <type_traits>

#include "base/units.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/backward_program.h"
#include "kernels/attention/forward_program.h"
#include "kernels/attention/mma_backward_program.h"
#include "kernels/attention/mma_forward_program.h"
#include "kernels/attention/ranges_program.h"

namespace castor::kernels::cuda {

// fp32 in fp32; 16-bit types on the matrix units.
template <class T, int kD, bool kDrops>
using AttentionForwardOf =
    std::conditional_t<std::is_same_v<T, float>, AttentionForwardProgram<kD>,
                       AttentionMmaForwardProgram<T, kD, kDrops>>;
template <class T, int kD, bool kDrops>
using AttentionBackwardOf =
    std::conditional_t<std::is_same_v<T, float>, AttentionBackwardProgram<kD>,
                       AttentionMmaBackwardProgram<T, kD, kDrops>>;

// Calls f with the least head size that programs are made for, and with whether
// they drop, as constants.
template <class F>
auto WithAttentionProgram(const AttentionShape& shape, const F& f) {
  const auto with_size = [&](auto drops) {
    if (shape.head_size <= 64) {
      return f(std::integral_constant<int, 64>(), drops);
    }
    if (shape.head_size <= 128) {
      return f(std::integral_constant<int, 128>(), drops);
    }
    static_assert(kMaxGpuHeadSize == 256);
    return f(std::integral_constant<int, kMaxGpuHeadSize>(), drops);
  };
  return shape.dropout > 0 ? with_size(std::true_type())
                           : with_size(std::false_type());
}

// Returns whether a single query's keys are looked at in ranges. The cache's
// capacity decides, since a key-value cache's passes must need the same
// workspace.
inline bool AttentionInRanges(const AttentionShape& filled) {
  return filled.positions == 1 && filled.dropout == 0 &&
         filled.key_rows > kRangeKeys;
}

// The backward pass's workspace: delta, dq's sums, the counters of turns.
struct AttentionWorkspace {
  int64_t delta_bytes, sums_bytes, counters_of_head, counters;
  int64_t steps;

  template <class Program>
  static AttentionWorkspace Of(const AttentionShape& filled) {
    const int64_t heads = filled.batch * filled.heads;
    const int64_t steps = CeilDiv(filled.positions, Program::kStep);
    const int64_t parts = steps * Program::kParts;
    const int64_t sums =
        filled.keys <= Program::kRows ? 0 : parts * Program::kStepSums;
    return {.delta_bytes = CeilDiv(heads * filled.positions, 4) * 16,
            .sums_bytes = heads * sums * int64_t{sizeof(float)},
            .counters_of_head = parts * Program::kWarps,
            .counters = heads * parts * Program::kWarps,
            .steps = steps};
  }
  int64_t bytes() const {
    return delta_bytes + sums_bytes +
           (counters + 1) * int64_t{sizeof(uint32_t)};
  }
  float* sums(void* workspace) const {
    return reinterpret_cast<float*>(static_cast<char*>(workspace) +
                                    delta_bytes);
  }
  uint32_t* first_counter(void* workspace) const {
    return reinterpret_cast<uint32_t*>(static_cast<char*>(workspace) +
                                       delta_bytes + sums_bytes);
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_GPU_SIZES_H_
