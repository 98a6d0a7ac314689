#include "run/checkpoint/checkpoint_size.h"

#include "run/checkpoint/checkpoint_format.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {
namespace {

// More than any configuration takes; its patterns are what could be long.
constexpr int64_t kMetadataBytes = 1 << 20;
// What a part's metadata and its entry in the marker take at most.
constexpr int64_t kPartBytes = 512;

}  // namespace

int64_t CheckpointFileBytes(const Parameters& parameters,
                            const ChunkLayout& layout, int rank,
                            int64_t metadata_bytes) {
  namespace format = checkpoint_format;
  int64_t bytes = format::kHeaderBytes + format::kFooterBytes +
                  static_cast<int64_t>(sizeof(uint64_t)) + metadata_bytes;
  for (const auto& parameter : parameters) {
    const ParameterRange own = ShardOf(*parameter, layout, rank);
    if (own.begin >= own.end) continue;
    // The parameter, and the optimizer's states of it.
    const int pieces = parameter->trainable ? layout.states.num_parts() : 1;
    for (int i = 0; i < pieces; ++i) {
      bytes +=
          format::kEntryBytes + static_cast<int64_t>(parameter->name.size()) +
          format::StoredBytes(layout.states.format(StatePart(i)),
                              own.end - own.begin, kCheckpointBlockElements);
    }
  }
  return bytes;
}

int64_t CheckpointBytes(const Parameters& parameters, const ChunkLayout& layout,
                        int64_t kept_bytes) {
  // In base64.
  int64_t bytes = kMetadataBytes + kept_bytes / 3 * 4;
  for (int rank = 0; rank < layout.world_size; ++rank) {
    bytes += CheckpointFileBytes(parameters, layout, rank, 2 * kPartBytes);
  }
  return bytes;
}

int64_t LeastCheckpointBytes(const Parameters& parameters,
                             const StateLayout& states) {
  int64_t bytes = 0;
  for (const auto& parameter : parameters) {
    const int pieces = parameter->trainable ? states.num_parts() : 1;
    for (int i = 0; i < pieces; ++i) {
      bytes += checkpoint_format::BlockBytes(states.format(StatePart(i)),
                                             parameter->elements());
    }
  }
  return bytes;
}

}  // namespace castor
