#include "memory/plan/simulate/simulator.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulated_steps.h"
#include "memory/plan/simulate/simulated_trace.h"

namespace castor {

absl::string_view ResourceName(Resource resource) {
  constexpr absl::string_view kNames[kNumResources] = {
      "compute", "bus to the device", "bus from it", "host", "network"};
  return kNames[static_cast<int>(resource)];
}

Resource PlanCost::Busiest() const {
  return static_cast<Resource>(
      std::max_element(busy_ns.begin(), busy_ns.end()) - busy_ns.begin());
}

Simulator::Simulator(const PlanRequest& request)
    : request_(request),
      trace_(std::make_unique<SimulatedTrace>(*request.trace)) {}

Simulator::~Simulator() = default;

PlanCost Simulator::Simulate(const Plan& plan, const Overheads& overheads,
                             bool misses) const {
  SimulatedSteps steps(plan, request_, *trace_, overheads, misses);
  // The first step starts with idle queues; a later one with what the step
  // before left. Equal lengths twice are taken for the steady state.
  constexpr int kMostSteps = 6;
  int64_t last = -1;
  int64_t length = -1;
  int64_t end = 0;
  for (int step = 0; step < kMostSteps; ++step) {
    steps.RunStep();
    last = length;
    length = steps.end_ns() - end;
    end = steps.end_ns();
    if (step >= 2 && length == last) break;
  }
  // Steps may also be short and long by turns, and the queue of the busiest
  // resource, empty at the start, may fill up for longer than this.
  PlanCost cost = CostOf(&steps, (last + length + 1) / 2, plan);
  cost.step_ns =
      std::max(cost.step_ns, cost.busy_ns[static_cast<int>(cost.Busiest())]);
  return cost;
}

PlanCost Simulator::SimulateSteps(const Plan& plan, int number) const {
  CASTOR_CHECK(number > 0);
  const Overheads overheads;
  SimulatedSteps steps(plan, request_, *trace_, overheads, /*misses=*/false);
  for (int step = 1; step < number; ++step) steps.RunStep();
  const int64_t before_ns = steps.end_ns();
  steps.RunStep();
  return CostOf(&steps, steps.end_ns() - before_ns, plan);
}

PlanCost Simulator::CostOf(SimulatedSteps* steps, int64_t step_ns,
                           const Plan& plan) const {
  PlanCost cost = steps->TakeCost();
  cost.step_ns = step_ns;
  if (!cost.op_start_ns.empty()) {
    const int64_t first_ns = cost.op_start_ns.front();
    for (int64_t& start_ns : cost.op_start_ns) start_ns -= first_ns;
    for (int64_t& ns : cost.action_ns) ns -= first_ns;
  }
  cost.device_peak_bytes = request_.device_reserved_bytes;
  for (const int64_t bytes : cost.device_bytes) {
    cost.device_peak_bytes = std::max(cost.device_peak_bytes, bytes);
  }
  cost.host_bytes = request_.host_reserved_bytes;
  for (size_t c = 0; c < request_.trace->chunks.size(); ++c) {
    const ChunkInfo& chunk = request_.trace->chunks[c];
    cost.host_bytes += HomeBlock(chunk);
    if (plan.side[c] == Side::kHost) cost.host_bytes += OptimizerBlock(chunk);
  }
  for (const std::vector<Action>& actions : plan.actions) {
    for (const Action& action : actions) {
      if (action.kind != ActionKind::kSpeculate) continue;
      cost.host_bytes += BankBlock(request_.trace->chunks[action.chunk.value]);
    }
  }
  return cost;
}

PlanCost SimulatePlan(const Plan& plan, const PlanRequest& request,
                      const Overheads& overheads, bool misses) {
  return Simulator(request).Simulate(plan, overheads, misses);
}

}  // namespace castor
