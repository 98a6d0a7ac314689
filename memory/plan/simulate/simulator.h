// Predicts what a plan costs: simulates its steps on a discrete clock.
//
// Five resources run concurrently, each of them in order: compute, the two
// directions of the bus, the host's compute (reduce, update), and with several
// ranks the network. No rank is late on the network: a fetch gathers the other
// ranks' shards, a reduce gets their parts before it begins, and runs on the
// network where its sum is on the device. An operator starts when the one
// before it is over and its chunks have arrived; a fetch when the bus is free,
// its home is valid and the room it takes is free; and so on, by the rules of
// the executor's fences. Further rules:
//
//   norm   where gradients are clipped and a chunk is on the device's side, the
//          first update's turn gathers the sums of both sides: through the
//          queues of the bus from the device and of the host, behind all that
//          is in them, and for the device's updates through that towards it.
//   sums   where ranks add up an update's sums in the middle of it, the update
//          waits for the network, and on the device's side for both directions
//          of the bus.
//   ahead  a speculative update takes its time when it is queued, its kUpdate
//          none then, unless what was taken for granted is wrong.
//   issue  a step is queued when the loss of the one before is there, after its
//          last forward (where ranks share, behind what they exchanged by
//          then), and when all work of the one before that is over.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATOR_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "memory/plan/plan.h"

namespace castor {

// The resources that a step works on. A step is never shorter than the work of
// any one of them: the busiest one is its bottleneck.
enum class Resource : uint8_t {
  kCompute,
  kToDevice,
  kFromDevice,
  kHost,
  kNetwork,
};
inline constexpr int kNumResources = 5;
// "compute", "bus to the device", "bus from it", "host", "network".
absl::string_view ResourceName(Resource resource);

struct PlanCost {
  int64_t step_ns = 0;   // steady state, from one step's start to the next's
  int64_t stall_ns = 0;  // compute waiting for copies or for the host
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_bytes = 0;
  int64_t network_bytes = 0;  // that this rank receives
  // The work of each resource in a step of the steady state, by Resource; for
  // compute that of operators, without the moves of blocks.
  std::array<int64_t, kNumResources> busy_ns = {};
  // Indexed by Moment, in the steady state: the start of each operator, counted
  // from the start of the first one, never decreasing (for work of the host the
  // time when the device has come to it); and the device bytes in use while it
  // runs.
  std::vector<int64_t> op_start_ns;
  std::vector<int64_t> device_bytes;
  // For each action of the plan, in order, on the same clock. If it makes a
  // block: the first time at which the block could be written if its place were
  // free. If it frees one: the time when all use of the block is over.
  // Otherwise 0.
  std::vector<int64_t> action_ns;

  // Returns the resource with the most work.
  Resource Busiest() const;
};

// Moves of blocks on the compute stream, where no hole was large enough.
struct BlockMoves {
  int64_t duration_ns = 0;
  // Copies that the moves wait for if they are still under way.
  std::vector<ChunkId> after_fetches = {};
  std::vector<ChunkId> after_copies_back = {};
};

// Times that no plan predicts, measured in steps that ran. All may be absent.
struct Overheads {
  // Moves before each operator, indexed by Moment; they belong to one plan.
  std::vector<BlockMoves> moves = {};
  // The time from the step's start of queueing until each operator is queued,
  // indexed by Moment.
  std::vector<int64_t> issue_ns = {};
  // The delay of a queue after the end of the work that it waited for.
  int64_t compute_handoff_ns = 0;
  int64_t h2d_handoff_ns = 0;
  int64_t d2h_handoff_ns = 0;
  int64_t host_handoff_ns = 0;
};

class SimulatedSteps;  // memory/plan/simulate/simulated_steps.h
class SimulatedTrace;  // memory/plan/simulate/simulated_trace.h

// Simulates plans for one request, and reads its trace only once.
class Simulator {
 public:
  // Both the request and its trace must outlive it.
  explicit Simulator(const PlanRequest& request);
  ~Simulator();

  // Returns the cost of `plan`, which must be one that passes CheckPlan. With
  // `misses` all of its speculative updates are in vain, in every step.
  PlanCost Simulate(const Plan& plan, const Overheads& overheads = {},
                    bool misses = false) const;
  // Returns the cost of the last of `steps` >= 1 steps, in the steady state or
  // not.
  PlanCost SimulateSteps(const Plan& plan, int steps) const;

 private:
  // Returns the cost of the step that ran last, which took `step_ns`.
  PlanCost CostOf(SimulatedSteps* steps, int64_t step_ns,
                  const Plan& plan) const;

  const PlanRequest& request_;
  const std::unique_ptr<const SimulatedTrace> trace_;
};

// Simulates one plan.
PlanCost SimulatePlan(const Plan& plan, const PlanRequest& request,
                      const Overheads& overheads = {}, bool misses = false);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATOR_H_
