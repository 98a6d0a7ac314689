#include "client/client_foresight.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

absl::StatusOr<Foreseen> Foresee(const std::vector<ClientParameter>& parameters,
                                 ClientOptions options,
                                 const std::vector<ForeseenUse>& micro_batch,
                                 const DeviceBudget& budget) {
  options.memory.device_bytes = kUnlimitedBytes;
  ClientRun run(std::move(options));
  CASTOR_RETURN_IF_ERROR(run.Lay(parameters, /*here=*/false));
  const auto count = static_cast<int64_t>(run.layout_.parameters.size());
  std::vector<std::string> labels;
  StepScript script(&run.layout_, /*training=*/true);
  for (int64_t m = 0; m < run.options_.micro_batches; ++m) {
    for (const ForeseenUse& use : micro_batch) {
      for (const auto* const ids : {&use.parameters, &use.hand_ins}) {
        for (const ParamId id : *ids) {
          if (id.value >= 0 && id.value < count) continue;
          return absl::InvalidArgumentError(absl::StrCat(
              "\"", use.name, "\" names parameter ", id.value, " of ", count));
        }
      }
      std::vector<ParamId> read = use.parameters;
      std::sort(read.begin(), read.end());
      script.Add({.label = LabelId(static_cast<int64_t>(labels.size())),
                  .phase = use.phase,
                  .parameters = std::move(read),
                  .peak_bytes = RoundUp(use.peak_bytes, kBlockAlignment)});
      labels.push_back(use.name);
      for (const ParamId id : use.hand_ins) {
        if (run.layout_.parameter(id).trainable) script.HandIn(id);
      }
    }
    script.Add({.label = LabelId(static_cast<int64_t>(labels.size())),
                .phase = Phase::kBackward,
                .parameters = {},
                .peak_bytes = script.uses().empty()
                                  ? 0
                                  : script.uses().back().peak_bytes});
    labels.push_back("end of backward");
    script.EndMicroBatch();
  }
  StepTrace trace = script.MakeTrace(labels, run.accumulate());
  trace.global_norm = run.options_.needs_norm();

  PlanRequest request = run.planner_.Request(trace, run.host_reserved_bytes_);
  const bool unlimited = budget.bytes >= kUnlimitedBytes;
  if (!unlimited) {
    request.device_budget_bytes = budget.bytes;
    request.gpu_margin_mem_ratio = budget.gpu_margin_mem_ratio;
  }
  const PlacementPolicy* const policy = run.options_.memory.policy;
  Foreseen foreseen;
  foreseen.parameters = run.layout_.parameter_elements;
  foreseen.chunks = run.layout_.num_chunks();
  foreseen.device_budget_bytes = request.device_budget_bytes;
  foreseen.smallest_device_budget_bytes = SmallestDeviceBudget(policy, request);
  PlanOrRefusal made = MakePlan(policy, request);
  if (const auto* const plan = std::get_if<Plan>(&made)) {
    const PlanCost cost = SimulatePlan(*plan, request);
    foreseen.fits = true;
    foreseen.device_peak_bytes = cost.device_peak_bytes;
    foreseen.host_peak_bytes = cost.host_bytes;
    foreseen.h2d_bytes = cost.h2d_bytes;
    foreseen.d2h_bytes = cost.d2h_bytes;
    // A budget in which the step just does not fit shows which use takes most.
    request.device_budget_bytes =
        std::max<int64_t>(0, foreseen.smallest_device_budget_bytes - 1);
    made = MakePlan(policy, request);
  }
  if (const auto* const why = std::get_if<Refusal>(&made)) {
    foreseen.use = why->op;
    foreseen.peak_bytes = why->peak_bytes;
    foreseen.resident_bytes = why->resident_bytes;
  }
  return foreseen;
}

}  // namespace castor
