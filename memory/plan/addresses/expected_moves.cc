#include "memory/plan/addresses/expected_moves.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "base/check.h"
#include "base/free_ranges.h"
#include "base/units.h"
#include "memory/plan/addresses/compaction.h"
#include "memory/plan/simulate/step_blocks.h"

namespace castor {
namespace {

enum class End : uint8_t { kLow, kHigh };

// Places blocks by first fit from two ends, and moves them together where no
// hole fits.
class FirstFit {
 public:
  explicit FirstFit(int64_t bytes) { Give(0, bytes); }

  int64_t Make(int64_t bytes, End from) {
    int64_t offset = Fit(bytes, from);
    if (offset < 0) {
      ++moves_.times;
      Compact(bytes);
      offset = Fit(bytes, from);
      CASTOR_CHECK(offset >= 0);
    }
    free_.Take(offset, bytes, [](NoTime) {});
    blocks_.push_back({offset, bytes, from});
    by_offset_.emplace(offset, blocks_.size() - 1);
    return static_cast<int64_t>(blocks_.size()) - 1;
  }
  void Free(int64_t block) {
    by_offset_.erase(blocks_[block].offset);
    Give(blocks_[block].offset, blocks_[block].bytes);
  }
  ExpectedMoves TakeMoves() { return std::exchange(moves_, {}); }

 private:
  struct Block {
    int64_t offset = 0;
    int64_t bytes = 0;
    End from = End::kLow;
  };

  int64_t Fit(int64_t bytes, End from) const {
    const auto any = [](NoTime) { return true; };
    return from == End::kLow ? free_.FitLow(bytes, any)
                             : free_.FitHigh(bytes, any);
  }
  void Give(int64_t offset, int64_t bytes) {
    free_.Give(offset, bytes, {}, [](NoTime&, NoTime) { return true; });
  }

  // As in the arena, blocks up to the last one from the low end slide down, the
  // others up.
  void Compact(int64_t wanted) {
    const AddressRange window = CheapestWindow(free_, wanted);
    std::vector<size_t> inside;
    size_t down = 0;
    int64_t used = 0;
    auto it = by_offset_.lower_bound(window.begin);
    while (it != by_offset_.end() && it->first < window.end) {
      inside.push_back(it->second);
      used += blocks_[it->second].bytes;
      if (blocks_[it->second].from == End::kLow) down = inside.size();
      it = by_offset_.erase(it);
    }
    moves_.bytes += used;
    int64_t low = window.begin, high = window.end;
    for (size_t i = 0; i < down; ++i) {
      blocks_[inside[i]].offset = low;
      low += blocks_[inside[i]].bytes;
    }
    for (size_t i = inside.size(); i-- > down;) {
      high -= blocks_[inside[i]].bytes;
      blocks_[inside[i]].offset = high;
    }
    for (const size_t block : inside) {
      by_offset_.emplace(blocks_[block].offset, block);
    }
    FreeRanges<NoTime> free;
    const auto merge = [](NoTime&, NoTime) { return true; };
    for (const auto& [offset, range] : free_) {
      if (offset >= window.begin && offset < window.end) continue;
      free.Give(offset, range.bytes, {}, merge);
    }
    free.Give(low, high - low, {}, merge);
    free_ = std::move(free);
  }

  std::vector<Block> blocks_;
  absl::btree_map<int64_t, size_t> by_offset_;
  FreeRanges<NoTime> free_;
  ExpectedMoves moves_;
};

}  // namespace

std::optional<ExpectedMoves> ExpectMoves(const Plan& plan,
                                         const PlanRequest& request) {
  const StepTrace& trace = *request.trace;
  if (!SaysWhenTensorsLive(trace)) return std::nullopt;
  const StepBlocks step = BlocksOfStep(plan, trace);
  // Without a budget nothing is moved.
  if (request.device_budget_bytes >= kUnlimitedBytes) return ExpectedMoves();
  const int64_t room =
      (request.device_budget_bytes - StayingBytes(plan, request)) /
      kBlockAlignment * kBlockAlignment;
  FirstFit memory(room);
  std::vector<int64_t> places(step.blocks.size());
  for (int64_t i = 0; i < step.num_initial; ++i) {
    places[i] = memory.Make(step.blocks[i].bytes, End::kLow);
  }
  ExpectedMoves moves;
  constexpr int kSteps = 3;  // a later one begins with what the one before left
  for (int s = 0; s < kSteps; ++s) {
    for (const BlockEvent& event : step.events) {
      const StepBlock& block = step.blocks[event.block];
      if (event.makes) {
        places[event.block] = memory.Make(
            block.bytes, IsFromHighEnd(block.kind) ? End::kHigh : End::kLow);
      } else {
        memory.Free(places[event.block]);
      }
    }
    for (int64_t i = 0; i < step.num_initial; ++i) {
      places[i] = places[step.blocks[i].at_end];
    }
    moves = memory.TakeMoves();
  }
  return moves;
}

}  // namespace castor
