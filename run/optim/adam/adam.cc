#include "run/optim/adam/adam.h"

#include "kernels/adam/adam.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/run.h"
#include "nlohmann/json.hpp"
#include "run/optim/moments.h"
#include "run/optim/state_update.h"

namespace castor {
namespace {

AdamOptions ReadOptions(JsonReader& params, AdamOptions options) {
  ReadMoments(params, &options);
  params.Bool("adam_w_mode", &options.adam_w_mode);
  return options;
}

std::shared_ptr<const Optimizer> ReadDecoupled(JsonReader& params,
                                               absl::string_view type,
                                               const StateFormats& formats) {
  const AdamOptions options =
      ReadOptions(params, {.type = type, .formats = formats});
  if (!options.adam_w_mode) {
    params.Fail("adam_w_mode",
                "AdamW's decay is decoupled: for L2 decay use type \"Adam\"");
  }
  return std::make_shared<Adam>(options);
}

}  // namespace

std::shared_ptr<const Optimizer> ReadAdamW(JsonReader& params,
                                           const StateFormats& formats) {
  return ReadDecoupled(params, kAdamWRow.name, formats);
}
std::shared_ptr<const Optimizer> ReadAdamW8bit(JsonReader& params,
                                               const StateFormats& formats) {
  return ReadDecoupled(params, kAdamW8bitRow.name, formats);
}
std::shared_ptr<const Optimizer> ReadAdamW16bit(JsonReader& params,
                                                const StateFormats& formats) {
  return ReadDecoupled(params, kAdamW16bitRow.name, formats);
}

std::shared_ptr<const Optimizer> ReadAdam(JsonReader& params,
                                          const StateFormats& formats) {
  return std::make_shared<Adam>(ReadOptions(
      params,
      {.adam_w_mode = false, .type = kAdamRow.name, .formats = formats}));
}

std::vector<StateSlot> Adam::SlotsIn(MomentFormat format) const {
  return MomentSlots(format);
}

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
  if (options_.formats != StateFormats()) {
    return UpdatePacked(step, ranges, arrays, context);
  }
  std::vector<kernels::AdamRange> adam;
  adam.reserve(ranges.size());
  for (const UpdateRange& range : ranges) {
    adam.push_back(MomentRange<kernels::AdamRange>(options_, step, range));
    adam.back().hyper.decoupled = options_.adam_w_mode;
  }
  kernels::AdamArgs::Source from;
  if (arrays.from != nullptr) {
    from = {.master = arrays.from->masters(),
            .m = arrays.from->slot(kM.slot()),
            .v = arrays.from->slot(kV.slot())};
  }
  return kernels::Run(
      context,
      kernels::AdamArgs{.payload = arrays.payload,
                        .dtype = arrays.dtype,
                        .gradient_sum = arrays.gradient_sum,
                        .gradient = arrays.gradient,
                        .master = arrays.states.masters(),
                        .m = arrays.states.slot(kM.slot()),
                        .v = arrays.states.slot(kV.slot()),
                        .from = from,
                        .grad_scale = arrays.gradient_scale,
                        .ranges = adam.data(),
                        .num_ranges = static_cast<int64_t>(adam.size()),
                        .not_finite = arrays.not_finite});
}

absl::Status Adam::UpdatePacked(const UpdateStep& step,
                                absl::Span<const UpdateRange> ranges,
                                const UpdateArrays& arrays,
                                const ExecContext& context) const {
  const auto hyper_of = [&](const UpdateRange& range) {
    kernels::AdamHyper hyper =
        MomentRange<kernels::AdamRange>(options_, step, range).hyper;
    hyper.decoupled = options_.adam_w_mode;
    return hyper;
  };
  return RunStateUpdate<kernels::PackedAdamArgs>(
      ranges, arrays, options_.formats, hyper_of, context);
}

}  // namespace castor
