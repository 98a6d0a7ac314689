// How large a checkpoint is, before it is written.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_SIZE_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_SIZE_H_

#include <cstdint>

#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/layout/state_layout.h"
#include "run/model/model_state.h"

namespace castor {

// Bytes of the file that rank `rank` writes of its shards, with metadata of
// `metadata_bytes`. Exact.
int64_t CheckpointFileBytes(const Parameters& parameters,
                            const ChunkLayout& layout, int rank,
                            int64_t metadata_bytes);

// Bytes of a checkpoint of all of `layout`'s ranks: an upper bound, for its
// metadata are not known yet. `kept_bytes`: CheckpointMetadata::files.
int64_t CheckpointBytes(const Parameters& parameters, const ChunkLayout& layout,
                        int64_t kept_bytes = 0);

// The same before there is a layout of chunks: a lower bound, that of the
// values alone.
int64_t LeastCheckpointBytes(const Parameters& parameters,
                             const StateLayout& states);

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_SIZE_H_
