#include "run/optim/lamb/lamb.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/lamb/lamb.h"
#include "kernels/run.h"
#include "nlohmann/json.hpp"
#include "run/optim/moments.h"

namespace castor {
namespace {

std::vector<kernels::LambRange> RangesOf(const LambOptions& options,
                                         const UpdateStep& step,
                                         absl::Span<const UpdateRange> ranges) {
  std::vector<kernels::LambRange> lamb;
  lamb.reserve(ranges.size());
  for (const UpdateRange& range : ranges) {
    lamb.push_back(MomentRange<kernels::LambRange>(options, step, range));
    lamb.back().parameter = range.parameter;
    lamb.back().hyper.max_coeff = options.max_coeff;
    lamb.back().hyper.min_coeff = options.min_coeff;
  }
  return lamb;
}

}  // namespace

std::shared_ptr<const Optimizer> ReadLamb(JsonReader& params,
                                          const StateFormats&) {
  LambOptions options;
  ReadMoments(params, &options);
  params.Double("max_coeff", &options.max_coeff,
                {.min = 0, .max = 1e6, .min_open = true});
  params.Double("min_coeff", &options.min_coeff, {.min = 0, .max = 1e6});
  if (options.min_coeff > options.max_coeff) {
    params.Fail(
        "min_coeff",
        absl::StrCat("is above max_coeff, which is ", options.max_coeff),
        {params.PathOf("max_coeff")});
  }
  return std::make_shared<Lamb>(options);
}

absl::string_view Lamb::name() const { return kLambRow.name; }

std::vector<StateSlot> Lamb::SlotsIn(MomentFormat format) const {
  return MomentSlots(format);
}

OrderedJson Lamb::Params() const {
  return {{"betas", options_.betas},
          {"eps", options_.eps},
          {"bias_correction", options_.bias_correction},
          {"max_coeff", options_.max_coeff},
          {"min_coeff", options_.min_coeff}};
}

int Lamb::num_sums() const { return kernels::kLambSums; }

absl::Status Lamb::Measure(const UpdateStep& step,
                           absl::Span<const UpdateRange> ranges,
                           const UpdateArrays& arrays, kernels::ExactSum* sums,
                           const ExecContext& context) const {
  const std::vector<kernels::LambRange> lamb = RangesOf(options_, step, ranges);
  return kernels::Run(
      context,
      kernels::LambMeasureArgs{.dtype = arrays.dtype,
                               .payload = arrays.payload,
                               .gradient_sum = arrays.gradient_sum,
                               .master = arrays.states.masters(),
                               .m = arrays.states.slot(kM.slot()),
                               .v = arrays.states.slot(kV.slot()),
                               .grad_scale = arrays.gradient_scale,
                               .ranges = lamb.data(),
                               .num_ranges = static_cast<int64_t>(lamb.size()),
                               .sums = sums,
                               .not_finite = arrays.not_finite});
}

absl::Status Lamb::Update(const UpdateStep& step,
                          absl::Span<const UpdateRange> ranges,
                          const UpdateArrays& arrays,
                          const ExecContext& context) const {
  const std::vector<kernels::LambRange> lamb = RangesOf(options_, step, ranges);
  return kernels::Run(
      context,
      kernels::LambApplyArgs{.dtype = arrays.dtype,
                             .payload = arrays.payload,
                             .master = arrays.states.masters(),
                             .m = arrays.states.slot(kM.slot()),
                             .v = arrays.states.slot(kV.slot()),
                             .grad_scale = arrays.gradient_scale,
                             .ranges = lamb.data(),
                             .num_ranges = static_cast<int64_t>(lamb.size()),
                             .sums = arrays.sums,
                             .not_finite = arrays.not_finite});
}

}  // namespace castor
