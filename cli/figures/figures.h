// Figures as JSON, under one name wherever they are told: in the files of
// --summary and on the standard output of commands with --json
// (docs/json.md).
#ifndef CASTOR_CLI_FIGURES_FIGURES_H_
#define CASTOR_CLI_FIGURES_FIGURES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"
#include "run/program/forecast.h"

namespace castor::cli {

// A budget's bytes; null where no budget would do, or none is set.
nlohmann::json BudgetJson(int64_t bytes);

// "compute", "bus_to_device", "bus_from_device", "host", "network".
absl::string_view ResourceKey(Resource resource);

// The share of a step in which the resource works; 0 where there is no step.
double BusyShare(const Forecast& forecast, Resource resource);

// What a plan foresees of a step: predicted_step_seconds,
// predicted_host_peak_bytes, binds, busy, blocks, kept_blocks,
// offloaded_blocks, planned_addresses.
nlohmann::json ForecastJson(const Forecast& forecast);

// What does not fit, and what would: refused, and what binds, "device_memory",
// "host_memory" or "machine_memory".
nlohmann::json RefusalJson(const Refusal& refusal);

// Prints a refusal beside the figures of what was asked, an object, with
// `status` as its error. Without a refusal it prints nothing.
void PrintRefusal(const std::optional<Refusal>& refused,
                  const absl::Status& status,
                  nlohmann::json asked = nlohmann::json::object());

// The text of a file or of standard output. A string in it may be no UTF-8.
std::string JsonText(const nlohmann::json& json);
void PrintJson(const nlohmann::json& json);

}  // namespace castor::cli

#endif  // CASTOR_CLI_FIGURES_FIGURES_H_
