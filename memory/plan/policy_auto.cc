// Farthest next use decides what leaves; fetches go out as early as room
// allows; what is left of the budget holds optimizer states.
//
// How much room to keep free for chunks on their way (they hide copies) and how
// much for chunks that stay (they save copies) is a trade that depends on sizes
// and speeds. So a few strengths are planned, each is simulated, and the
// fastest is taken; the cpu policy's own schedule is among them.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/eviction.h"
#include "memory/plan/policies.h"
#include "memory/plan/prefetch.h"
#include "memory/plan/residency.h"
#include "memory/plan/room.h"
#include "memory/plan/simulator.h"
#include "memory/plan/use_index.h"

namespace castor {
namespace {

struct Tuning {
  double lead_strength = 0;
  VictimRule rule = VictimRule::kFarthest;
};

struct Candidate {
  Plan plan;
  PlanCost cost;
  int64_t spare_bytes = 0;  // that no moment needs, early fetches aside

  int64_t bytes() const { return cost.h2d_bytes + cost.d2h_bytes; }
  bool BetterThan(const Candidate& other) const {
    return std::make_pair(cost.step_ns, bytes()) <
           std::make_pair(other.cost.step_ns, other.bytes());
  }
};

// One side per chunk is given: which gaps to stay in, when to fetch.
class AutoSchedule {
 public:
  AutoSchedule(const PlanRequest& request, std::vector<Side> side)
      : request_(request),
        side_(std::move(side)),
        index_(*request.trace, side_),
        free_bytes_(NeededDeviceBytes(request, side_)) {
    for (int64_t& bytes : free_bytes_) {
      bytes = request.device_budget_bytes - bytes;
    }
  }

  Candidate Make(const Tuning& tuning) const {
    Residency residency = StayEverywhere(index_);
    const std::vector<int64_t> back_at =
        LoneDueMoments(index_, request_.bus, tuning.lead_strength);
    Evict(index_, free_bytes_, back_at, tuning.rule, residency);
    // What is fetched on time takes room before its use, so more may have to
    // leave, which is then fetched in turn. Few rounds settle it; what remains
    // comes a little late.
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds && tuning.lead_strength > 0; ++round) {
      const Residency before = residency;
      Room room(free_bytes_);
      std::vector<int64_t> left = free_bytes_;
      const std::vector<int64_t> fetches = FetchesByNeed(index_, residency);
      MoveFetchesUp(
          index_, fetches,
          DueMoments(index_, request_.bus, tuning.lead_strength, fetches), room,
          residency);
      for (int64_t t = 0; t < index_.moments(); ++t)
        left[t] = room.Min(t, t + 1);
      Evict(index_, left, back_at, tuning.rule, residency);
      int64_t changed = 0;
      for (size_t g = 0; g < residency.size(); ++g) {
        changed += residency[g].stays != before[g].stays;
        if (!residency[g].stays) residency[g].fetch_at = index_.gaps()[g].to;
      }
      if (changed == 0) break;
    }

    Room room(free_bytes_);
    for (size_t g = 0; g < residency.size(); ++g) {
      const Gap& gap = index_.gaps()[g];
      if (residency[g].stays) room.Take(gap.from + 1, gap.to, gap.bytes);
    }
    std::vector<int64_t> fetches = FetchesByNeed(index_, residency);
    MoveFetchesUp(
        index_, fetches,
        DueMoments(index_, request_.bus, tuning.lead_strength, fetches), room,
        residency);
    KeepWhatFits(index_, room, residency);
    Candidate candidate;
    candidate.spare_bytes = room.Min(0, index_.moments());
    if (request_.prefetch) {
      fetches = FetchesByNeed(index_, residency);
      MoveFetchesUp(index_, fetches, std::vector<int64_t>(fetches.size(), 0),
                    room, residency);
    }
    candidate.plan =
        WritePlan(PlacementPolicy::kAuto, request_, side_, index_, residency);
    candidate.cost = SimulatePlan(candidate.plan, request_);
    return candidate;
  }

  Candidate MakeOneOperatorAhead() const {
    Candidate candidate;
    candidate.plan =
        PlanOneOperatorAhead(PlacementPolicy::kAuto, request_, side_);
    candidate.cost = SimulatePlan(candidate.plan, request_);
    return candidate;
  }

 private:
  const PlanRequest& request_;
  std::vector<Side> side_;
  UseIndex index_;
  std::vector<int64_t> free_bytes_;
};

struct Best {
  Candidate candidate;
  int64_t spare_bytes = 0;  // of the plan that keeps least room free
};

Best BestSchedule(const PlanRequest& request, std::vector<Side> side) {
  const AutoSchedule schedule(request, std::move(side));
  Best best;
  best.candidate = schedule.MakeOneOperatorAhead();
  std::vector<double> strengths = {0};
  if (request.prefetch) strengths = {0, 0.5, 1, 1.5, 2, 4};
  for (const double strength : strengths) {
    for (const VictimRule rule :
         {VictimRule::kFarthest, VictimRule::kCleanFirstFarthest}) {
      Candidate candidate = schedule.Make({strength, rule});
      best.spare_bytes = std::max(best.spare_bytes, candidate.spare_bytes);
      if (candidate.BetterThan(best.candidate)) {
        best.candidate = std::move(candidate);
      }
    }
  }
  return best;
}

// The most chunks whose optimizer states fit into the share of `spare`.
int64_t MostWithin(const StepTrace& trace, const Admission& admission,
                   double share_bytes) {
  int64_t count = 0;
  double bytes = 0;
  for (const int64_t c : admission.order) {
    bytes += static_cast<double>(OptimizerBlock(trace.chunks[c]));
    if (bytes > share_bytes) break;
    ++count;
  }
  return std::clamp(count, admission.fewest, admission.most);
}

}  // namespace

Plan PlanAuto(const PlanRequest& request, const Admission& admission) {
  const StepTrace& trace = *request.trace;
  if (!request.fixed_side.empty()) {
    return BestSchedule(request, request.fixed_side).candidate.plan;
  }
  const int64_t fewest = admission.fewest;
  Best best = BestSchedule(request, SidesOf(trace, admission.order, fewest));
  if (admission.most == fewest) return best.candidate.plan;

  int64_t most = MostWithin(
      trace, admission,
      request.gpu_margin_mem_ratio * static_cast<double>(best.spare_bytes));
  // States on the device cost room that chunks could stay in, so fewer can be
  // better. The most first: often they pay, and when all fit nothing moves.
  int64_t least = fewest + 1;
  const Candidate without = best.candidate;
  const auto pays = [&](const Candidate& with) {
    return with.cost.step_ns <= without.cost.step_ns &&
           with.bytes() <= without.bytes();
  };
  for (int64_t count = most; least <= most; count = (least + most + 1) / 2) {
    Best with = BestSchedule(request, SidesOf(trace, admission.order, count));
    const bool better = pays(with.candidate);
    if (better && !best.candidate.BetterThan(with.candidate)) best = with;
    if (better) {
      least = count + 1;
    } else {
      most = count - 1;
    }
  }
  return best.candidate.plan;
}

}  // namespace castor
