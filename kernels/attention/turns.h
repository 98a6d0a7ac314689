// The order in which the blocks of attention's backward pass work and add to
// dq.
//
// A block has a tile of keys, and so a part of dq for each query that sees one
// of them. It steps through these queries from the last to the first, in steps
// of kStep, and adds its parts to those of the tiles of keys before its own: so
// dq's sums have the order of their keys. That takes one product less in each
// step than a separate pass over queries, which would compute all scores again.
//
// Under a causal mask the first tile of keys has the most queries, so that the
// longest blocks begin first, and each tile comes to the last queries one step
// after the tile before it, so that blocks rarely wait. Source: Qiang et al.,
// "DASH: Deterministic Attention Scheduling for High-Throughput Reproducible
// LLM Training", 2026, "descending Q-tile iteration".
//
// A warp has the same elements of dq in every block, so warps take turns
// (kernels/cuda/block.h), each with the corresponding warps of other blocks.
#ifndef CASTOR_KERNELS_ATTENTION_TURNS_H_
#define CASTOR_KERNELS_ATTENTION_TURNS_H_

#include <cstdint>

#include "kernels/attention/operands.h"
#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// The work of a launch's blocks, and the counters of their turns. heads_at_once
// affects only the time.
struct AttentionTurns {
  int64_t tiles;        // of keys
  int64_t batch_heads;  // B K
  int64_t parts;        // blocks that share a tile of keys
  // The number of heads whose tiles come before those of the next heads, so
  // that the GPU's cache holds their sums.
  int64_t heads_at_once;
  int64_t steps;  // of a head's queries
  int64_t warps;
  uint32_t* first;  // [B H, steps, parts, warps]
  uint32_t* begun;  // number of blocks begun

  // 32-bit numbers, since registers are few; a launch has fewer than 2^31
  // blocks.
  struct Work {
    int tile, kv_head, part;
  };
  // Returns the work of a block's number; tiles are in the order of turns.
  CASTOR_HD Work WorkOf(uint32_t number) const {
    const auto at_once = static_cast<uint32_t>(heads_at_once);
    const auto parts_of = static_cast<uint32_t>(parts);
    const uint32_t of_group = at_once * parts_of * static_cast<uint32_t>(tiles);
    const uint32_t group = number / of_group;
    const uint32_t head = group * at_once;
    const uint32_t heads =
        Min(at_once, static_cast<uint32_t>(batch_heads) - head);
    const uint32_t in_group = number - group * of_group;
    const uint32_t tile = in_group / (heads * parts_of);
    const uint32_t in_tile = in_group - tile * (heads * parts_of);
    return {static_cast<int>(tile), static_cast<int>(head + in_tile / parts_of),
            static_cast<int>(in_tile % parts_of)};
  }
};

// A tile's place among those that add to a step's queries.
struct AttentionTurn {
  uint32_t counter;  // the number of the first warp's
  uint32_t mine;     // number of tiles before it
  bool last;         // no tile comes after it

  // `keys` are those of the step of queries from `query` on.
  template <int kRows, int kStep, class Range>
  CASTOR_HD static AttentionTurn Of(const AttentionTurns& turns,
                                    const Range& keys,
                                    const AttentionTurns::Work& work, int head,
                                    int query) {
    const int64_t step = head * turns.steps + query / kStep;
    return {
        static_cast<uint32_t>((step * turns.parts + work.part) * turns.warps),
        static_cast<uint32_t>(work.tile - static_cast<int>(keys.begin / kRows)),
        work.tile == static_cast<int>((keys.end - 1) / kRows)};
  }

  CASTOR_HD bool first() const { return mine == 0; }

  // Each thread calls these; a warp's lanes meet after Wait.
  template <class Block>
  CASTOR_HD uint32_t Look(Block&, int t, const AttentionTurns& turns) const {
    return t % kWarp == 0 ? Block::Look(turns.first + counter + t / kWarp) : 0;
  }
  template <class Block>
  CASTOR_HD void Wait(Block&, int t, const AttentionTurns& turns,
                      uint32_t seen) const {
    if (t % kWarp != 0 || first()) return;
    Block::Await(turns.first + counter + t / kWarp, mine, seen);
  }
};

// A turn to pass on, later.
struct AttentionPass {
  // The number of the first warp's counter; kNone: no block waits.
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t counter;

  CASTOR_HD static AttentionPass None() { return {kNone}; }
  CASTOR_HD static AttentionPass Of(const AttentionTurn& turn) {
    return {turn.last ? kNone : turn.counter};
  }
  // Each thread calls this, after a Rejoin or a barrier that follows its warp's
  // writes.
  template <class Block>
  CASTOR_HD void On(Block&, int t, const AttentionTurns& turns) const {
    if (t % kWarp != 0 || counter == kNone) return;
    Block::Pass(turns.first + counter + t / kWarp);
  }
};

// The steps of a tile of keys, whose queries are `range`: from the last to the
// first, at multiples of kStep, and in each step the query heads that use its
// head of keys.
template <int kStep>
struct AttentionSteps {
  int first_query, query, head;
  int left;  // of this step's heads, after `head`

  template <class T>
  CASTOR_HD static AttentionSteps Of(
      const AttentionOperands<T>& of, int kv_head,
      const typename AttentionOperands<T>::Range& range) {
    const int begin = static_cast<int>(range.begin);
    const int last = Max(static_cast<int>(range.end) - 1, 0) / kStep * kStep;
    // Keys that no query sees have no steps.
    return {range.begin < range.end ? begin / kStep * kStep : last + 1, last,
            static_cast<int>(of.HeadOf(kv_head, 0)),
            static_cast<int>(of.group) - 1};
  }
  CASTOR_HD bool more() const { return query >= first_query; }
  template <class T>
  CASTOR_HD AttentionSteps Next(const AttentionOperands<T>& of) const {
    if (left > 0) return {first_query, query, head + 1, left - 1};
    const int group = static_cast<int>(of.group);
    return {first_query, query - kStep, head - (group - 1), group - 1};
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ATTENTION_TURNS_H_
