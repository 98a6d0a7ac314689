// A recorded run planned and timed under other conditions, without a device.
#ifndef CASTOR_RUN_REPLAY_REPLAY_H_
#define CASTOR_RUN_REPLAY_REPLAY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/plan.h"
#include "memory/plan/policy/policies.h"
#include "memory/plan/replay/recorded_run.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

// The conditions that are to differ from the run's; absent: as they were.
struct Conditions {
  std::optional<int64_t>
      device_bytes;  // kUnlimitedBytes: what everything takes
  std::optional<int64_t> host_bytes;
  std::optional<const PlacementPolicy*> policy;
  std::optional<double> bus_bytes_per_s;  // each way
  std::optional<bool> prefetch;
  std::optional<ActivationCheckpointing> checkpointing;
};

struct ReplayResult {
  const PlacementPolicy* policy = nullptr;
  // The run's, or that of the same step with other blocks kept.
  std::shared_ptr<const StepTrace> trace;
  PlanRequest request;  // for it
  Plan plan;
  PlanCost cost;
  std::string peak_operator;
  int64_t least_h2d_bytes = 0;  // of any plan with the same sides
  int64_t device_sides = 0;     // chunks with their optimizer states there
  bool own = false;             // the very plan that the run followed
};

// Under the run's own conditions its own plan, else the planner's.
// ResourceExhausted: it does not fit, in the words of `castor train`, and
// *refused (may be null) has it in figures.
// InvalidArgument: another way of checkpointing activations is asked for, and
// the trace says nothing of the model's blocks.
absl::StatusOr<ReplayResult> Replay(const RecordedRun& run,
                                    const Conditions& conditions,
                                    std::optional<Refusal>* refused = nullptr);

// The smallest budget of the policies, what everything takes, and between them
// `points` in all, at equal ratios; and the run's own budget, if it is there.
std::vector<int64_t> SweepBudgets(
    const RecordedRun& run, const Conditions& conditions,
    const std::vector<const PlacementPolicy*>& policies, int64_t points);

struct SweepPoint {
  int64_t device_bytes = 0;
  const PlacementPolicy* policy = nullptr;
  ReplayResult result;
};

// Returns the points that fit, by budget, then by policy. Each policy starts at
// its own smallest budget too. `progress`, where given, is told how much is
// done. ResourceExhausted: nothing fits, in train's words for the first policy;
// *refused (may be null) has them in figures.
absl::StatusOr<std::vector<SweepPoint>> Sweep(
    const RecordedRun& run, const Conditions& conditions,
    const std::vector<const PlacementPolicy*>& policies, int64_t points,
    const std::function<void(int64_t done, int64_t all)>& progress,
    std::optional<Refusal>* refused = nullptr);

}  // namespace castor

#endif  // CASTOR_RUN_REPLAY_REPLAY_H_
