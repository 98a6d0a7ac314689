#include "memory/plan/layout/shard_staging.h"

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "memory/plan/plan.h"

namespace castor {

int64_t ShardStaging::HostBytes() const {
  return slots * RoundUp(slot_bytes, kBlockAlignment);
}

int64_t ShardStaging::DeviceBytes() const {
  return RoundUp(parts_bytes, kBlockAlignment);
}

ShardStaging FindShardStaging(const StepTrace& trace) {
  ShardStaging staging;
  std::vector<bool> open(trace.chunks.size(), false);
  int64_t now = 0, most = 0;
  for (const OpRecord& op : trace.ops) {
    most = std::max(most, now);
    for (const ChunkUse& use : op.chunks) {
      const int64_t c = use.chunk.value;
      if (op.kind == OpKind::kReduce) {
        now -= open[c];
        open[c] = false;
      } else if (op.kind == OpKind::kCompute && use.writes && !open[c] &&
                 !trace.chunks[c].holds_activations()) {
        open[c] = true;
        ++now;
      }
    }
  }
  if (!trace.training) return staging;
  for (const ChunkInfo& chunk : trace.chunks) {
    if (chunk.optimizer_bytes == 0 || chunk.shard_bytes == 0) continue;
    staging.slot_bytes = std::max(staging.slot_bytes, chunk.payload_bytes);
    staging.parts_bytes =
        std::max(staging.parts_bytes, chunk.payload_bytes - chunk.shard_bytes);
  }
  if (staging.slot_bytes > 0) staging.slots = most + 2;
  return staging;
}

}  // namespace castor
