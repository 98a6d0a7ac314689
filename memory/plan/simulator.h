// What a plan will cost: the steps laid out on a discrete clock.
//
// Five resources run side by side, each one after the other in itself: compute,
// the two directions of the bus, the host's compute (reduce, update), and with
// several ranks the network, on which no rank is late: a fetch gathers what the
// other ranks have, a reduce gets their parts before it begins, and is the
// network's own work where its sum is on the device. An operator starts when
// the one before it is over and its chunks have arrived; a fetch when the bus
// is free, its home is valid and the room it takes is free; and so on: the same
// rules by which the executor's fences work. Beside them:
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
#ifndef CASTOR_MEMORY_PLAN_SIMULATOR_H_
#define CASTOR_MEMORY_PLAN_SIMULATOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "memory/plan/plan.h"

namespace castor {

// What a step takes time on. A step is never shorter than the work of any one
// of them: the busiest one binds it.
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
  // How long each resource works in a step of the steady state, by Resource;
  // of compute its operators, not the moves of blocks.
  std::array<int64_t, kNumResources> busy_ns = {};
  // Indexed by Moment, in the steady state: when each operator starts, from the
  // start of the first one, never falling (of what the host runs: when the
  // device has come to it), and the device bytes in use while it runs.
  std::vector<int64_t> op_start_ns;
  std::vector<int64_t> device_bytes;
  // For each action of the plan, in order, on the same clock: when what it
  // makes could be written first if its place were free by then; when all use
  // of what it frees is over; for any other one 0.
  std::vector<int64_t> action_ns;

  // The resource that works for longest.
  Resource Busiest() const;
};

// Where the holes between the blocks were too small, blocks moved together on
// the compute stream.
struct BlockMoves {
  int64_t duration_ns = 0;
  // They waited for these copies, where these were still under way.
  std::vector<ChunkId> after_fetches = {};
  std::vector<ChunkId> after_copies_back = {};
};

// What no plan says, and only steps that ran can tell. All of it may be absent.
struct Overheads {
  // Before each operator, indexed by Moment: of one plan alone.
  std::vector<BlockMoves> moves = {};
  // From when the step is queued until each operator is, indexed by Moment.
  std::vector<int64_t> issue_ns = {};
  // How long after what it waited for a queue goes on.
  int64_t compute_handoff_ns = 0;
  int64_t h2d_handoff_ns = 0;
  int64_t d2h_handoff_ns = 0;
  int64_t host_handoff_ns = 0;
};

class SimulatedSteps;  // memory/plan/simulated_steps.h
class SimulatedTrace;  // memory/plan/simulated_trace.h

// Simulates plans for one request: what it needs of the trace it finds once.
class Simulator {
 public:
  // Both the request and its trace must outlive it.
  explicit Simulator(const PlanRequest& request);
  ~Simulator();

  // `plan` must have passed CheckPlan, or would.
  // `misses`: all of its speculative updates are in vain, in every step.
  PlanCost Simulate(const Plan& plan, const Overheads& overheads = {},
                    bool misses = false) const;
  // What the last of so many steps takes, at least one, whether or not each is
  // like the one before by then.
  PlanCost SimulateSteps(const Plan& plan, int steps) const;

 private:
  // Returns the cost of the step that ran last, which took `step_ns`.
  PlanCost CostOf(SimulatedSteps* steps, int64_t step_ns,
                  const Plan& plan) const;

  const PlanRequest& request_;
  const std::unique_ptr<const SimulatedTrace> trace_;
};

// The same for one plan alone.
PlanCost SimulatePlan(const Plan& plan, const PlanRequest& request,
                      const Overheads& overheads = {}, bool misses = false);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATOR_H_
