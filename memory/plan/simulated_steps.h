// The walk over a step's operators, with the plan's actions between them.
#ifndef CASTOR_MEMORY_PLAN_SIMULATED_STEPS_H_
#define CASTOR_MEMORY_PLAN_SIMULATED_STEPS_H_

#include <cstdint>

#include "memory/plan/plan.h"
#include "memory/plan/simulated_state.h"
#include "memory/plan/simulated_trace.h"
#include "memory/plan/simulator.h"

namespace castor {

// Runs one step of a plan after the other, each on what the one before left.
class SimulatedSteps {
 public:
  // All of them must outlive it. `plan` must have passed CheckPlan.
  // `misses`: all speculative updates are in vain.
  SimulatedSteps(const Plan& plan, const PlanRequest& request,
                 const SimulatedTrace& trace, const Overheads& overheads,
                 bool misses);

  void RunStep();

  // When the last of the resources is done.
  int64_t end_ns() const { return state_.queues.end_ns(); }
  // What the last step took: all but step_ns, host_bytes and
  // device_peak_bytes. Times are since the first step's start.
  PlanCost TakeCost();

 private:
  void RunOperator(int64_t t);
  // On the device, which is at it from `start_ns` on.
  void RunCompute(int64_t t, int64_t start_ns);
  void RunOptimizer(int64_t t, int64_t start_ns);
  // A reduce of a chunk of the host's side, by which the device adds up.
  void AddOnDevice(int64_t t, int64_t start_ns);
  // What the network does that has the parts, in the device's memory, while
  // compute goes on (RunsOnNetwork in use_index.h).
  void RunOnNetwork(int64_t t);
  // Gradients are in the chunk's sum on the device, the step's last ones or
  // others.
  static void HasAdded(SimulatedChunk& chunk, bool last);
  // Compute works for `work_ns`. All that it waits for has come by `ready_ns`.
  // Returns when it is over.
  int64_t Compute(int64_t t, int64_t ready_ns, int64_t work_ns);
  // Ranks' sums go to the host and come back. Returns when they have.
  int64_t AddSums(const SimulatedTrace::Op& op, int64_t ready_ns);

  // When blocks were moved together before the operator, if they were.
  int64_t MoveBlocks(int64_t t, int64_t start_ns) const;
  int64_t MovesNs(int64_t t) const {
    return overheads_.moves.empty() ? 0 : overheads_.moves[t].duration_ns;
  }
  int64_t SetNonModel(int64_t bytes);
  // The loss comes to the host.
  void TakeLoss();
  // The device's part of the gradients' norm goes to the host, and the norm
  // comes back.
  void GatherNorm();

  const SimulatedTrace& trace_;
  const Overheads& overheads_;
  const bool misses_;
  const bool gathers_norm_;  // in each step, from both sides
  SimulatedState state_;
  PlanCost cost_;
  int64_t loss_arrived_ns_ = 0;
  // The sums and the scale of the gradients' norm on the device.
  bool norm_pending_ = false;
  int64_t scalars_ns_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATED_STEPS_H_
