#include "cli/plan/advice/what_would_help.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "cli/figures/figures.h"
#include "run/optim/optimizers.h"

namespace castor::cli {
namespace {

constexpr double kLeastGain = 0.01;  // of a step
constexpr int kMostThreads = 8;

// Some more of a memory: 2 GiB of a large one, a quarter of a small one.
int64_t SomeMore(int64_t bytes) {
  return std::min<int64_t>(int64_t{2} << 30, std::max<int64_t>(1, bytes / 4));
}

// Returns the changes that may help, each with the arguments that ask for it.
std::vector<Change> Possible(const PlanArguments& arguments,
                             const PlannedRun& run) {
  std::vector<Change> changes;
  const auto add = [&](std::string kind, std::string text) -> Change& {
    return changes.emplace_back(Change{.kind = std::move(kind),
                                       .text = std::move(text),
                                       .arguments = arguments});
  };
  const Config& config = run.config;
  const bool gpu = run.machine.has_value() && run.machine->gpu.has_value();
  if (const int64_t now = config.memory.device_memory; now < kUnlimitedBytes) {
    const int64_t more = SomeMore(now);
    Change& change = add("device_memory", absl::StrCat(FormatBytes(more),
                                                       " more device memory"));
    SetDeviceMemory(config, now + more, &change);
    change.machine.more_device_bytes = more;
  }
  if (const int64_t now = config.memory.host_memory; now < kUnlimitedBytes) {
    const int64_t ranks = run.ranks_of_machine();
    Change& change = add("host_memory", "twice as much host memory");
    if (run.asked.memory.host_memory < kUnlimitedBytes) {
      Set(absl::StrCat("memory.host_memory=", 2 * ranks * now), &change);
    }
    if (!arguments.machine.ram.empty()) {
      change.arguments.machine.ram = absl::StrCat(2 * run.machine->ram_bytes);
      change.flags.insert(change.flags.end(),
                          {"--ram", change.arguments.machine.ram});
    }
  }
  if (gpu || config.device.bus_gbps > 0) {
    add("bus", "a bus twice as fast").machine.bus = 2;
  }
  if (gpu) {
    add("host_rate", "host memory twice as fast").machine.host = 2;
  }
  if (gpu && config.world_size() > 1) {
    add("network", "a network twice as fast").machine.network = 2;
  }
  const int64_t micro = config.train_micro_batch_size_per_gpu;
  const int64_t batch = micro * config.gradient_accumulation_steps;
  for (const int64_t by : {-1, 1}) {
    int64_t other = micro + by;
    while (other > 0 && other <= batch && batch % other != 0) other += by;
    if (other <= 0 || other > batch) continue;
    Change& change = add("micro_batch", absl::StrCat("a micro batch of ", other,
                                                     " instead of ", micro));
    SetMicroBatch(other, batch / other, &change);
  }
  if (config.memory.activation_checkpointing !=
      ActivationCheckpointing::kAuto) {
    Set("memory.activation_checkpointing=auto",
        &add("activation_checkpointing",
             "activations kept, offloaded or made again as there is room"));
  }
  for (const StateFormats& formats :
       SmallerFormats(*config.optimizer.rule, config.dtype())) {
    SetFormats(config, formats, &add("state_format", ""));
  }
  return changes;
}

// Sets the change's step. False: it does not fit, or gains too little.
absl::StatusOr<bool> Gains(double now_seconds, Change* change) {
  const double enough = (1 - kLeastGain) * now_seconds;
  for (const AdmitDepth depth : {AdmitDepth::kBound, AdmitDepth::kPlan}) {
    const auto run = PlanOf(change->arguments, depth, change->machine);
    if (absl::IsResourceExhausted(run.status())) return false;
    CASTOR_RETURN_IF_ERROR(run.status());
    const AdmissionReport& admission = run->admission();
    change->step_seconds =
        depth == AdmitDepth::kBound
            ? 1e-9 * static_cast<double>(admission.least_step_ns)
            : run->StepSeconds();
    if (change->step_seconds > enough) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<Change>> WhatWouldHelp(
    const PlanArguments& arguments, const PlannedRun& run,
    double step_seconds) {
  std::vector<Change> changes = Possible(arguments, run);
  std::vector<absl::StatusOr<bool>> gains(changes.size(), false);
  ThreadPool pool(std::clamp(AvailableProcessors(), 1, kMostThreads));
  pool.ParallelFor(static_cast<int64_t>(changes.size()), [&](int64_t i, int) {
    gains[i] = Gains(step_seconds, &changes[i]);
  });
  std::vector<Change> found;
  for (size_t i = 0; i < changes.size(); ++i) {
    CASTOR_RETURN_IF_ERROR(gains[i].status());
    if (*gains[i]) found.push_back(std::move(changes[i]));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Change& a, const Change& b) {
                     return a.step_seconds < b.step_seconds;
                   });
  return found;
}

std::string FormatBinding(const Forecast& forecast) {
  std::string text = absl::StrFormat(
      "what binds: %s, which works for %.0f%% of a step",
      ResourceName(forecast.binds), 100 * BusyShare(forecast, forecast.binds));
  if (forecast.binds != Resource::kCompute) {
    absl::StrAppendFormat(&text, " (compute for %.0f%%)",
                          100 * BusyShare(forecast, Resource::kCompute));
  }
  return text + "\n";
}

std::string FormatHelps(const std::vector<Change>& changes,
                        double step_seconds) {
  if (changes.empty()) {
    return "no other memory, bus, host, micro batch or format of states would "
           "make a step 1% shorter\n";
  }
  std::string text = "what would help, each alone, planned again:\n";
  for (const Change& change : changes) {
    absl::StrAppendFormat(
        &text, "  %s: %.3g s a step, %.0f%% shorter%s%s\n", change.text,
        change.step_seconds, 100 * (1 - change.step_seconds / step_seconds),
        change.other_results ? " (other results)" : "",
        change.flags.empty() || change.kind == "device_memory"
            ? ""
            : absl::StrCat("; ", absl::StrJoin(change.flags, " ")));
  }
  return text;
}

}  // namespace castor::cli
