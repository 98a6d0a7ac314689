#include "memory/plan/policy/auto_schedule.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/types/span.h"
#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/prefetch.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {
namespace {

// A copy that hides behind an operator is not free: it takes power, and may be
// slower than estimated. So each copy counts a twentieth of its time.
constexpr double kHiddenCopyWeight = 0.05;

// Returns `blocks` and the blocks of `sums`.
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

}  // namespace

AutoSchedule::AutoSchedule(const PlanTask& task, std::vector<Side> side,
                           std::vector<GradientBlock> blocks,
                           const std::vector<PossibleSum>& sums)
    : task_(task),
      request_(task.request),
      side_(std::move(side)),
      index_(*request_.trace, side_, AllBlocks(blocks, sums), SumsOf(sums)),
      free_bytes_(FreeBesideNeeds(request_, side_)) {
  if (sums.empty() && blocks.empty()) return;
  Room room(free_bytes_);
  for (const PossibleSum& sum : sums) {
    TakeDeviceSum(*request_.trace, sum, room);
  }
  for (const GradientBlock& block : blocks) {
    room.Take(block.from, block.drop, block.bytes);
  }
  free_bytes_ = room.Values();
}

Candidate AutoSchedule::Make(const Tuning& tuning) const {
  Residency residency = StayEverywhere(index_);
  std::vector<int64_t> back_at =
      LoneDueMoments(index_, request_.bus, tuning.lead_strength);
  for (size_t g = 0; g < back_at.size() && tuning.host_first; ++g) {
    const Gap& gap = index_.gaps()[g];
    if (side_[gap.chunk] == Side::kDevice) back_at[g] = gap.from + 1;
  }
  Evict(index_, free_bytes_, back_at, tuning.rule, residency);
  // A fetch in time takes room before its use, so more chunks may have to
  // leave, which are then fetched in turn. A few rounds settle it; fetches that
  // still find no room come a little late.
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

  Room room(FreeBesideStays(index_, residency, free_bytes_));
  std::vector<int64_t> fetches = FetchesByNeed(index_, residency);
  MoveFetchesUp(index_, fetches,
                DueMoments(index_, request_.bus, tuning.lead_strength, fetches),
                room, residency);
  KeepWhatFits(index_, room, residency);
  Candidate candidate;
  if (request_.prefetch && tuning.early) {
    fetches = FetchesByNeed(index_, residency);
    if (tuning.off_copies) {
      TakeUntilCopiedBack(index_, request_.bus, residency, room);
    }
    MoveFetchesUp(index_, fetches,
                  EarliestMoments(index_, fetches, tuning.ahead), room,
                  residency);
  }
  candidate.plan = WritePlan(request_, side_, index_, residency);
  candidate.tuning = tuning;
  candidate.useful_blocks = UsefulBlocks(residency);
  Judge(&candidate);
  return candidate;
}

Candidate AutoSchedule::MakeOneOperatorAhead() const {
  Candidate candidate;
  candidate.plan = PlanOneOperatorAhead(request_, side_);
  Judge(&candidate);
  return candidate;
}

void AutoSchedule::Judge(Candidate* candidate) const {
  const PlanCost cost = task_.simulator.Simulate(candidate->plan);
  const StepEstimate step =
      task_.short_step == nullptr
          ? StepEstimate{static_cast<double>(cost.step_ns),
                         static_cast<double>(cost.h2d_bytes),
                         static_cast<double>(cost.d2h_bytes)}
          : EstimateWhole(*task_.short_step, candidate->plan, request_, cost);
  const double copies_s = step.h2d_bytes / request_.bus.h2d_bytes_per_s +
                          step.d2h_bytes / request_.bus.d2h_bytes_per_s;
  candidate->step_ns = step.step_ns;
  candidate->moved_bytes = step.h2d_bytes + step.d2h_bytes;
  candidate->score = step.step_ns + kHiddenCopyWeight * copies_s * 1e9;
}

std::vector<GradientBlock> AutoSchedule::DropAfterCopies(
    std::vector<GradientBlock> blocks, double copies) const {
  for (GradientBlock& block : blocks) {
    if (copies == 0) continue;
    const bool on_device = side_[block.chunk] == Side::kDevice;
    const double ns = on_device ? ExchangeNs(block.chunk)
                                : CopyBackNs(request_.bus, block.bytes);
    block.drop =
        std::min(MomentAfter(block.reduce, copies * ns), block.next_write);
    block.drop = std::max(block.drop, block.reduce + (block.sent ? 0 : 1));
  }
  return blocks;
}

std::vector<PossibleSum> AutoSchedule::DropAfterCopies(
    std::vector<PossibleSum> sums, double copies) const {
  for (PossibleSum& possible : sums) {
    DeviceSum& sum = possible.sum;
    const int64_t send = sum.reduce + 1;
    const double ns = copies * CopyBackNs(request_.bus, sum.bytes);
    sum.drop = std::min(MomentAfter(send, ns), index_.moments());
    sum.drop = std::max(sum.drop, send);
  }
  return sums;
}

// Returns the first moment that starts after work of `ns` that begins at moment
// `from` has ended.
int64_t AutoSchedule::MomentAfter(int64_t from, double ns) const {
  return index_.MomentAt(index_.StartNs(from) + static_cast<int64_t>(ns)) + 1;
}

// Returns the time until all ranks' gradients of the chunk are there.
double AutoSchedule::ExchangeNs(int64_t chunk) const {
  const ChunkInfo& info = request_.trace->chunks[chunk];
  return static_cast<double>(request_.bus.latency_ns) +
         static_cast<double>(info.payload_bytes - info.home_bytes()) * 1e9 /
             request_.bus.network_bytes_per_s;
}

// Returns the gradient blocks that saved a refetch: those that are sent home
// while the payload stays on the device, and all blocks of the device's side,
// which save a gather.
std::vector<GradientBlock> AutoSchedule::UsefulBlocks(
    const Residency& residency) const {
  std::vector<GradientBlock> useful;
  for (const GradientBlock& block : index_.gradient_blocks()) {
    if (side_[block.chunk] == Side::kDevice) {
      useful.push_back(block);
      continue;
    }
    if (!block.sent) continue;
    // Its operators use the chunk, so there is a use before the reduce.
    const absl::Span<const Use> uses = index_.uses(block.chunk);
    const auto after = std::upper_bound(
        uses.begin(), uses.end(), block.reduce,
        [](int64_t t, const Use& use) { return t < use.moment; });
    if (residency[std::prev(after)->gap].stays) useful.push_back(block);
  }
  return useful;
}

}  // namespace castor
