// Farthest next use decides what leaves; fetches go out as early as room
// allows; what is left of the budget holds optimizer states.
//
// How much room to keep free for chunks on their way (they hide copies) and how
// much for chunks that stay (they save copies) is a trade that depends on sizes
// and speeds. So a few strengths are planned, each is simulated, and the
// fastest is taken; the cpu policy's own schedule is among them.
//
// With several micro batches a block for gradients beside a payload spares the
// fetch after its reduce, if the payload can stay until its next use. So plans
// with a block wherever there is room for one are tried too, then plans with
// those blocks alone whose payloads stayed, which leaves the room of the others
// to payloads.
//
// A sum of gradients on the device spares the bus copies from it, one a micro
// batch against one that is as long as two in 16 bits. It takes room from its
// first reduce to its last, so shares of the room are tried.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/eviction.h"
#include "memory/plan/policy/schedules.h"
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
  double score = 0;
  Tuning tuning;
  int64_t spare_bytes = 0;  // that no moment needs, early fetches aside
  // Those beside payloads that stay over their reduce.
  std::vector<GradientBlock> useful_blocks = {};
};

// A copy that hides behind an operator is not free: it takes power, and what
// was estimated may turn out slower. It counts a twentieth of its time.
constexpr double kHiddenCopyWeight = 0.05;

double Score(const PlanCost& cost, const BusModel& bus) {
  const double copies_s =
      static_cast<double>(cost.h2d_bytes) / bus.h2d_bytes_per_s +
      static_cast<double>(cost.d2h_bytes) / bus.d2h_bytes_per_s;
  return static_cast<double>(cost.step_ns) + kHiddenCopyWeight * copies_s * 1e9;
}

// `blocks` and those of `sums`.
std::vector<GradientBlock> AllBlocks(std::vector<GradientBlock> blocks,
                                     const std::vector<PossibleSum>& sums) {
  for (const PossibleSum& sum : sums) {
    blocks.insert(blocks.end(), sum.blocks.begin(), sum.blocks.end());
  }
  return blocks;
}

std::vector<DeviceSum> SumsOf(const std::vector<PossibleSum>& possible) {
  std::vector<DeviceSum> sums;
  for (const PossibleSum& sum : possible) sums.push_back(sum.sum);
  return sums;
}

// One side per chunk, the sums on the device and the gradient blocks beside
// those that these have, for which there is room, are given: which gaps to stay
// in, when to fetch.
class AutoSchedule {
 public:
  AutoSchedule(const PlanRequest& request, std::vector<Side> side,
               std::vector<GradientBlock> blocks = {},
               const std::vector<PossibleSum>& sums = {})
      : request_(request),
        side_(std::move(side)),
        index_(*request.trace, side_, AllBlocks(blocks, sums), SumsOf(sums)),
        free_bytes_(FreeBesideNeeds(request, side_)) {
    if (sums.empty() && blocks.empty()) return;
    Room room(free_bytes_);
    for (const PossibleSum& sum : sums) {
      TakeDeviceSum(*request.trace, sum, room);
    }
    for (const GradientBlock& block : blocks) {
      room.Take(block.from, block.drop, block.bytes);
    }
    free_bytes_ = room.Values();
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
      const std::vector<int64_t> fetches = FetchesByNeed(index_, residency);
      MoveFetchesUp(
          index_, fetches,
          DueMoments(index_, request_.bus, tuning.lead_strength, fetches), room,
          residency);
      Evict(index_, room.Values(), back_at, tuning.rule, residency);
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
    candidate.plan = WritePlan(request_, side_, index_, residency);
    candidate.tuning = tuning;
    candidate.useful_blocks = UsefulBlocks(residency);
    candidate.cost = SimulatePlan(candidate.plan, request_);
    candidate.score = Score(candidate.cost, request_.bus);
    return candidate;
  }

