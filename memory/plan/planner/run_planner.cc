#include "memory/plan/planner/run_planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace castor {
namespace {

// Returns the request with which an evaluation is admitted.
PlanRequest Safe(PlanRequest evaluation, const AdmissionRule& rule,
                 const PlanRequest& training) {
  evaluation.device_budget_bytes = training.device_budget_bytes;
  evaluation.host_budget_bytes = training.host_budget_bytes;
  evaluation.fixed_side = SafeSides(rule, training);
  // Chunks of activations come last, and are training's alone.
  evaluation.fixed_side.resize(evaluation.trace->chunks.size(), Side::kHost);
  return evaluation;
}

}  // namespace

int64_t SmallestRunBudget(const AdmissionRule& rule, const RunRequest& run) {
  int64_t bytes = Admit(rule, run.training).smallest_device_budget_bytes;
  for (const PlanRequest& other : run.other_training) {
    bytes = std::max(bytes, Admit(rule, other).smallest_device_budget_bytes);
  }
  for (const PlanRequest& evaluation : run.evaluations) {
    const Admission admission =
        Admit(rule, Safe(evaluation, rule, run.training));
    bytes = std::max(bytes, admission.smallest_device_budget_bytes);
  }
  return bytes;
}

bool FitsRun(const AdmissionRule& rule, const RunRequest& run) {
  if (Admit(rule, run.training).refusal.has_value()) return false;
  for (const PlanRequest& other : run.other_training) {
    if (Admit(rule, other).refusal.has_value()) return false;
  }
  return std::none_of(run.evaluations.begin(), run.evaluations.end(),
                      [&](const PlanRequest& evaluation) {
                        return Admit(rule, Safe(evaluation, rule, run.training))
                            .refusal.has_value();
                      });
}

int64_t RunBudgets::unlimited() const {
  return smallest < kUnlimitedBytes ? std::max(everything, smallest)
                                    : everything;
}

RunBudgets FindRunBudgets(const AdmissionRule& rule,
                          const RunRequestFor& request_for) {
  return {.smallest = SmallestRunBudget(rule, request_for(rule)),
          .everything = SmallestRunBudget(kEverythingOnDevice,
                                          request_for(kEverythingOnDevice))};
}

std::optional<RefusedStep> RefuseRun(const AdmissionRule& rule,
                                     const RunRequest& run) {
  PlanRequest request = run.training;
  std::optional<Refusal> refusal = Admit(rule, request).refusal;
  for (size_t i = 0; i < run.other_training.size() && !refusal.has_value();
       ++i) {
    request = run.other_training[i];
    refusal = Admit(rule, request).refusal;
  }
  for (size_t i = 0; i < run.evaluations.size() && !refusal.has_value(); ++i) {
    request = Safe(run.evaluations[i], rule, run.training);
    refusal = Admit(rule, request).refusal;
  }
  if (!refusal.has_value()) return std::nullopt;
  // The smallest budget of the refused step alone would only refuse another
  // step.
  const int64_t smallest = SmallestRunBudget(rule, run);
  if (smallest < kUnlimitedBytes) {
    refusal->smallest_device_budget_bytes = smallest;
  }
  return RefusedStep{*std::move(refusal), std::move(request)};
}

std::vector<std::string> PolicyRemedies(
    const PlacementPolicy* policy,
    const std::function<bool(const PlacementPolicy*)>& fits) {
  const PlacementPolicy* const other = DefaultPolicy();
  if (policy == other || !fits(other)) return {};
  return {absl::StrCat("memory.placement_policy \"", other->name, "\"")};
}

}  // namespace castor
