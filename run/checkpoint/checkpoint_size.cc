#include "run/checkpoint/checkpoint_size.h"

#include "run/checkpoint/checkpoint_format.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {
namespace {

// More than any configuration takes; its patterns are what could be long.
constexpr int64_t kMetadataBytes = 1 << 20;
// The most bytes of a part's metadata and of its entry in the marker.
constexpr int64_t kPartBytes = 512;

}  // namespace

int64_t CheckpointFileBytes(const Parameters& parameters,
                            const ChunkLayout& layout, int rank,
                            int64_t metadata_bytes) {
  namespace format = checkpoint_format;
  int64_t bytes = format::kHeaderBytes + format::kFooterBytes +
                  static_cast<int64_t>(sizeof(uint64_t)) + metadata_bytes;
  for (const auto& parameter : parameters) {
    // The parameter, and the optimizer's states of it.
    for (const StatePart part : PartsOf(*parameter, layout.states)) {
      const ParameterRange own = OwnedBy(rank, *parameter, part, layout);
      if (own.begin >= own.end) continue;
      bytes +=
          format::kEntryBytes + static_cast<int64_t>(parameter->name.size()) +
          format::StoredBytes(layout.states.format(part), own.end - own.begin,
                              kCheckpointBlockElements);
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
    for (const StatePart part : PartsOf(*parameter, states)) {
      if (part.is_margins()) continue;  // little
      bytes += checkpoint_format::BlockBytes(states.format(part),
                                             parameter->elements());
    }
  }
  return bytes;
}

}  // namespace castor
