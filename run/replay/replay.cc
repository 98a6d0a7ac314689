#include "run/replay/replay.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/bounds/lower_bound.h"
#include "memory/plan/check/plan_checker.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/planner/run_planner.h"
#include "run/refusal_status.h"

namespace castor {
namespace {

PlanRequest Changed(PlanRequest request, const Conditions& conditions) {
  request.device_budget_bytes =
      conditions.device_bytes.value_or(request.device_budget_bytes);
  request.host_budget_bytes =
      conditions.host_bytes.value_or(request.host_budget_bytes);
  request.prefetch = conditions.prefetch.value_or(request.prefetch);
  if (conditions.bus_bytes_per_s.has_value()) {
    request.bus.h2d_bytes_per_s = *conditions.bus_bytes_per_s;
    request.bus.d2h_bytes_per_s = *conditions.bus_bytes_per_s;
  }
  return request;
}

// Returns the checkpointing that is asked for, if it is not the recorded one.
std::optional<ActivationCheckpointing> OtherCheckpointing(
    const RecordedRun& run, const Conditions& conditions) {
  return conditions.checkpointing == run.checkpointing
             ? std::nullopt
             : conditions.checkpointing;
}

// Returns true if the planner chooses the blocks to keep.
bool Chooses(const RecordedRun& run, const Conditions& conditions) {
  const auto checkpointing = conditions.checkpointing.has_value()
                                 ? conditions.checkpointing
                                 : run.checkpointing;
  return checkpointing == ActivationCheckpointing::kAuto &&
         !run.training.trace.blocks.empty();
}

// The trace with which the run is admitted: where blocks are chosen, that of
// none kept, which needs the least.
absl::StatusOr<std::shared_ptr<const StepTrace>> AdmittedTrace(
    const RecordedRun& run, const Conditions& conditions) {
  const StepTrace& trace = run.training.trace;
  if (OtherCheckpointing(run, conditions).has_value() && trace.blocks.empty()) {
    return absl::InvalidArgumentError(
        "--activation-checkpointing: the trace says nothing of blocks whose "
        "activations could be kept or made again: it is of a client's model, "
        "or of a model without such blocks");
  }
  KeptBlocks kept = KeptBlocksOf(trace);
  if (Chooses(run, conditions)) {
    kept.clear();
  } else if (conditions.checkpointing.has_value()) {
    kept = conditions.checkpointing == ActivationCheckpointing::kNone
               ? AllBlocks(trace)
               : KeptBlocks();
  }
  return std::make_shared<const StepTrace>(
      trace.blocks.empty() ? trace : WithKeptBlocks(trace, kept));
}

// Makes a request of what is asked. The bytes that a trace records as reserved
// are the same for all policies.
RunRequest Asked(const RecordedRun& run, const StepTrace& trace,
                 const Conditions& conditions) {
  RunRequest asked = {.training =
                          Changed(RequestFor(run.training), conditions)};
  asked.training.trace = &trace;
  for (const AskedStep& evaluation : run.evaluations) {
    asked.evaluations.push_back(RequestFor(evaluation));
  }
  return asked;
}

// Returns true if the speeds differ by at most 2 %: a user who gives about the
// speed that was asked for means the bus that was measured.
bool SameSpeed(double a, double b) {
  constexpr double kShare = 0.02;
  return std::abs(a - b) <= kShare * std::max(a, b);
}

bool SameAsked(const PlanRequest& a, const PlanRequest& b) {
  return a.device_budget_bytes == b.device_budget_bytes &&
         a.host_budget_bytes == b.host_budget_bytes &&
         a.prefetch == b.prefetch &&
         SameSpeed(a.bus.h2d_bytes_per_s, b.bus.h2d_bytes_per_s) &&
         SameSpeed(a.bus.d2h_bytes_per_s, b.bus.d2h_bytes_per_s);
}

absl::Status Refused(const Refusal& refusal, const PlacementPolicy* policy,
                     const RunRequest& asked) {
  return RefusalStatus(
      refusal,
      {.policy = policy,
       .device_bytes = asked.training.device_budget_bytes,
       .host_bytes = asked.training.host_budget_bytes},
      PolicyRemedies(policy, [&](const PlacementPolicy* other) {
        return FitsRun(other->admission, asked);
      }));
}

// The bytes that everything on the device takes; kUnlimitedBytes where the host
// has no room for the rest.
int64_t EverythingBytes(const RecordedRun& run, const Conditions& conditions,
                        RunRequest asked) {
  int64_t bytes = SmallestRunBudget(kEverythingOnDevice, asked);
  if (!Chooses(run, conditions)) return bytes;
  const StepTrace all =
      WithKeptBlocks(run.training.trace, AllBlocks(run.training.trace));
  asked.training.trace = &all;
  return std::max(bytes, SmallestRunBudget(kEverythingOnDevice, asked));
}

ReplayResult Timed(const PlacementPolicy* policy, PlanRequest request,
                   std::shared_ptr<const StepTrace> trace, Plan plan,
                   const Overheads& overheads) {
  ReplayResult result;
  result.policy = policy;
  request.trace = trace.get();
  result.trace = std::move(trace);
  result.request = request;
  result.plan = std::move(plan);
  result.cost = SimulatePlan(result.plan, request, overheads);
  const std::vector<int64_t>& bytes = result.cost.device_bytes;
  if (!bytes.empty()) {
    const auto peak = std::max_element(bytes.begin(), bytes.end());
    result.peak_operator = request.trace->ops[peak - bytes.begin()].name;
  }
  result.least_h2d_bytes = LeastFetchedBytes(request, result.plan.side);
  result.device_sides = std::count(result.plan.side.begin(),
                                   result.plan.side.end(), Side::kDevice);
  return result;
}

}  // namespace

absl::StatusOr<ReplayResult> Replay(const RecordedRun& run,
                                    const Conditions& conditions,
                                    std::optional<Refusal>* refused) {
  const PlacementPolicy* policy = conditions.policy.value_or(run.policy);
  CASTOR_ASSIGN_OR_RETURN(const std::shared_ptr<const StepTrace> trace,
                          AdmittedTrace(run, conditions));
  RunRequest asked = Asked(run, *trace, conditions);
  PlanRequest& request = asked.training;
  CASTOR_RETURN_IF_ERROR(CheckRequest(request));
  if (request.device_budget_bytes >= kUnlimitedBytes) {
    const RunBudgets budgets = {
        .smallest = SmallestRunBudget(policy->admission, asked),
        .everything = EverythingBytes(run, conditions, asked)};
    request.device_budget_bytes = budgets.unlimited();
    request.gpu_margin_mem_ratio = 1;  // there is nothing to leave a margin of
  }
  if (run.plan.has_value() && policy == run.policy &&
      !OtherCheckpointing(run, conditions).has_value() &&
      SameAsked(request, run.training.request)) {
    auto own = std::make_shared<const StepTrace>(run.training.trace);
    request.trace = own.get();
    const absl::Status proof = CheckPlan(*run.plan, request);
    if (!proof.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the plan that it records does not work: ", proof.message()));
    }
    ReplayResult result =
        Timed(policy, request, std::move(own), *run.plan, run.overheads);
    result.own = true;
    return result;
  }
  if (const auto step = RefuseRun(policy->admission, asked); step.has_value()) {
    if (refused != nullptr) *refused = step->refusal;
    return Refused(step->refusal, policy, asked);
  }
  // Where blocks would move together under another plan is not known.
  std::vector<Moment> from;
  if (Chooses(run, conditions)) {
    BlockChoice choice = std::get<BlockChoice>(ChooseKeptBlocks(
        policy, run.training.trace,
        [&](const StepTrace& of_choice) {
          PlanRequest of = request;
          of.trace = &of_choice;
          return of;
        },
        run.overheads));
    WithKeptBlocks(run.training.trace, choice.kept, &from);
    return Timed(policy, request,
                 std::make_shared<const StepTrace>(std::move(choice.trace)),
                 std::move(choice.plan), OverheadsOf(run.overheads, from));
  }
  WithKeptBlocks(run.training.trace, KeptBlocksOf(*trace), &from);
  Plan plan = std::get<Plan>(MakePlan(policy, request));
  return Timed(policy, request, trace, std::move(plan),
               OverheadsOf(run.overheads, from));
}

std::vector<int64_t> SweepBudgets(
    const RecordedRun& run, const Conditions& conditions,
    const std::vector<const PlacementPolicy*>& policies, int64_t points) {
  // Where that is an error, the first point says so.
  const auto trace = AdmittedTrace(run, conditions);
  if (!trace.ok()) return {kUnlimitedBytes};
  const RunRequest asked = Asked(run, **trace, conditions);
  std::set<int64_t> budgets;
  for (const PlacementPolicy* policy : policies) {
    const int64_t bytes = SmallestRunBudget(policy->admission, asked);
    if (bytes < kUnlimitedBytes) budgets.insert(bytes);
  }
  if (budgets.empty()) return {};
  const int64_t all = EverythingBytes(run, conditions, asked);
  if (all < kUnlimitedBytes) budgets.insert(all);
  const double low = static_cast<double>(*budgets.begin());
  const double high = static_cast<double>(*budgets.rbegin());
  for (int64_t i = 1; i + 1 < points && low > 0; ++i) {
    const double share =
        static_cast<double>(i) / static_cast<double>(points - 1);
    budgets.insert(
        RoundUp(static_cast<int64_t>(low * std::pow(high / low, share)),
                kBlockAlignment));
  }
  const int64_t own = run.training.request.device_budget_bytes;
  if (own > *budgets.begin() && own < *budgets.rbegin()) budgets.insert(own);
  return {budgets.begin(), budgets.end()};
}

absl::StatusOr<std::vector<SweepPoint>> Sweep(
    const RecordedRun& run, const Conditions& conditions,
    const std::vector<const PlacementPolicy*>& policies, int64_t points,
    const std::function<void(int64_t, int64_t)>& progress,
    std::optional<Refusal>* refused) {
  std::vector<SweepPoint> sweep;
  const std::vector<int64_t> budgets =
      SweepBudgets(run, conditions, policies, points);
  int64_t done = 0;
  for (const int64_t budget : budgets) {
    for (const PlacementPolicy* policy : policies) {
      Conditions at = conditions;
      at.device_bytes = budget;
      at.policy = policy;
      absl::StatusOr<ReplayResult> result = Replay(run, at);
      if (result.ok()) {
        sweep.push_back({budget, policy, *std::move(result)});
      } else if (result.status().code() !=
                 absl::StatusCode::kResourceExhausted) {
        return result.status();
      }
      if (progress) {
        progress(++done,
                 static_cast<int64_t>(budgets.size() * policies.size()));
      }
    }
  }
  if (!sweep.empty()) return sweep;
  Conditions at = conditions;
  at.policy = policies.front();
  at.device_bytes = kUnlimitedBytes;
  CASTOR_RETURN_IF_ERROR(Replay(run, at, refused).status());
  return absl::InternalError("nothing fits, yet nothing is refused");
}

}  // namespace castor
