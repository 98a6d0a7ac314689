// The common part of optimizers that keep two moments of each parameter's
// gradients, as Adam does: options, state slots and hyperparameters.
#ifndef CASTOR_RUN_OPTIM_MOMENTS_H_
#define CASTOR_RUN_OPTIM_MOMENTS_H_

#include <vector>

#include "absl/types/span.h"
#include "base/json_reader.h"
#include "run/optim/optimizer.h"
#include "run/optim/state_update.h"

namespace castor {

// Reads "betas", "eps" and "bias_correction" of "optimizer.params". Options has
// members of these names. InvalidArgument, in the reader's report: a rate out
// of range.
template <class Options>
void ReadMoments(JsonReader& params, Options* options) {
  params.Doubles("betas", absl::MakeSpan(options->betas),
                 {.min = 0, .max = 1, .max_open = true});
  // In fp32 less is 0, and where a gradient is always 0 its update is 0 / 0.
  params.Double("eps", &options->eps, {.min = 1e-37});
  params.Bool("bias_correction", &options->bias_correction);
}

// The first and the second moment.
inline std::vector<StateSlot> MomentSlots(MomentFormat format) {
  return StateSlots({"m", "v"}, format);
}

// `range` as the kernel has it, with what follows from such options and from
// the step; what else the kernel has is left as it is.
template <class KernelRange, class Options>
KernelRange MomentRange(const Options& options, const UpdateStep& step,
                        const UpdateRange& range) {
  KernelRange made;
  made.begin = range.begin;
  made.end = range.end;
  made.hyper.lr = step.lr * range.lr_factor;
  made.hyper.beta1 = options.betas[0];
  made.hyper.beta2 = options.betas[1];
  made.hyper.eps = options.eps;
  made.hyper.weight_decay = range.weight_decay;
  made.hyper.step = step.number - range.missed;
  made.hyper.bias_correction = options.bias_correction;
  return made;
}

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_MOMENTS_H_
