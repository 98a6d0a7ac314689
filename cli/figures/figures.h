// Figures as JSON, under one name wherever they are given: in the files of
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

// Returns a budget's bytes; null where no budget would suffice, or none is set.
nlohmann::json BudgetJson(int64_t bytes);

// Returns "compute", "bus_to_device", "bus_from_device", "host" or "network".
absl::string_view ResourceKey(Resource resource);

// Returns the share of a step in which the resource works; 0 where there is no
// step.
double BusyShare(const Forecast& forecast, Resource resource);

// Returns a plan's forecast of a step: predicted_step_seconds,
// predicted_host_peak_bytes, binds, busy, blocks, kept_blocks,
// offloaded_blocks, planned_addresses.
nlohmann::json ForecastJson(const Forecast& forecast);

// Returns what does not fit, and what would: "refused", and the memory that
// binds, "device_memory", "host_memory" or "machine_memory".
nlohmann::json RefusalJson(const Refusal& refusal);

// Prints a refusal beside `asked`, an object with the figures of the request,
// with `status` as its error. Without a refusal it prints nothing.
void PrintRefusal(const std::optional<Refusal>& refused,
                  const absl::Status& status,
                  nlohmann::json asked = nlohmann::json::object());

// Returns the text for a file or for standard output. A string in `json` need
// not be UTF-8.
std::string JsonText(const nlohmann::json& json);
void PrintJson(const nlohmann::json& json);

}  // namespace castor::cli

#endif  // CASTOR_CLI_FIGURES_FIGURES_H_
