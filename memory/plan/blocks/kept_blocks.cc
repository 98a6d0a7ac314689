#include "memory/plan/blocks/kept_blocks.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>

#include "memory/plan/blocks/offloaded_blocks.h"
#include "tracer/step_signature.h"

namespace castor {
namespace {

bool Keeps(const KeptBlocks& kept, int64_t block) {
  return block < static_cast<int64_t>(kept.size()) && kept[block];
}

// 1: the block becomes one that is kept; -1: one that is not; 0: no change.
int64_t Change(const BlockRecord& block, const KeptBlocks& kept) {
  return static_cast<int64_t>(Keeps(kept, block.block)) -
         static_cast<int64_t>(block.kept);
}

// Computes the change of each operator's peak, indexed by moment. Operators
// that run again, in either trace, do not count.
std::vector<int64_t> PeakChanges(const StepTrace& trace,
                                 const KeptBlocks& kept) {
  // First differences from one moment to the next.
  std::vector<int64_t> changes(trace.ops.size() + 1, 0);
  for (const BlockRecord& block : trace.blocks) {
    const int64_t sign = Change(block, kept);
    if (sign == 0) continue;
    const int64_t end = block.forward.value + block.operators();
    int64_t before = 0;
    for (int64_t i = 0; i < block.operators(); ++i) {
      const int64_t now = block.kept_peak_bytes[i];
      changes[block.forward.value + i] += sign * (now - before);
      before = now;
    }
    changes[end] += sign * (block.kept_bytes - before);
    changes[block.backward.value] -= sign * block.kept_bytes;
  }
  int64_t sum = 0;
  for (int64_t& change : changes) change = sum += change;
  return changes;
}

}  // namespace

KeptBlocks KeptBlocksOf(const StepTrace& trace) {
  KeptBlocks kept;
  for (const BlockRecord& block : trace.blocks) {
    const size_t number = static_cast<size_t>(block.block);
    if (number >= kept.size()) kept.resize(number + 1, false);
    kept[number] = block.kept;
  }
  return kept;
}

KeptBlocks AllBlocks(const StepTrace& trace) {
  return KeptBlocks(KeptBlocksOf(trace).size(), true);
}

BlockCount CountBlocks(const StepTrace& trace) {
  BlockCount count;
  std::set<int64_t> numbers;
  for (const BlockRecord& block : trace.blocks) {
    if (!numbers.insert(block.block).second) continue;
    if (!block.kept) {
      count.spared_bytes += std::max<int64_t>(0, block.kept_bytes);
      continue;
    }
    const int64_t away = block.offloaded ? block.offload_bytes : 0;
    count.kept_bytes += std::max<int64_t>(0, block.kept_bytes - away);
    count.offloaded_bytes += away;
  }
  const KeptBlocks kept = KeptBlocksOf(trace);
  const std::vector<bool> offloaded = OffloadedBlocksOf(trace);
  const int64_t away = std::count(offloaded.begin(), offloaded.end(), true);
  count.blocks = static_cast<int64_t>(numbers.size());
  count.kept = std::count(kept.begin(), kept.end(), true) - away;
  count.offloaded = away;
  return count;
}

StepTrace WithKeptBlocks(const StepTrace& trace, const KeptBlocks& kept,
                         std::vector<Moment>* from) {
  if (OffloadsActivations(trace)) {
    return WithKeptBlocks(WithOffloadedBlocks(trace, {}), kept, from);
  }
  const int64_t moments = static_cast<int64_t>(trace.ops.size());
  const std::vector<int64_t> changes = PeakChanges(trace, kept);
  // Sort by the moment at which backward comes to the block. Where two moments
  // are equal, since backward has nothing to do for one of them, the later
  // block comes first.
  std::vector<size_t> by_backward(trace.blocks.size());
  std::iota(by_backward.rbegin(), by_backward.rend(), 0);
  std::stable_sort(by_backward.begin(), by_backward.end(),
                   [&](size_t a, size_t b) {
                     return trace.blocks[a].backward < trace.blocks[b].backward;
                   });

  StepTrace result = {.signature = {},
                      .training = trace.training,
                      .micro_batches = trace.micro_batches,
                      .chunks = trace.chunks,
                      .ops = {},
                      .blocks = trace.blocks,
                      .measured = trace.measured,
                      .global_norm = trace.global_norm};
  if (from != nullptr) from->clear();
  // Indexed by moment of `trace`: the moment in the result.
  std::vector<int64_t> now_at(moments, 0);
  const auto append = [&](int64_t t) -> OpRecord& {
    if (from != nullptr) from->push_back(Moment(t));
    return result.ops.emplace_back(trace.ops[t]);
  };
  auto next = by_backward.begin();
  for (int64_t t = 0; t <= moments; ++t) {
    while (next != by_backward.end() &&
           trace.blocks[*next].backward.value == t) {
      const BlockRecord& block = trace.blocks[*next];
      const int64_t sign = Change(block, kept);
      result.blocks[*next++].backward =
          Moment(static_cast<int64_t>(result.ops.size()));
      if (sign > 0) t += block.operators();
      for (int64_t i = 0; sign < 0 && i < block.operators(); ++i) {
        const int64_t of_forward = block.forward.value + i;
        OpRecord& again = append(of_forward);
        again.phase = Phase::kBackward;
        // Undo this block's own change: while its forward runs it keeps
        // everything.
        again.non_model_peak_bytes +=
            changes[of_forward] + block.kept_peak_bytes[i] + block.remake_bytes;
      }
    }
    if (t >= moments) break;
    now_at[t] = static_cast<int64_t>(result.ops.size());
    append(t).non_model_peak_bytes += changes[t];
  }
  for (BlockRecord& block : result.blocks) {
    block.forward = Moment(now_at[block.forward.value]);
    block.kept = Keeps(kept, block.block);
  }
  result.signature = SignatureOf(result);
  return result;
}

}  // namespace castor
