// The layout of a model's parameters in chunks.
//
// A *chunk* holds parameters in the order in which they are first used, one
// after the other; it is the unit of movement, sharding and planning. A
// parameter's payload in chunk c begins `offset` elements after the chunk's
// start, in the parameter, in its gradient and in each optimizer state alike.
//
//   chunk 0    [ wte ................ ]          outsize: exactly its size
//   chunk 1    [ wpe ..|pad| ln_1.w|pad| ln_1.b|pad| ........ end padding ]
//   chunk 2    [ c_attn.w ...........|pad| ................ | end padding ]
//              |<---------------- S elements ------------------------------>|
//
// Invariants (chunk_layout_test.cc holds each for random models):
//  1. Every parameter lies in one chunk, whole; no two overlap.
//  2. Offsets are multiples of kTileElements; what lies between parameters and
//     at a chunk's end is padding.
//  3. A chunk's elements are a multiple of kTileElements * world_size, so every
//     shard is of equal size and of whole tiles.
//  4. Trainable and frozen parameters never share a chunk.
//  5. Normal chunks all have chunk_elements (S) elements. A parameter that is
//     larger has a chunk of its own, exactly its size rounded up to rule 3.
//  6. Within a chunk the order of first use is kept; chunks are numbered in the
//     order of their first parameters. A normal chunk is closed by the first
//     parameter of its kind (trainable or frozen) that does not fit, and never
//     opened again; an outsize one does not close it.
#ifndef CASTOR_MEMORY_PLAN_LAYOUT_CHUNK_LAYOUT_H_
#define CASTOR_MEMORY_PLAN_LAYOUT_CHUNK_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "memory/plan/layout/margins.h"
#include "memory/plan/layout/state_layout.h"

namespace castor {

// Elements of a tile; equals kNormTile of kernels/exact_sum/exact_sum.h and
// kStateTile of base/state_format.h. A parameter's norm is summed, and its
// states have scales, tile by tile from its start, and tiles do not straddle
// shards.
inline constexpr int64_t kTileElements = 64;
static_assert(kTileElements == kStateTile);

struct LayoutParameter {
  std::string name;  // for messages and traces
  int64_t elements = 0;
  bool trainable = true;
  // They count only where StateLayout::margins is set.
  Margins margins = {};
  // The parameter's number in ChunkLayout; if invalid, its position in the
  // list.
  ParamId id = {};
};

struct LayoutOptions {
  DType dtype = DType::kFloat32;  // of the payload
  // Payload bytes of a normal chunk, rounded down to rule 3 (but at least one
  // tile per rank). 0: searched for the least padding, see MakeChunkLayout.
  int64_t chunk_bytes = 0;
  int world_size = 1;
  int rank = 0;             // affects only shard_begin
  StateLayout states = {};  // of trainable chunks
};

struct ChunkPlace {
  ChunkId chunk;
  int64_t offset = 0;  // in elements from the chunk's start
  friend bool operator==(const ChunkPlace&, const ChunkPlace&) = default;
};

struct ChunkSpec {
  bool trainable = true;
  int64_t elements = 0;       // capacity, padding included
  int64_t used_elements = 0;  // of its parameters
  std::vector<ParamId> parameters;
};

struct ChunkLayout {
  using Place = ChunkPlace;

  DType dtype = DType::kFloat32;
  int world_size = 1;
  int rank = 0;
  StateLayout states;                       // of trainable chunks
  int64_t chunk_elements = 0;               // S
  std::vector<LayoutParameter> parameters;  // indexed by ParamId
  std::vector<ChunkPlace> places;           // indexed by ParamId
  std::vector<ChunkSpec> chunks;            // indexed by ChunkId

  int64_t total_elements = 0;      // of all chunks
  int64_t parameter_elements = 0;  // of all parameters
  int64_t padding_elements() const {
    return total_elements - parameter_elements;
  }
  int64_t num_chunks() const { return static_cast<int64_t>(chunks.size()); }
  const LayoutParameter& parameter(ParamId id) const {
    return parameters[id.value];
  }
  const ChunkPlace& place(ParamId id) const { return places[id.value]; }
  const ChunkSpec& chunk(ChunkId id) const { return chunks[id.value]; }
  // The values that the optimizer keeps of the parameter's margins.
  int64_t num_margins(ParamId id) const {
    const LayoutParameter& of = parameter(id);
    return states.margins && of.trainable ? of.margins.count() : 0;
  }
  int64_t num_margins(ChunkId id) const {
    int64_t count = 0;
    for (ParamId each : chunk(id).parameters) count += num_margins(each);
    return count;
  }
  int64_t num_margins() const {
    int64_t count = 0;
    for (int64_t i = 0; i < num_chunks(); ++i) count += num_margins(ChunkId(i));
    return count;
  }
  int64_t payload_bytes(ChunkId id) const {
    return chunk(id).elements * SizeOf(dtype);
  }
  // This rank's shard: elements [shard_begin, shard_begin + shard_elements) of
  // the chunk; all of it on one rank.
  int64_t shard_elements(ChunkId id) const {
    return chunk(id).elements / world_size;
  }
  int64_t shard_begin(ChunkId id) const { return rank * shard_elements(id); }
  int64_t shard_bytes(ChunkId id) const {
    return shard_elements(id) * SizeOf(dtype);
  }
  // Bytes of the shard's optimizer states, with sums of gradients if
  // `accumulate`; 0 for a frozen chunk.
  int64_t state_bytes(ChunkId id, bool accumulate) const {
    if (!chunk(id).trainable) return 0;
    return states.Bytes(shard_elements(id), accumulate);
  }
};

// Lays out `parameters`, given in order of first use. Tied parameters appear
// once.
//
// S is at most what the larger kind (trainable or frozen) needs in one chunk.
// In the search (chunk_bytes 0), up to 96 sizes are tried that cut the model
// into 8 to 64 parts, from 256 KiB (below that a copy's fixed cost shows; a
// model of less than 2 MiB ignores it) to 64 MiB. Each is cut to what its
// fullest chunk takes, which keeps the packing; the least total padding wins,
// then the smaller S.
//
// InvalidArgument: no parameter, one without elements, ids that are no
// permutation, margins that the optimizer wants and that are not those of so
// many elements, more than 2^48 elements in all, a chunk smaller than a tile, a
// world size below 1, a rank out of it, more than kMaxStateSlots slots, masters
// that payloads of the type cannot have (state_layout.h). Cost: about 100
// passes over `parameters`.
absl::StatusOr<ChunkLayout> MakeChunkLayout(
    absl::Span<const LayoutParameter> parameters, const LayoutOptions& options);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_LAYOUT_CHUNK_LAYOUT_H_
