// The GPU's side of such a kernel (state_update.h), but for its program's rule.
#ifndef CASTOR_KERNELS_STATE_UPDATE_ON_GPU_H_
#define CASTOR_KERNELS_STATE_UPDATE_ON_GPU_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "device/device.h"
#include "kernels/cuda/launch_ranges.h"
#include "kernels/state_update/state_program.h"
#include "kernels/state_update/state_update.h"

namespace castor::kernels::cuda {

template <class Rule, class G, class T, class Hyper, class ScalarsOf>
absl::Status LaunchStateProgram(const ExecContext& context, const char* kernel,
                                const StateArrays& arrays, const G* gradient,
                                const StateRange<Hyper>* ranges,
                                int64_t num_ranges,
                                const ScalarsOf& scalars_of) {
  using Program = StateProgram<Rule, G, T>;
  Program program = {};
  program.gradient = gradient;
  program.payload = static_cast<T*>(arrays.payload);
  program.master = static_cast<std::byte*>(arrays.master);
  program.master_format = arrays.master_format;
  for (int i = 0; i < Rule::kStates; ++i) program.states[i] = arrays.states[i];
  program.bits = arrays.bits;
  program.elements = arrays.elements;
  program.grad_scale = arrays.grad_scale;
  return LaunchRanges(context, kernel, program, Program::kBlock, ranges,
                      num_ranges, [&](const StateRange<Hyper>& range) {
                        return typename Program::Scalars{
                            scalars_of(range.hyper), range.key, range.first};
                      });
}

// RunOnGpu of a kernel with this rule (state_program.h). scalars_of(hyper)
// makes the coefficients of a range.
template <class Rule, class Hyper, class ScalarsOf>
absl::Status UpdateStates(const ExecContext& context, const char* kernel,
                          const StateArrays& arrays,
                          const StateRange<Hyper>* ranges, int64_t num_ranges,
                          const ScalarsOf& scalars_of) {
  if (arrays.from.master != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(kernel, ": out of place it runs on the host alone"));
  }
  return WithGradient(
      arrays.dtype, arrays.gradient_sum,
      arrays.gradient != nullptr ? arrays.gradient : arrays.payload,
      [&]<class T, class G>(T, const G* from) {
        return LaunchStateProgram<Rule, G, T>(context, kernel, arrays, from,
                                              ranges, num_ranges, scalars_of);
      });
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_STATE_UPDATE_ON_GPU_H_