  // The same blocks, each dropped when so many copies of its size may have
  // ended after it was sent.
  std::vector<GradientBlock> DropAfterCopies(std::vector<GradientBlock> blocks,
                                             double copies) const {
    for (GradientBlock& block : blocks) {
      if (copies == 0) continue;
      block.drop =
          std::min(MomentAfterCopies(block.reduce, copies, block.bytes),
                   block.next_write);
      block.drop = std::max(block.drop, block.reduce);
    }
    return blocks;
  }
  std::vector<PossibleSum> DropAfterCopies(std::vector<PossibleSum> sums,
                                           double copies) const {
    for (PossibleSum& possible : sums) {
      DeviceSum& sum = possible.sum;
      const int64_t send = sum.reduce + 1;
      sum.drop = std::min(MomentAfterCopies(send, copies, sum.bytes),
                          index_.moments());
      sum.drop = std::max(sum.drop, send);
    }
    return sums;
  }

  Candidate MakeOneOperatorAhead() const {
    Candidate candidate;
    candidate.plan = PlanOneOperatorAhead(request_, side_);
    candidate.cost = SimulatePlan(candidate.plan, request_);
    candidate.score = Score(candidate.cost, request_.bus);
    return candidate;
  }

 private:
  // By when so many copies of `bytes` from the device may have ended, the first
  // of them sent at moment `from`: not the operator that runs then, which has
  // begun before.
  int64_t MomentAfterCopies(int64_t from, double copies, int64_t bytes) const {
    const double copy_ns =
        static_cast<double>(request_.bus.latency_ns) +
        static_cast<double>(bytes) * 1e9 / request_.bus.d2h_bytes_per_s;
    return index_.MomentAt(index_.StartNs(from) +
                           static_cast<int64_t>(copies * copy_ns)) +
           1;
  }

  // Finds the gradient blocks that are sent home and whose chunk stays on the
  // device until its gradients are in their sum.
  std::vector<GradientBlock> UsefulBlocks(const Residency& residency) const {
    std::vector<GradientBlock> useful;
    for (const GradientBlock& block : index_.gradient_blocks()) {
      if (!block.sent) continue;
      // Its operators use the chunk, so there is a use before the reduce.
      const std::vector<Use>& uses = index_.uses(block.chunk);
      const auto after = std::upper_bound(
          uses.begin(), uses.end(), block.reduce,
          [](int64_t t, const Use& use) { return t < use.moment; });
      if (residency[std::prev(after)->gap].stays) useful.push_back(block);
    }
    return useful;
  }

  const PlanRequest& request_;
  std::vector<Side> side_;
  UseIndex index_;
  std::vector<int64_t> free_bytes_;
};

// The best so far, never one that is slower than the cpu policy's.
class Contest {
 public:
  explicit Contest(Candidate cpu)
      : slowest_ns_(cpu.cost.step_ns), best_(std::move(cpu)) {}

  void Enter(Candidate candidate) {
    spare_bytes_ = std::max(spare_bytes_, candidate.spare_bytes);
    if (candidate.cost.step_ns <= slowest_ns_ &&
        candidate.score < best_.score) {
      best_ = std::move(candidate);
    }
  }

  Candidate& best() { return best_; }
  // What the plan that keeps the least room free leaves.
  int64_t spare_bytes() const { return spare_bytes_; }

 private:
  int64_t slowest_ns_;
  Candidate best_;
  int64_t spare_bytes_ = 0;
};

// Plans with these sides and sums on the device, and with gradient blocks where
// they fit, then where they were of use. Returns the best one's tuning.
std::optional<Tuning> EnterBlocks(const PlanRequest& request,
                                  const std::vector<Side>& side,
                                  const std::vector<PossibleSum>& sums,
                                  std::vector<GradientBlock> blocks,
                                  std::vector<Tuning> tunings,
                                  Contest* contest) {
  std::optional<Tuning> tuning;
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    const AutoSchedule with(request, side, blocks, sums);
    std::optional<double> best_score;
    std::vector<GradientBlock> useful;
    for (const Tuning& each : tunings) {
      Candidate candidate = with.Make(each);
      if (!best_score.has_value() || candidate.score < *best_score) {
        best_score = candidate.score;
        tuning = candidate.tuning;
        useful = std::move(candidate.useful_blocks);
      }
      contest->Enter(std::move(candidate));
    }
    tunings = {*tuning};
    if (useful.size() == blocks.size()) break;
    blocks = std::move(useful);
    // Without blocks and without sums it was tried before.
    if (blocks.empty() && sums.empty()) break;
  }
  return tuning;
}

