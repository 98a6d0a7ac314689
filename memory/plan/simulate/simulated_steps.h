// Simulates a step's operators, with the plan's actions between them.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_STEPS_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_STEPS_H_

#include <cstdint>

#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulated_state.h"
#include "memory/plan/simulate/simulated_trace.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

// Runs one step of a plan after the other, each on the state that the one
// before left.
class SimulatedSteps {
 public:
  // All arguments must outlive it. `plan` must have passed CheckPlan. With
  // `misses` all speculative updates are in vain.
  SimulatedSteps(const Plan& plan, const PlanRequest& request,
                 const SimulatedTrace& trace, const Overheads& overheads,
                 bool misses);

  void RunStep();

  // The time when the last resource is done.
  int64_t end_ns() const { return state_.queues.end_ns(); }
  // Returns the cost of the last step, without step_ns, host_bytes and
  // device_peak_bytes. Times count from the first step's start.
  PlanCost TakeCost();

 private:
  void RunOperator(int64_t t);
  // Runs an operator on the device, which comes to it at `start_ns`.
  void RunCompute(int64_t t, int64_t start_ns);
  void RunOptimizer(int64_t t, int64_t start_ns);
  // Runs a reduce in which the device adds up a chunk of the host's side.
  void AddOnDevice(int64_t t, int64_t start_ns);
  // Runs work on the network's stream, which has the other ranks' parts in the
  // device's memory, while compute goes on (RunsOnNetwork in use_index.h).
  void RunOnNetwork(int64_t t);
  // Notes that gradients are in the chunk's device sum; `last`: the step's
  // last.
  static void HasAdded(SimulatedChunk& chunk, bool last);
  // Runs compute for `work_ns`, from `ready_ns` at the earliest. Returns the
  // time when it is over.
  int64_t Compute(int64_t t, int64_t ready_ns, int64_t work_ns);
  // Sends ranks' sums to the host and back. Returns the time of return.
  int64_t AddSums(const SimulatedTrace::Op& op, int64_t ready_ns);

  // Returns the time when the moves of blocks before the operator are over;
  // `start_ns` without any.
  int64_t MoveBlocks(int64_t t, int64_t start_ns) const;
  int64_t MovesNs(int64_t t) const {
    return overheads_.moves.empty() ? 0 : overheads_.moves[t].duration_ns;
  }
  int64_t SetNonModel(int64_t bytes);
  // Copies the loss to the host.
  void TakeLoss();
  // Sends the device's part of the gradients' norm to the host, and the norm
  // back.
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

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_STEPS_H_
