#include "run/optim/adam/adam.h"

#include "kernels/adam/adam.h"
#include "kernels/run.h"
#include "nlohmann/json.hpp"
#include "run/optim/moments.h"

namespace castor {
namespace {

AdamOptions ReadOptions(JsonReader& params, AdamOptions options) {
  ReadMoments(params, &options);
  params.Bool("adam_w_mode", &options.adam_w_mode);
  return options;
}

}  // namespace

std::shared_ptr<const Optimizer> ReadAdamW(JsonReader& params) {
  const AdamOptions options = ReadOptions(params, {.type = kAdamWRow.name});
  if (!options.adam_w_mode) {
    params.Fail("adam_w_mode",
                "AdamW's decay is decoupled: for L2 decay use type \"Adam\"");
  }
  return std::make_shared<Adam>(options);
}

std::shared_ptr<const Optimizer> ReadAdam(JsonReader& params) {
  return std::make_shared<Adam>(
      ReadOptions(params, {.adam_w_mode = false, .type = kAdamRow.name}));
}

std::vector<StateSlot> Adam::slots() const { return MomentSlots(); }

OrderedJson Adam::Params() const {
  OrderedJson params = {{"betas", options_.betas},
                        {"eps", options_.eps},
                        {"adam_w_mode", options_.adam_w_mode}};
  // Checkpoints hold the settings that made them. Those that are older than
  // this key do not have it.
  if (!options_.bias_correction) params["bias_correction"] = false;
  return params;
}

absl::Status Adam::Update(const UpdateStep& step,
                          absl::Span<const UpdateRange> ranges,
                          const UpdateArrays& arrays,
                          const ExecContext& context) const {
  std::vector<kernels::AdamRange> adam;
  adam.reserve(ranges.size());
  for (const UpdateRange& range : ranges) {
    adam.push_back(MomentRange<kernels::AdamRange>(options_, step, range));
    adam.back().hyper.decoupled = options_.adam_w_mode;
  }
  kernels::AdamArgs::Source from;
  if (arrays.from != nullptr) {
    from = {.master = arrays.from->master,
            .m = arrays.from->slot(kM.slot()),
            .v = arrays.from->slot(kV.slot())};
  }
  return kernels::Run(
      context,
      kernels::AdamArgs{.payload = arrays.payload,
                        .dtype = arrays.dtype,
                        .gradient_sum = arrays.gradient_sum,
                        .gradient = arrays.gradient,
                        .master = arrays.states.master,
                        .m = arrays.states.slot(kM.slot()),
                        .v = arrays.states.slot(kV.slot()),
                        .from = from,
                        .grad_scale = arrays.gradient_scale,
                        .ranges = adam.data(),
                        .num_ranges = static_cast<int64_t>(adam.size()),
                        .not_finite = arrays.not_finite});
}

}  // namespace castor