// The blocks of chunks that have no sum on the device.
std::vector<GradientBlock> BlocksBeside(
    const StepTrace& trace, const std::vector<PossibleSum>& sums,
    const std::vector<GradientBlock>& blocks) {
  std::vector<bool> summed(trace.chunks.size(), false);
  for (const PossibleSum& sum : sums) summed[sum.sum.chunk] = true;
  std::vector<GradientBlock> beside;
  for (const GradientBlock& block : blocks) {
    if (!summed[block.chunk]) beside.push_back(block);
  }
  return beside;
}

// Plans with these sides, without gradient blocks and with them.
void EnterSides(const PlanRequest& request, const std::vector<Side>& side,
                std::vector<Tuning> tunings, Contest* contest) {
  const AutoSchedule without(request, side);
  for (const Tuning& tuning : tunings) contest->Enter(without.Make(tuning));
  const std::vector<GradientBlock> possible =
      PossibleGradientBlocks(*request.trace, side);
  if (possible.empty()) return;
  const std::vector<int64_t> free_bytes = FreeBesideNeeds(request, side);
  // A block keeps its room until its copy is over, as it is if at most one is
  // queued before it, so that the next block waits for nothing; else, where
  // that is too much room, only until it is sent.
  for (const double copies : {2.0, 0.0}) {
    std::vector<GradientBlock> blocks = GradientBlocksThatFit(
        Room(free_bytes), without.DropAfterCopies(possible, copies));
    if (blocks.empty()) continue;
    const std::optional<Tuning> best = EnterBlocks(
        request, side, {}, std::move(blocks), std::move(tunings), contest);
    tunings = {*best};
  }
}

// Plans with these sides and sums on the device, for shares of the room beside
// what must be there.
void EnterSums(const PlanRequest& request, const std::vector<Side>& side,
               const Tuning& tuning, Contest* contest) {
  const std::vector<GradientBlock> possible =
      PossibleGradientBlocks(*request.trace, side);
  std::vector<PossibleSum> sums =
      PossibleDeviceSums(*request.trace, side, possible);
  if (sums.empty()) return;
  const AutoSchedule without(request, side);
  sums = without.DropAfterCopies(std::move(sums), 2.0);
  const std::vector<int64_t> free_bytes = FreeBesideNeeds(request, side);
  const double margin =
      request.gpu_margin_mem_ratio * static_cast<double>(*std::min_element(
                                         free_bytes.begin(), free_bytes.end()));
  size_t before = 0;
  for (const double share : {0.25, 0.5, 0.75, 1.0}) {
    const std::vector<PossibleSum> fitting =
        DeviceSumsThatFit(request, side, sums, share * margin);
    if (fitting.size() == before) continue;
    before = fitting.size();
    Room room(free_bytes);
    for (const PossibleSum& sum : fitting) {
      TakeDeviceSum(*request.trace, sum, room);
    }
    const std::vector<GradientBlock> others =
        BlocksBeside(*request.trace, fitting, possible);
    for (const double copies : {2.0, 0.0}) {
      std::vector<GradientBlock> blocks =
          GradientBlocksThatFit(room, without.DropAfterCopies(others, copies));
      const bool all = blocks.size() == others.size();
      EnterBlocks(request, side, fitting, std::move(blocks), {tuning}, contest);
      if (all) break;
    }
  }
}

std::vector<Tuning> AllTunings(bool prefetch) {
  std::vector<Tuning> tunings;
  for (const double strength : {0.0, 0.5, 1.0, 1.5, 2.0, 4.0}) {
    if (strength > 0 && !prefetch) break;
    for (const VictimRule rule : kVictimRules) {
      tunings.push_back({strength, rule});
    }
  }
  return tunings;
}

