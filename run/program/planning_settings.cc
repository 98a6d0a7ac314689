#include "run/program/planning_settings.h"

namespace castor {
namespace {

using Json = nlohmann::json;

Json SpeculationSettings(const SpeculationOptions& speculation) {
  const auto& [on, first_wait, longest_wait, least_gain] = speculation;
  return {{"on", on},
          {"first_wait", first_wait},
          {"longest_wait", longest_wait},
          {"least_gain", least_gain}};
}

Json WatchSettings(const WatchLimits& watch) {
  const auto& [settling_steps, most_settling_steps, drift_steps] = watch;
  return {{"settling_steps", settling_steps},
          {"most_settling_steps", most_settling_steps},
          {"drift_steps", drift_steps}};
}

}  // namespace

Json PlanningSettings(const PlanningOptions& planning) {
  // Options that only tests give are not compared.
  const auto& [speculation, watch, step_seconds, settled_durations, addresses,
               beside, offloaded_blocks, mistake] = planning;
  return {{"speculation", SpeculationSettings(speculation)},
          {"watch", WatchSettings(watch)},
          {"plan_addresses", addresses},
          {"plan_beside", beside},
          {"offloaded_blocks", offloaded_blocks}};
}

}  // namespace castor
