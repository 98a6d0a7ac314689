#include "run/optim/sgd/sgd.h"

#include "absl/strings/str_cat.h"
#include "kernels/sgd/sgd.h"
#include "nlohmann/json.hpp"
#include "run/optim/state_update.h"

namespace castor {

std::shared_ptr<const Optimizer> ReadSgd(JsonReader& params,
                                         const StateFormats& formats) {
  SgdOptions options = {.formats = formats};
  // A momentum of 1 or more would let the sum of gradients grow without end.
  params.Double("momentum", &options.momentum,
                {.min = 0, .max = 1, .max_open = true});
  params.Double("dampening", &options.dampening, {.min = 0, .max = 1});
  params.Bool("nesterov", &options.nesterov);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    params.Fail("nesterov", "wants a momentum above 0 and a dampening of 0",
                {params.PathOf("momentum"), params.PathOf("dampening")});
  }
  if (options.momentum == 0 && formats.moments != MomentFormat::kFloat32) {
    params.Fail("momentum",
                absl::StrCat("is 0, so that nothing is kept that a "
                             "state_format.moments of \"",
                             MomentFormatName(formats.moments),
                             "\" could be of: give a momentum, or leave "
                             "it out"));
  }
  return std::make_shared<Sgd>(options);
}

absl::string_view Sgd::name() const { return kSgdRow.name; }

std::vector<StateSlot> Sgd::SlotsIn(MomentFormat format) const {
  if (options_.momentum == 0) return {};
  return StateSlots({"momentum"}, format);
}

OrderedJson Sgd::Params() const {
  return {{"momentum", options_.momentum},
          {"dampening", options_.dampening},
          {"nesterov", options_.nesterov}};
}

absl::Status Sgd::Update(const UpdateStep& step,
                         absl::Span<const UpdateRange> ranges,
                         const UpdateArrays& arrays,
                         const ExecContext& context) const {
  const auto hyper_of = [&](const UpdateRange& range) {
    return kernels::SgdHyper{.lr = step.lr * range.lr_factor,
                             .momentum = options_.momentum,
                             .dampening = options_.dampening,
                             .nesterov = options_.nesterov,
                             .weight_decay = range.weight_decay,
                             .step = step.number - range.missed};
  };
  return RunStateUpdate<kernels::SgdArgs>(ranges, arrays, options_.formats,
                                          hyper_of, context,
                                          options_.momentum == 0 ? 0 : 1);
}

}  // namespace castor
