#include "run/optim/adafactor/adafactor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/adafactor/adafactor.h"
#include "kernels/run.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

// Returns the parameter's rate before it is scaled.
double RateOf(const AdafactorOptions& options, const UpdateStep& step,
              const UpdateRange& range) {
  const double rate = step.lr * range.lr_factor;
  if (!options.relative_step) return rate;
  const double t = static_cast<double>(step.number - range.missed);
  const double most = options.warmup_init ? 1e-6 * t : 1e-2;
  return rate * std::min(most, 1 / std::sqrt(t));
}

std::vector<kernels::AdafactorRange> RangesOf(
    const AdafactorOptions& options, const UpdateStep& step,
    absl::Span<const UpdateRange> ranges) {
  std::vector<kernels::AdafactorRange> of_kernel;
  of_kernel.reserve(ranges.size());
  for (const UpdateRange& range : ranges) {
    of_kernel.push_back({.begin = range.begin,
                         .end = range.end,
                         .parameter = range.parameter,
                         .first = range.first,
                         .size = range.margins.elements(),
                         .rows = range.margins.all_rows(),
                         .rows_of_matrix = range.margins.rows,
                         .columns = range.margins.columns,
                         .first_margin = range.first_margin,
                         .hyper = {.rate = RateOf(options, step, range),
                                   .scale_parameter = options.scale_parameter,
                                   .eps2 = options.eps[1],
                                   .clip_threshold = options.clip_threshold,
                                   .beta1 = options.beta1.value_or(0),
                                   .weight_decay = range.weight_decay}});
  }
  return of_kernel;
}

}  // namespace

std::shared_ptr<const Optimizer> ReadAdafactor(JsonReader& params,
                                               const StateFormats&) {
  AdafactorOptions options;
  // A user who gives a rate means it: transformers refuses both.
  options.relative_step = !params.Has("lr");
  params.Doubles("eps", absl::MakeSpan(options.eps), {.min = 0});
  constexpr double kLeast = 1e-37;
  if (!params.Failed("eps") && options.eps[0] < kLeast) {
    params.Fail(
        "eps",
        "the first is at least 1e-37: with less, squares that are all 0 "
        "would be divided by 0 in fp32");
  }
  params.Double("clip_threshold", &options.clip_threshold,
                {.min = 0, .min_open = true});
  params.Double("decay_rate", &options.decay_rate,
                {.min = -1e3, .max = 0, .max_open = true});
  if (const Json* value = params.Raw("beta1");
      value != nullptr && !value->is_null()) {
    double beta1 = 0;
    params.Double("beta1", &beta1, {.min = 0, .max = 1, .max_open = true});
    options.beta1 = beta1;
  }
  params.Bool("scale_parameter", &options.scale_parameter);
  params.Bool("relative_step", &options.relative_step);
  params.Bool("warmup_init", &options.warmup_init);
  if (options.warmup_init && !options.relative_step) {
    params.Fail("warmup_init", "goes with relative_step true",
                {params.PathOf("relative_step")});
  }
  return std::make_shared<Adafactor>(options);
}

absl::string_view Adafactor::name() const { return kAdafactorRow.name; }

std::vector<StateSlot> Adafactor::SlotsIn(MomentFormat) const {
  if (!options_.beta1.has_value()) return {};
  return {{"m"}};
}

OrderedJson Adafactor::Params() const {
  OrderedJson params = {{"eps", options_.eps},
                        {"clip_threshold", options_.clip_threshold},
                        {"decay_rate", options_.decay_rate},
                        {"beta1", nullptr},
                        {"scale_parameter", options_.scale_parameter},
                        {"relative_step", options_.relative_step},
                        {"warmup_init", options_.warmup_init}};
  if (options_.beta1.has_value()) params["beta1"] = *options_.beta1;
  return params;
}

int Adafactor::num_sums() const { return kernels::kAdafactorSums; }

absl::Status Adafactor::MeasureMargins(const UpdateStep& step,
                                       absl::Span<const UpdateRange> ranges,
                                       const UpdateArrays& arrays,
                                       kernels::ExactSum* sums,
                                       const ExecContext& context) const {
  const std::vector<kernels::AdafactorRange> of_kernel =
      RangesOf(options_, step, ranges);
  return kernels::Run(context,
                      kernels::AdafactorMarginsArgs{
                          .dtype = arrays.dtype,
                          .payload = arrays.payload,
                          .gradient_sum = arrays.gradient_sum,
                          .grad_scale = arrays.gradient_scale,
                          .ranges = of_kernel.data(),
                          .num_ranges = static_cast<int64_t>(of_kernel.size()),
                          .sums = sums});
}

void Adafactor::UpdateMargins(const UpdateStep& step,
                              const MarginsUpdate& update) const {
  const double t = static_cast<double>(step.number - update.missed);
  kernels::UpdateAdafactorMargins(
      {.rows = update.margins.all_rows(),
       .rows_of_matrix = update.margins.rows,
       .columns = update.margins.columns,
       .beta2 = 1 - std::pow(t, options_.decay_rate),
       .eps1 = options_.eps[0]},
      update.sums, update.kept, update.factors);
}

absl::Status Adafactor::Measure(const UpdateStep& step,
                                absl::Span<const UpdateRange> ranges,
                                const UpdateArrays& arrays,
                                kernels::ExactSum* sums,
                                const ExecContext& context) const {
  const std::vector<kernels::AdafactorRange> of_kernel =
      RangesOf(options_, step, ranges);
  return kernels::Run(context,
                      kernels::AdafactorMeasureArgs{
                          .dtype = arrays.dtype,
                          .payload = arrays.payload,
                          .gradient_sum = arrays.gradient_sum,
                          .master = arrays.states.masters(),
                          .factors = arrays.factors,
                          .grad_scale = arrays.gradient_scale,
                          .ranges = of_kernel.data(),
                          .num_ranges = static_cast<int64_t>(of_kernel.size()),
                          .sums = sums});
}

absl::Status Adafactor::Update(const UpdateStep& step,
                               absl::Span<const UpdateRange> ranges,
                               const UpdateArrays& arrays,
                               const ExecContext& context) const {
  const std::vector<kernels::AdafactorRange> of_kernel =
      RangesOf(options_, step, ranges);
  return kernels::Run(
      context,
      kernels::AdafactorApplyArgs{
          .dtype = arrays.dtype,
          .payload = arrays.payload,
          .gradient_sum = arrays.gradient_sum,
          .master = arrays.states.masters(),
          .m = options_.beta1.has_value() ? arrays.states.slot(kM.slot())
                                          : nullptr,
          .factors = arrays.factors,
          .grad_scale = arrays.gradient_scale,
          .ranges = of_kernel.data(),
          .num_ranges = static_cast<int64_t>(of_kernel.size()),
          .sums = arrays.sums,
          .not_finite = arrays.not_finite});
}

}  // namespace castor
