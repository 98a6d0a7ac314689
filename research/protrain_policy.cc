#include "research/protrain_policy.h"

#include <algorithm>
#include <utility>

#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/eviction.h"
#include "memory/plan/residency/prefetch.h"
#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"
#include "research/baseline_search.h"

namespace castor {
namespace {

// Returns the room beside the bytes that must be there and the blocks of
// gradients.
std::vector<int64_t> FreeBesideBlocks(
    const PlanRequest& request, const std::vector<Side>& side,
    const std::vector<GradientBlock>& blocks) {
  Room room(FreeBesideNeeds(request, side));
  for (const GradientBlock& block : blocks) {
    room.Take(block.from, block.drop, block.bytes);
  }
  return room.Values();
}

}  // namespace

Plan PlanProTrainWith(const PlanRequest& request, const std::vector<Side>& side,
                      const ProTrainKnobs& knobs) {
  std::vector<GradientBlock> blocks;
  if (knobs.gradient_blocks) {
    blocks =
        GradientBlocksThatFit(Room(FreeBesideNeeds(request, side)),
                              PossibleGradientBlocks(*request.trace, side));
  }
  const std::vector<int64_t> free_bytes =
      FreeBesideBlocks(request, side, blocks);
  const UseIndex index(*request.trace, side, std::move(blocks));
  Residency residency = StayEverywhere(index);

  // Chunks that persist get their room first, so that no other takes it.
  Room room(free_bytes);
  std::vector<int64_t> back_at;
  for (size_t g = 0; g < residency.size(); ++g) {
    const Gap& gap = index.gaps()[g];
    // Activations are there because their block is swapped.
    if (request.trace->chunks[gap.chunk].holds_activations() && !gap.forced()) {
      residency[g] = {false, gap.to, gap.from + 1};
    }
    const bool persists = side[gap.chunk] == Side::kDevice && !gap.forced() &&
                          room.Min(gap.from + 1, gap.to) >= gap.bytes;
    if (persists) room.Take(gap.from + 1, gap.to, gap.bytes);
    back_at.push_back(persists ? gap.from + 1 : gap.to);
  }
  const std::vector<int64_t> buffers = room.Values();
  std::vector<int64_t> kept = free_bytes;
  for (size_t t = 0; t < kept.size(); ++t) {
    kept[t] -= std::min(buffers[t], knobs.on_their_way_bytes);
  }
  Evict(index, kept, back_at, VictimRule::kFarthest, residency);

  if (request.prefetch) {
    Room left(free_bytes);
    for (size_t g = 0; g < residency.size(); ++g) {
      const Gap& gap = index.gaps()[g];
      if (residency[g].stays) left.Take(gap.from + 1, gap.to, gap.bytes);
    }
    const std::vector<int64_t> fetches = FetchesByNeed(index, residency);
    MoveFetchesUp(index, fetches, std::vector<int64_t>(fetches.size(), 0), left,
                  residency);
    // A buffer that nothing else came into still has what it had.
    KeepWhatFits(index, left, residency);
  }
  return WritePlan(request, side, index, residency);
}

Plan PlanProTrain(const PlanRequest& request, const Admission& admission) {
  const double margin = static_cast<double>(
      request.device_budget_bytes -
      PeakNeededDeviceBytes(request, AdmittedSides(request, admission)));
  int64_t largest = 0;
  for (const ChunkInfo& chunk : request.trace->chunks) {
    largest = std::max(largest, PayloadBlock(chunk));
  }
  FastestPlan fastest(request);
  for (const std::vector<Side>& side :
       FirstSidesUpTo(request, admission, margin, /*steps=*/16)) {
    const bool several = !PossibleGradientBlocks(*request.trace, side).empty();
    for (const int buffers : {0, 1, 2, 3, 4, 6, 8, 16}) {
      for (const bool blocks : {false, true}) {
        if (blocks && !several) break;
        fastest.Enter(
            PlanProTrainWith(request, side, {largest * buffers, blocks}));
      }
    }
  }
  return fastest.plan();
}

}  // namespace castor
