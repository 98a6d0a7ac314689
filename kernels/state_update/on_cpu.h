// The host's side of such a kernel (state_update.h), but for its arithmetic.
#ifndef CASTOR_KERNELS_STATE_UPDATE_ON_CPU_H_
#define CASTOR_KERNELS_STATE_UPDATE_ON_CPU_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "base/state_format.h"
#include "device/device.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/range_pieces.h"
#include "kernels/state_update/state_update.h"

namespace castor::kernels::cpu {

// Does what a skipped step does with elements [begin, end): copies master and
// states where they are read elsewhere, and rounds the payload.
inline void LeaveStates(const StateArrays& arrays, int num_states,
                        int64_t begin, int64_t end) {
  auto* const master = static_cast<std::byte*>(arrays.master);
  if (arrays.from.master != nullptr) {
    CopyStates(arrays.master_format,
               static_cast<const std::byte*>(arrays.from.master), master,
               arrays.elements, begin, end);
    for (int i = 0; i < num_states; ++i) {
      CopyStates(FormatOfState(arrays.bits, i), arrays.from.states[i],
                 arrays.states[i], arrays.elements, begin, end);
    }
  }
  void* const payload = Offset(arrays.dtype, arrays.payload, begin);
  if (arrays.master_format == StateFormat::kFloat32) {
    FromFloat(arrays.dtype, static_cast<const float*>(arrays.master) + begin,
              end - begin, payload);
  } else {
    std::memcpy(payload, master + begin * sizeof(BFloat16),
                (end - begin) * sizeof(BFloat16));
  }
}

// RunOnCpu of a kernel with this number of states. scalars_of(hyper) makes the
// coefficients of a range, which have a member grad_scale; update(range,
// scalars, begin, size) updates elements of a range, several at once.
template <class Hyper, class ScalarsOf, class Update>
absl::Status UpdateStates(const ExecContext& context, const StateArrays& arrays,
                          int num_states, const StateRange<Hyper>* ranges,
                          int64_t num_ranges, const ScalarsOf& scalars_of,
                          const Update& update) {
  if (num_ranges == 0) return absl::OkStatus();
  const bool skip = !std::isfinite(*arrays.grad_scale);
  std::vector<decltype(scalars_of(ranges->hyper))> scalars;
  for (int64_t r = 0; r < num_ranges; ++r) {
    scalars.push_back(scalars_of(ranges[r].hyper));
    scalars.back().grad_scale = *arrays.grad_scale;
  }
  static_assert(kPieceGranule % kStateTile == 0);
  ParallelPieces(context, ranges, num_ranges,
                 [&](int64_t r, int64_t begin, int64_t end) {
                   if (skip) {
                     LeaveStates(arrays, num_states, begin, end);
                   } else {
                     update(ranges[r], scalars[r], begin, end - begin);
                   }
                 });
  return absl::OkStatus();
}

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_STATE_UPDATE_ON_CPU_H_