// `fewest` chunks of the order, then each one whose optimizer states still fit
// into `bytes`.
std::vector<Side> SidesWithin(const StepTrace& trace,
                              const Admission& admission, double bytes) {
  std::vector<Side> side = SidesOf(trace, admission.order, admission.fewest);
  for (size_t i = 0; i < admission.order.size(); ++i) {
    const int64_t c = admission.order[i];
    const double block = static_cast<double>(OptimizerBlock(trace.chunks[c]));
    if (static_cast<int64_t>(i) >= admission.fewest) {
      if (block > bytes) continue;
      side[c] = Side::kDevice;
    }
    bytes -= block;
  }
  return side;
}

// Whether nothing ever has to move, optimizer states within their share.
bool EverythingFits(const PlanRequest& request, const Admission& admission) {
  const StepTrace& trace = *request.trace;
  int64_t peak = 0;
  for (const OpRecord& op : trace.ops) {
    peak = std::max(peak, op.non_model_peak_bytes);
  }
  int64_t left =
      request.device_budget_bytes - request.device_reserved_bytes - peak;
  int64_t optimizer = 0;
  for (const ChunkInfo& chunk : trace.chunks) {
    left -= PayloadBlock(chunk);
    optimizer += OptimizerBlock(chunk);
  }
  return left >= 0 &&
         static_cast<double>(optimizer) <=
             request.gpu_margin_mem_ratio * static_cast<double>(left);
}

}  // namespace

Plan PlanAuto(const PlanRequest& request, const Admission& admission) {
  const StepTrace& trace = *request.trace;
  const bool chooses = trace.training && request.fixed_side.empty();
  if (chooses && EverythingFits(request, admission)) {
    return PlanCuda(request, admission);
  }

  const std::vector<Side> first_side = AdmittedSides(request, admission);
  Contest contest(AutoSchedule(request, first_side).MakeOneOperatorAhead());
  EnterSides(request, first_side, AllTunings(request.prefetch), &contest);
  EnterSums(request, first_side, contest.best().tuning, &contest);
  if (!chooses) return std::move(contest.best().plan);

  // States on the device spare copies and the host's work, but take room all
  // step long in which chunks could stay. So first what no moment needs for the
  // best plan without them, then shares of all that no operator needs.
  const Tuning tuning = contest.best().tuning;
  const double ratio = request.gpu_margin_mem_ratio;
  const double margin = static_cast<double>(
      request.device_budget_bytes -
      PeakNeededDeviceBytes(request, SidesOf(trace, admission.order, 0)));
  std::vector<double> shares = {ratio *
                                static_cast<double>(contest.spare_bytes())};
  constexpr int kShares = 8;
  for (int i = 1; i <= kShares; ++i) {
    shares.push_back(ratio * margin * i / kShares);
  }
  std::vector<std::vector<Side>> tried = {first_side};
  for (const double share : shares) {
    std::vector<Side> side = SidesWithin(trace, admission, share);
    if (std::find(tried.begin(), tried.end(), side) != tried.end()) continue;
    tried.push_back(side);
    if (PeakNeededDeviceBytes(request, side) > request.device_budget_bytes) {
      continue;
    }
    std::vector<Tuning> tunings = {tuning};
    for (const double strength : {0.0, 1.0}) {
      if (strength > 0 && !request.prefetch) break;
      if (strength == tuning.lead_strength) continue;
      tunings.push_back({strength, tuning.rule});
    }
    EnterSides(request, side, std::move(tunings), &contest);
  }
  // Sums on the device take room and time that states there could have, too, so
  // they are tried without any that need not be there, above, and beside those
  // of the best plan.
  const std::vector<Side> best_side = contest.best().plan.side;
  if (best_side != first_side) {
    EnterSums(request, best_side, contest.best().tuning, &contest);
  }
  return std::move(contest.best().plan);
}

}  // namespace castor
