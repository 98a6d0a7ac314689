#include "run/program/forecast.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"

namespace castor {

Forecast ForecastOf(const PlanCost& cost, const PlanRequest& request) {
  return {.step_ns = cost.step_ns,
          .device_peak_bytes = cost.device_peak_bytes,
          .host_peak_bytes = cost.host_bytes,
          .busy_ns = cost.busy_ns,
          .binds = cost.Busiest(),
          .measured = request.trace->measured,
          .world_size = request.world_size,
          .blocks = CountBlocks(*request.trace)};
}

void TellAddresses(const Plan& plan, const PlanRequest& request,
                   Forecast* forecast) {
  forecast->addresses = plan.addresses.has_value();
  forecast->moves.reset();
  if (!forecast->addresses && request.trace->training) {
    forecast->moves = ExpectMoves(plan, request);
  }
}

Forecast MeanForecast(const std::vector<WeightedForecast>& forecasts) {
  Forecast mean = *forecasts.back().forecast;
  if (forecasts.size() == 1) return mean;
  double all = 0, step_ns = 0;
  std::array<double, kNumResources> busy_ns = {};
  for (const auto& [forecast, steps] : forecasts) {
    const auto weight = static_cast<double>(steps);
    all += weight;
    step_ns += weight * static_cast<double>(forecast->step_ns);
    for (int i = 0; i < kNumResources; ++i) {
      busy_ns[i] += weight * static_cast<double>(forecast->busy_ns[i]);
    }
    mean.device_peak_bytes =
        std::max(mean.device_peak_bytes, forecast->device_peak_bytes);
    mean.host_peak_bytes =
        std::max(mean.host_peak_bytes, forecast->host_peak_bytes);
    mean.measured &= forecast->measured;
    mean.addresses &= forecast->addresses;
  }
  mean.step_ns = std::llround(step_ns / all);
  for (int i = 0; i < kNumResources; ++i) {
    mean.busy_ns[i] = std::llround(busy_ns[i] / all);
  }
  mean.binds = static_cast<Resource>(
      std::max_element(mean.busy_ns.begin(), mean.busy_ns.end()) -
      mean.busy_ns.begin());
  return mean;
}

std::string FormatTokensPerSecond(double tokens_per_second) {
  return tokens_per_second < 10 ? absl::StrFormat("%.2g", tokens_per_second)
                                : absl::StrFormat("%.0f", tokens_per_second);
}

std::string FormatAddresses(const Forecast& forecast) {
  if (forecast.addresses) return "addresses planned";
  if (!forecast.moves.has_value()) return "";
  return absl::StrFormat(
      "addresses not planned: blocks are expected to be moved %d times a step, "
      "%s in all",
      forecast.moves->times, FormatBytes(forecast.moves->bytes));
}

std::string FormatForecast(const Forecast& forecast, int64_t tokens_per_step) {
  const double seconds = static_cast<double>(forecast.step_ns) * 1e-9;
  std::string text = seconds < 100 ? absl::StrFormat("%.3g s", seconds)
                                   : absl::StrFormat("%.0f s", seconds);
  if (tokens_per_step > 0 && seconds > 0) {
    absl::StrAppend(
        &text, ", ",
        FormatTokensPerSecond(static_cast<double>(tokens_per_step) / seconds),
        " tokens/s");
  }
  absl::StrAppend(&text, ", bound by ", ResourceName(forecast.binds),
                  "; busy: ");
  const int shown = forecast.world_size > 1 ? kNumResources : kNumResources - 1;
  static_assert(static_cast<int>(Resource::kNetwork) == kNumResources - 1);
  for (int i = 0; i < shown; ++i) {
    const double share = seconds > 0
                             ? static_cast<double>(forecast.busy_ns[i]) /
                                   static_cast<double>(forecast.step_ns)
                             : 0;
    absl::StrAppendFormat(&text, "%s%s %.0f%%", i == 0 ? "" : ", ",
                          ResourceName(static_cast<Resource>(i)), 100 * share);
  }
  return text;
}

}  // namespace castor
