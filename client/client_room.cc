#include "client/client_room.h"

#include <algorithm>

#include "base/units.h"

namespace castor {

bool ClientRoom::NarrowFits(const std::vector<ParamId>& parameters) const {
  std::vector<bool> wanted(layout_.num_chunks(), false);
  for (const ParamId id : parameters) {
    wanted[layout_.place(id).chunk.value] = true;
  }
  int64_t free = arena_.free_bytes();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t bytes =
        RoundUp(layout_.payload_bytes(ChunkId(i)), kBlockAlignment);
    const bool resident = store_.resident(ChunkId(i));
    if (resident && !wanted[i]) free += bytes;
    if (!resident && wanted[i]) free -= bytes;
  }
  return free >= 0;
}

bool ClientRoom::SideFits() const {
  int64_t free = arena_.free_bytes(), most = 0;
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    const ChunkId id(i);
    const int64_t bytes = RoundUp(layout_.payload_bytes(id), kBlockAlignment);
    if (store_.resident(id)) free += bytes;
    if (layout_.chunk(id).trainable && store_.side(id) == Side::kDevice) {
      most = std::max(most, bytes);
    }
  }
  return free >= most;
}

bool ClientRoom::PlanFits(const Plan& plan, int64_t free_bytes,
                          bool accumulate) const {
  for (const ResidentChunk& start : plan.initial) {
    free_bytes -= RoundUp(layout_.payload_bytes(start.chunk), kBlockAlignment);
  }
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    if (plan.side[i] != Side::kDevice) continue;
    free_bytes -=
        RoundUp(layout_.state_bytes(ChunkId(i), accumulate), kBlockAlignment);
  }
  return free_bytes >= 0;
}

bool ClientRoom::ActionsFit(const Plan& plan, int64_t begin,
                            int64_t end) const {
  int64_t free = arena_.free_bytes();
  for (int64_t t = begin; t < end; ++t) {
    for (const Action& action : plan.actions[t]) {
      const ActionRow& row = RowOf(action.kind);
      const int64_t bytes = RoundUp(
          row.block == ChunkBlock::kSum
              ? layout_.shard_elements(action.chunk) * StateLayout::kSumBytes
              : layout_.payload_bytes(action.chunk),
          kBlockAlignment);
      if (row.makes) {
        free -= bytes;
        if (free < 0) return false;
      }
      if (row.frees) free += bytes;
    }
  }
  return true;
}

}  // namespace castor
