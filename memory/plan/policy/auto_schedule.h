// Makes one plan of the auto policy: for given sides, gradient blocks and
// device sums, chooses the gaps in which chunks stay and the times of fetches.
#ifndef CASTOR_MEMORY_PLAN_POLICY_AUTO_SCHEDULE_H_
#define CASTOR_MEMORY_PLAN_POLICY_AUTO_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/plan/policy/short_step.h"
#include "memory/plan/residency/eviction.h"
#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

// The request to plan for, and, if its step is a short one, the step that it
// stands for. Both must outlive the task.
struct PlanTask {
  PlanTask(const PlanRequest& request, const ShortStep* short_step = nullptr)
      : request(request), short_step(short_step), simulator(request) {}

  const PlanRequest& request;
  const ShortStep* const short_step;
  const Simulator simulator;
};

// Parameters of one plan: how far ahead to fetch, and which chunks leave.
struct Tuning {
  double lead_strength = 0;
  VictimRule rule = VictimRule::kFarthest;
  // True if fetches are issued as early as room allows, false if at their
  // latest start. Early fetches arrive in time, but take holes that copies
  // still read, and all fetches queued behind them wait for these copies.
  bool early = true;
  // The most early fetches that are under way at once; 0: as many as there is
  // room for.
  int64_t ahead = 0;
  // True if early fetches avoid places that are being copied back, where there
  // are others.
  bool off_copies = true;
  // True if chunks of the device's side leave only where no other chunk can.
  bool host_first = false;

  friend bool operator==(const Tuning&, const Tuning&) = default;
};

struct Candidate {
  Plan plan;
  double step_ns = 0;      // of the whole step
  double score = 0;        // lower is better
  double moved_bytes = 0;  // over the bus, both ways together
  Tuning tuning;
  // Gradient blocks that saved a refetch of their payload, which stays resident
  // over their reduce; and all gradient blocks of the device's side.
  std::vector<GradientBlock> useful_blocks = {};
};

// Makes plans with given sides, gradient blocks and device sums. `blocks` come
// in addition to the gradient blocks that `sums` need; there is room for both.
class AutoSchedule {
 public:
  AutoSchedule(const PlanTask& task, std::vector<Side> side,
               std::vector<GradientBlock> blocks = {},
               const std::vector<PossibleSum>& sums = {});

  Candidate Make(const Tuning& tuning) const;
  Candidate MakeOneOperatorAhead() const;

  // Return the same blocks or sums, with each block dropped after the time that
  // `copies` copies of its size take from when it was sent, or `copies`
  // exchanges among ranks from its reduce.
  std::vector<GradientBlock> DropAfterCopies(std::vector<GradientBlock> blocks,
                                             double copies) const;
  std::vector<PossibleSum> DropAfterCopies(std::vector<PossibleSum> sums,
                                           double copies) const;

 private:
  void Judge(Candidate* candidate) const;
  int64_t MomentAfter(int64_t from, double ns) const;
  double ExchangeNs(int64_t chunk) const;
  std::vector<GradientBlock> UsefulBlocks(const Residency& residency) const;

  const PlanTask& task_;
  const PlanRequest& request_;
  std::vector<Side> side_;
  UseIndex index_;
  std::vector<int64_t> free_bytes_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_AUTO_SCHEDULE_H_
