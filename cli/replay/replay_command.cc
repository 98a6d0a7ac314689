#include "cli/replay/replay_command.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/enough_memory.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/figures/figures.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/output_file.h"
#include "cli/replay/replay_report.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/bus_limits.h"
#include "memory/plan/policy/policies.h"
#include "memory/plan/replay/recorded_run.h"
#include "run/replay/replay.h"
#include "tracer/trace_file.h"

namespace castor::cli {
namespace {

constexpr int64_t kSweepPoints = 16;

absl::StatusOr<Conditions> ParseConditions(const ReplayArguments& arguments) {
  Conditions conditions;
  for (const auto& [text, slot, name] :
       {std::tuple(&arguments.device_memory, &conditions.device_bytes,
                   "--device-memory"),
        std::tuple(&arguments.host_memory, &conditions.host_bytes,
                   "--host-memory")}) {
    if (text->empty()) continue;
    const absl::StatusOr<int64_t> bytes = ParseBytes(*text);
    CASTOR_RETURN_IF_ERROR(Annotate(name, bytes.status()));
    *slot = *bytes;
  }
  if (!arguments.policy.empty()) {
    const absl::StatusOr<const PlacementPolicy*> policy =
        PolicyNamed(arguments.policy);
    CASTOR_RETURN_IF_ERROR(Annotate("--policy", policy.status()));
    conditions.policy = *policy;
  }
  if (!arguments.bus_gbps.empty()) {
    double gbps = 0;
    if (!absl::SimpleAtod(arguments.bus_gbps, &gbps) ||
        !(gbps >= kLeastBusGbps && gbps <= kMostBusGbps)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--bus-gbps: \"", arguments.bus_gbps, "\" is no speed in GB/s from ",
          kLeastBusGbps, " to ", kMostBusGbps));
    }
    conditions.bus_bytes_per_s = gbps * 1e9;
  }
  if (!arguments.prefetch.empty()) {
    bool prefetch = false;
    if (!absl::SimpleAtob(arguments.prefetch, &prefetch)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--prefetch: \"", arguments.prefetch,
                       "\" is neither true nor false"));
    }
    conditions.prefetch = prefetch;
  }
  if (!arguments.activation_checkpointing.empty()) {
    conditions.checkpointing =
        CheckpointingNamed(arguments.activation_checkpointing);
    if (!conditions.checkpointing.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--activation-checkpointing: \"", arguments.activation_checkpointing,
          "\" is none of ", absl::StrJoin(kActivationCheckpointings, ", ")));
    }
  }
  return conditions;
}

absl::Status WriteFiles(const ReplayArguments& arguments,
                        const RecordedRun& run, const std::string& title,
                        const std::vector<SweepPoint>& points) {
  if (!arguments.csv_path.empty()) {
    CASTOR_RETURN_IF_ERROR(Annotate(
        "--csv", WriteWhole(arguments.csv_path, SweepCsv(run, points))));
    if (!arguments.json) {
      std::printf("  table: %s\n", arguments.csv_path.c_str());
    }
  }
  if (!arguments.picture_path.empty()) {
    CASTOR_RETURN_IF_ERROR(Annotate(
        "--picture",
        WriteWhole(arguments.picture_path, SweepSvg(run, title, points))));
    if (!arguments.json) {
      std::printf("  picture: %s\n", arguments.picture_path.c_str());
    }
  }
  return absl::OkStatus();
}

void ShowProgress(int64_t done, int64_t all) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\rplanning %ld of %ld%s", static_cast<long>(done),
               static_cast<long>(all), done == all ? "\r\033[K" : "");
  std::fflush(stderr);
}

void PrintTitle(const std::string& name, const StepTrace& trace) {
  std::printf("%s: %ld operators, %ld chunks%s\n", name.c_str(),
              static_cast<long>(trace.ops.size()),
              static_cast<long>(trace.chunks.size()),
              trace.training ? "" : "; an evaluation");
}

absl::Status ReplayOrSay(const ReplayArguments& arguments) {
  if (!arguments.sweep && !arguments.picture_path.empty()) {
    return absl::InvalidArgumentError(
        "--picture draws a sweep: give --sweep too");
  }
  if (arguments.sweep && !arguments.device_memory.empty()) {
    return absl::InvalidArgumentError(
        "--sweep goes over the device's budgets itself: leave out "
        "--device-memory");
  }
  CASTOR_ASSIGN_OR_RETURN(const Conditions conditions,
                          ParseConditions(arguments));
  for (const auto& [path, name] :
       {std::pair(&arguments.csv_path, "--csv"),
        std::pair(&arguments.picture_path, "--picture")}) {
    if (path->empty()) continue;
    CASTOR_RETURN_IF_ERROR(Annotate(
        name,
        CheckReplacesNone(
            *path, {{"the trace itself", arguments.trace_path},
                    {"the table of --csv",
                     path == &arguments.csv_path ? "" : arguments.csv_path}})));
    CASTOR_RETURN_IF_ERROR(Annotate(name, CheckWritable(*path)));
  }
  CASTOR_ASSIGN_OR_RETURN(const TraceContents contents,
                          ReadTraceFile(arguments.trace_path));
  absl::StatusOr<RecordedRun> read = ReadRecordedRun(contents);
  CASTOR_RETURN_IF_ERROR(Annotate(arguments.trace_path, read.status()));
  const RecordedRun& run = *read;
  std::string name = contents.run.has_value() && !contents.run->title.empty()
                         ? contents.run->title
                         : arguments.trace_path;
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  std::optional<Refusal> refused;
  if (!arguments.sweep) {
    absl::StatusOr<ReplayResult> result = Replay(run, conditions, &refused);
    if (arguments.json) PrintRefusal(refused, result.status());
    CASTOR_RETURN_IF_ERROR(result.status());
    if (arguments.json) {
      PrintJson(ReplayJson(run, *result));
    } else {
      PrintTitle(name, run.training.trace);
      std::fputs(ReplayTable(run, *result).c_str(), stdout);
    }
    const SweepPoint point = {result->request.device_budget_bytes,
                              result->policy, *std::move(result)};
    return WriteFiles(arguments, run, name, {point});
  }
  // The one that looks farthest ahead comes first.
  std::vector<const PlacementPolicy*> policies;
  for (const PlacementPolicy& policy : Policies()) {
    if (policy.in_configurations) policies.insert(policies.begin(), &policy);
  }
  if (conditions.policy.has_value()) policies = {*conditions.policy};
  const absl::StatusOr<std::vector<SweepPoint>> swept =
      Sweep(run, conditions, policies, kSweepPoints, ShowProgress, &refused);
  if (arguments.json) PrintRefusal(refused, swept.status());
  CASTOR_RETURN_IF_ERROR(swept.status());
  const std::vector<SweepPoint>& points = *swept;
  if (arguments.json) {
    nlohmann::json sweep = nlohmann::json::array();
    for (const SweepPoint& point : points) {
      sweep.push_back(ReplayJson(run, point.result));
    }
    PrintJson({{"sweep", std::move(sweep)}});
  } else {
    PrintTitle(name, run.training.trace);
    std::fputs(SweepTable(run, points).c_str(), stdout);
    std::fputs(SweepPicture(points).c_str(), stdout);
  }
  return WriteFiles(arguments, run, name, points);
}

}  // namespace

int ReplayTrace(const ReplayArguments& arguments) {
  const absl::Status status =
      IfMemoryAllows(absl::StrCat("replaying ", arguments.trace_path),
                     [&] { return ReplayOrSay(arguments); });
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
