// The simulator's clocks: the time until which each resource of a step is busy.
//
// Each resource works on one item after the other, in the order of queueing.
// After a wait it goes on a handoff later (Overheads).
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_QUEUES_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_QUEUES_H_

#include <array>
#include <cstdint>

#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

class SimulatedQueues {
 public:
  SimulatedQueues(const BusModel& bus, const Overheads& overheads);

  // The time when the resource is done with all work queued so far.
  int64_t done_ns(Resource resource) const { return done_ns_[Index(resource)]; }
  int64_t compute_ns() const { return done_ns(Resource::kCompute); }
  // Returns the time when the last resource is done.
  int64_t end_ns() const;

  // The time when the next work is queued, before which it cannot begin.
  int64_t issue_ns() const { return issue_ns_; }
  void set_issue_ns(int64_t ns) { issue_ns_ = ns; }

  int64_t handoff_ns(Resource resource) const {
    return handoff_ns_[Index(resource)];
  }
  int64_t latency_ns() const { return bus_.latency_ns; }

  // Queues work that may begin at `ready_ns`. Returns the time when it is done.
  int64_t Run(Resource resource, int64_t ready_ns, int64_t work_ns) {
    int64_t& done_ns = done_ns_[Index(resource)];
    if (ready_ns > done_ns) done_ns = ready_ns + handoff_ns(resource);
    busy_ns_[Index(resource)] += work_ns;
    return done_ns += work_ns;
  }
  // Queues work where the caller has counted the handoff, or there is none.
  int64_t RunFrom(Resource resource, int64_t start_ns, int64_t work_ns) {
    busy_ns_[Index(resource)] += work_ns;
    return done_ns_[Index(resource)] = start_ns + work_ns;
  }

  // Returns the time that one copy of `bytes` takes, over the bus or the
  // network.
  int64_t CopyNs(Resource resource, int64_t bytes) const;
  // Queue `pieces` copies in a row, of `bytes` in all, and count the bytes as
  // moved. Return the time when the last one is done.
  int64_t Fetch(int64_t ready_ns, int64_t bytes, int64_t pieces = 1);
  int64_t CopyBack(int64_t ready_ns, int64_t bytes, int64_t pieces = 1);
  int64_t Receive(int64_t ready_ns, int64_t bytes);

  // Since the last call of StartCounting: the work of each resource, by
  // Resource, and the bytes moved.
  void StartCounting();
  const std::array<int64_t, kNumResources>& busy_ns() const { return busy_ns_; }
  int64_t h2d_bytes() const { return h2d_bytes_; }
  int64_t d2h_bytes() const { return d2h_bytes_; }
  int64_t network_bytes() const { return network_bytes_; }

 private:
  static int Index(Resource resource) { return static_cast<int>(resource); }

  const BusModel bus_;
  std::array<int64_t, kNumResources> done_ns_ = {};
  std::array<int64_t, kNumResources> handoff_ns_ = {};
  std::array<int64_t, kNumResources> busy_ns_ = {};
  int64_t issue_ns_ = 0;
  int64_t h2d_bytes_ = 0;
  int64_t d2h_bytes_ = 0;
  int64_t network_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_QUEUES_H_
