// Any trace that can be read is replayed, refused, or said not to be one that
// can be planned: under its own conditions, under others, and over budgets.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/units.h"
#include "cli/replay/replay_report.h"
#include "memory/plan/replay/recorded_run.h"
#include "run/replay/replay.h"
#include "tracer/trace_file.h"

namespace castor::cli {
namespace {

void CheckReplay(const RecordedRun& run, const Conditions& conditions) {
  const auto result = Replay(run, conditions);
  if (!result.ok()) {
    CASTOR_CHECK(result.status().code() ==
                     absl::StatusCode::kResourceExhausted ||
                 result.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  CASTOR_CHECK(result->cost.step_ns >= 0 && result->cost.stall_ns >= 0);
  CASTOR_CHECK(result->cost.device_peak_bytes <=
               result->request.device_budget_bytes);
  CASTOR_CHECK(!ReplayTable(run, *result).empty());
}

void CheckRun(const RecordedRun& run) {
  CheckReplay(run, {});
  std::vector<const PlacementPolicy*> policies;
  for (const PlacementPolicy& policy : Policies()) {
    policies.push_back(&policy);
    std::vector<int64_t> budgets = SweepBudgets(run, {}, {&policy}, 2);
    budgets.push_back(kUnlimitedBytes);
    for (const int64_t bytes : budgets) {
      CheckReplay(run, {.device_bytes = bytes,
                        .host_bytes = kUnlimitedBytes,
                        .policy = &policy,
                        .bus_bytes_per_s = 1e6,
                        .prefetch = policies.size() % 2 == 1,
                        .checkpointing = {}});
    }
  }
  const auto sweep = Sweep(run, {}, policies, 4, nullptr);
  if (!sweep.ok()) return;
  CASTOR_CHECK(!SweepTable(run, *sweep).empty());
  CASTOR_CHECK(!SweepPicture(*sweep).empty());
  CASTOR_CHECK(!SweepCsv(run, *sweep).empty());
  CASTOR_CHECK(!SweepSvg(run, "fuzz", *sweep).empty());
}

}  // namespace
}  // namespace castor::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto contents = castor::ParseTrace(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!contents.ok()) return 0;
  const auto run = castor::ReadRecordedRun(*contents);
  if (!run.ok()) {
    CASTOR_CHECK(run.status().code() == absl::StatusCode::kInvalidArgument ||
                 run.status().code() == absl::StatusCode::kFailedPrecondition);
    return 0;
  }
  constexpr size_t kMostOperators = 1000;  // more only takes longer
  if (run->training.trace.ops.size() <= kMostOperators) {
    castor::cli::CheckRun(*run);
  }
  return 0;
}
