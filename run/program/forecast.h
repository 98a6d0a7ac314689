// A plan's forecast of a step, in words: how long it takes, how much of that
// each resource works, and which of them binds it.
#ifndef CASTOR_RUN_PROGRAM_FORECAST_H_
#define CASTOR_RUN_PROGRAM_FORECAST_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/plan/addresses/expected_moves.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

struct Forecast {
  int64_t step_ns = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;
  std::array<int64_t, kNumResources> busy_ns = {};  // by Resource, of step_ns
  Resource binds = Resource::kCompute;              // works for longest
  bool measured = false;  // from durations that were measured, not estimated
  int world_size = 1;
  bool addresses = false;  // are planned
  // The blocks that a step moves on the device to make larger holes between
  // them, where addresses are not planned, as far as that is known.
  std::optional<ExpectedMoves> moves = std::nullopt;
  BlockCount blocks = {};  // of a micro batch, and how many of them are kept
};

struct WeightedForecast {
  const Forecast* forecast = nullptr;
  int64_t steps = 0;
};
// Returns the average over so many steps of each forecast, of which there is at
// least one. Peaks are the greatest, and values that cannot be averaged are the
// last one's.
Forecast MeanForecast(const std::vector<WeightedForecast>& forecasts);

// "1234", "0.22": whole ones from ten on.
std::string FormatTokensPerSecond(double tokens_per_second);

// The forecast of a plan that costs `cost` under `request`. Of its addresses it
// says nothing yet.
Forecast ForecastOf(const PlanCost& cost, const PlanRequest& request);
void TellAddresses(const Plan& plan, const PlanRequest& request,
                   Forecast* forecast);
// "addresses planned", "addresses not planned: ..."; empty: not known, and not
// planned.
std::string FormatAddresses(const Forecast& forecast);

// "0.240 s, 4267 tokens/s, bound by compute; busy: compute 97%, ...". The
// tokens are those of a step of all ranks; 0: not known. One rank has no
// network.
std::string FormatForecast(const Forecast& forecast, int64_t tokens_per_step);

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_FORECAST_H_
