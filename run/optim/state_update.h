// The common part of optimizers whose kernels take states in several formats
// (kernels/state_update/state_update.h).
#ifndef CASTOR_RUN_OPTIM_STATE_UPDATE_H_
#define CASTOR_RUN_OPTIM_STATE_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/run.h"
#include "kernels/state_update/state_update.h"
#include "run/optim/optimizer.h"

namespace castor {

// Bits of a state's element.
constexpr int BitsOf(MomentFormat format) {
  return format == MomentFormat::kInt8       ? 8
         : format == MomentFormat::kBFloat16 ? 16
                                             : 32;
}

// Slots of these names, in the kernel's order.
inline std::vector<StateSlot> StateSlots(const std::vector<std::string>& names,
                                         MomentFormat format) {
  std::vector<StateSlot> slots;
  for (size_t i = 0; i < names.size(); ++i) {
    slots.push_back({names[i], kernels::FormatOfState(BitsOf(format),
                                                      static_cast<int>(i))});
  }
  return slots;
}

// Runs the kernel with these arguments on `num_states` states of an element,
// which are the first slots. hyper_of(range) gives a range's hyperparameters.
template <class Args, class HyperOf>
absl::Status RunStateUpdate(absl::Span<const UpdateRange> ranges,
                            const UpdateArrays& arrays,
                            const StateFormats& formats,
                            const HyperOf& hyper_of, const ExecContext& context,
                            int num_states = Args::kStates) {
  Args args;
  args.arrays = {.payload = arrays.payload,
                 .dtype = arrays.dtype,
                 .gradient_sum = arrays.gradient_sum,
                 .gradient = arrays.gradient,
                 .master = arrays.states.master,
                 .master_format = FormatOfMaster(formats.master),
                 .bits = num_states > 0 ? BitsOf(formats.moments) : 0,
                 .elements = arrays.states.elements,
                 .grad_scale = arrays.gradient_scale,
                 .not_finite = arrays.not_finite};
  if (arrays.from != nullptr) args.arrays.from.master = arrays.from->master;
  for (int i = 0; i < num_states; ++i) {
    args.arrays.states[i] = arrays.states.slots[i];
    if (arrays.from != nullptr) {
      args.arrays.from.states[i] = arrays.from->slots[i];
    }
  }
  std::vector<kernels::StateRange<typename Args::Hyper>> of_kernel;
  of_kernel.reserve(ranges.size());
  for (const UpdateRange& range : ranges) {
    of_kernel.push_back({.begin = range.begin,
                         .end = range.end,
                         .hyper = hyper_of(range),
                         .key = range.key,
                         .first = range.first});
  }
  args.ranges = of_kernel.data();
  args.num_ranges = static_cast<int64_t>(of_kernel.size());
  return kernels::Run(context, args);
}

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_STATE_UPDATE_H_
