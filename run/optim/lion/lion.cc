#include "run/optim/lion/lion.h"

#include "kernels/lion/lion.h"
#include "nlohmann/json.hpp"
#include "run/optim/state_update.h"

namespace castor {
namespace {

std::shared_ptr<const Optimizer> Read(JsonReader& params, LionOptions options) {
  params.Doubles("betas", absl::MakeSpan(options.betas),
                 {.min = 0, .max = 1, .max_open = true});
  return std::make_shared<Lion>(options);
}

}  // namespace

std::shared_ptr<const Optimizer> ReadLion(JsonReader& params,
                                          const StateFormats& formats) {
  return Read(params, {.type = kLionRow.name, .formats = formats});
}
std::shared_ptr<const Optimizer> ReadLion8bit(JsonReader& params,
                                              const StateFormats& formats) {
  return Read(params, {.type = kLion8bitRow.name, .formats = formats});
}

std::vector<StateSlot> Lion::SlotsIn(MomentFormat format) const {
  return StateSlots({"m"}, format);
}

OrderedJson Lion::Params() const { return {{"betas", options_.betas}}; }

absl::Status Lion::Update(const UpdateStep& step,
                          absl::Span<const UpdateRange> ranges,
                          const UpdateArrays& arrays,
                          const ExecContext& context) const {
  const auto hyper_of = [&](const UpdateRange& range) {
    return kernels::LionHyper{.lr = step.lr * range.lr_factor,
                              .beta1 = options_.betas[0],
                              .beta2 = options_.betas[1],
                              .weight_decay = range.weight_decay};
  };
  return RunStateUpdate<kernels::LionArgs>(ranges, arrays, options_.formats,
                                           hyper_of, context);
}

}  // namespace castor
