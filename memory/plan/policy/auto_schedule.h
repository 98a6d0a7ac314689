// One plan of the auto policy: which gaps to stay in, when to fetch, for given
// sides, blocks beside payloads and sums on the device.
#ifndef CASTOR_MEMORY_PLAN_POLICY_AUTO_SCHEDULE_H_
#define CASTOR_MEMORY_PLAN_POLICY_AUTO_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "memory/plan/eviction.h"
#include "memory/plan/plan.h"
#include "memory/plan/policy/short_step.h"
#include "memory/plan/residency.h"
#include "memory/plan/simulator.h"
#include "memory/plan/use_index.h"

namespace castor {

// What is planned, and for which step, if the request's is a short one that
// stands for it. Both outlive whoever has them.
struct PlanTask {
  PlanTask(const PlanRequest& request, const ShortStep* short_step = nullptr)
      : request(request), short_step(short_step), simulator(request) {}

  const PlanRequest& request;
  const ShortStep* const short_step;
  const Simulator simulator;
};

// How much room to keep free for chunks on their way, and who leaves.
struct Tuning {
  double lead_strength = 0;
  VictimRule rule = VictimRule::kFarthest;
  // Whether fetches then go out as early as room allows, or when they are due.
  // What goes out early is there in time, but takes holes behind copies that
  // are under way, and all that is queued behind it waits for these.
  bool early = true;
  // How many of those that go out early are on their way at once; 0: as many as
  // there is room for.
  int64_t ahead = 0;
  // Whether those keep off places that are being copied back, where there are
  // others.
  bool off_copies = true;
  // Whether chunks of the device's side leave only where no other one can.
  bool host_first = false;

  friend bool operator==(const Tuning&, const Tuning&) = default;
};

struct Candidate {
  Plan plan;
  double step_ns = 0;      // of the whole step
  double score = 0;        // the less, the better
  double moved_bytes = 0;  // over the bus, both ways together
  Tuning tuning;
  int64_t spare_bytes = 0;  // that no moment needs, early fetches aside
  // Those beside payloads that stay over their reduce, or of the device's side.
  std::vector<GradientBlock> useful_blocks = {};
};

// The gradient blocks beside those that the sums have; there is room for both.
class AutoSchedule {
 public:
  AutoSchedule(const PlanTask& task, std::vector<Side> side,
               std::vector<GradientBlock> blocks = {},
               const std::vector<PossibleSum>& sums = {});

  Candidate Make(const Tuning& tuning) const;
  Candidate MakeOneOperatorAhead() const;

  // The same blocks, each dropped when so many copies of its size may have
  // ended after it was sent, or so many exchanges among ranks after its reduce.
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
