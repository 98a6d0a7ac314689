#include "memory/plan/layout/chunk_layout.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor {
namespace {

// The most elements of a model: some hundred times what has been trained, and
// so few that sums of sizes stay within int64_t.
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr int64_t kFloorBytes = 256 << 10;
constexpr int64_t kCapBytes = 64 << 20;
constexpr int64_t kMostParts = 64;
constexpr int64_t kFewestParts = 8;
constexpr int64_t kCandidates = 96;

ParamId IdOf(absl::Span<const LayoutParameter> parameters, size_t i) {
  return parameters[i].id.valid() ? parameters[i].id
                                  : ParamId(static_cast<int64_t>(i));
}

absl::Status CheckArguments(absl::Span<const LayoutParameter> parameters,
                            const LayoutOptions& options) {
  if (parameters.empty()) {
    return absl::InvalidArgumentError("a chunk layout needs parameters");
  }
  if (options.world_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("world size ", options.world_size, " is below 1"));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", options.rank, " of a world of ", options.world_size));
  }
  if (options.states.slots.size() > kMaxStateSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.states.slots.size(), " state slots are more than ",
                     kMaxStateSlots));
  }
  if (options.states.master != StateFormat::kFloat32 &&
      (options.dtype != DType::kBFloat16 ||
       IsEightBits(options.states.master))) {
    return absl::InvalidArgumentError(
        absl::StrCat("masters of parameters in ", DTypeName(options.dtype),
                     " are kept in fp32; in bf16 they may be split or bf16"));
  }
  const int64_t tile_bytes = kTileElements * SizeOf(options.dtype);
  if (options.chunk_bytes != 0 && options.chunk_bytes < tile_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory.chunk_size: ", options.chunk_bytes,
        " bytes are less than one tile of ", DTypeName(options.dtype),
        ": give at least ", tile_bytes, ", or \"auto\""));
  }
  int64_t total = 0;
  std::vector<bool> seen(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const LayoutParameter& parameter = parameters[i];
    const ParamId id = IdOf(parameters, i);
    if (id.value >= static_cast<int64_t>(seen.size()) || seen[id.value]) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter \"", parameter.name, "\" has id ", id.value,
                       ", which is taken or not below ", seen.size()));
    }
    seen[id.value] = true;
    if (parameter.elements < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter \"", parameter.name, "\" has ",
                       parameter.elements, " elements: at least 1 is needed"));
    }
    if (options.states.margins && parameter.trainable &&
        parameter.margins.elements() != parameter.elements) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter \"", parameter.name, "\" of ", parameter.elements,
          " elements has rows and columns for ", parameter.margins.elements()));
    }
    if (parameter.elements > kMaxElements - total) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter \"", parameter.name, "\" of ", parameter.elements,
          " elements makes the model larger "
          "than 2^48 elements"));
    }
    total += parameter.elements;
  }
  return absl::OkStatus();
}

// Walks the parameters as rule 6 says and tells `sink` where each goes:
// sink.Own(i, elements), sink.Open(i, elements), sink.Append(i, offset).
template <typename Sink>
void Place(absl::Span<const LayoutParameter> parameters, int64_t grain,
           int64_t capacity, Sink& sink) {
  int64_t used[2] = {capacity, capacity};  // of the open chunk of each kind
  for (size_t i = 0; i < parameters.size(); ++i) {
    const LayoutParameter& parameter = parameters[i];
    const int64_t size = RoundUp(parameter.elements, kTileElements);
    if (size > capacity) {
      sink.Own(i, RoundUp(size, grain));
      continue;
    }
    int64_t& offset = used[parameter.trainable ? 1 : 0];
    if (size > capacity - offset) {
      sink.Open(i, capacity);
      offset = 0;
    }
    sink.Append(i, offset);
    offset += size;
  }
}

struct Measure {
  absl::Span<const LayoutParameter> parameters;
  int64_t outsize = 0;  // elements of outsize chunks
  int64_t chunks = 0;   // normal ones
  int64_t fullest = 0;  // elements of the fullest of them
  void Own(size_t, int64_t elements) { outsize += elements; }
  void Open(size_t, int64_t) { ++chunks; }
  void Append(size_t i, int64_t offset) {
    fullest = std::max(fullest,
                       offset + RoundUp(parameters[i].elements, kTileElements));
  }
};

struct BuildLayout {
  absl::Span<const LayoutParameter> parameters;
  ChunkLayout& layout;
  ChunkId open[2];

  ChunkId NewChunk(size_t i, int64_t elements) {
    layout.total_elements += elements;
    ChunkSpec& chunk = layout.chunks.emplace_back();
    chunk.trainable = parameters[i].trainable;
    chunk.elements = elements;
    return ChunkId(static_cast<int64_t>(layout.chunks.size()) - 1);
  }
  void Put(size_t i, ChunkId chunk, int64_t offset) {
    ChunkSpec& spec = layout.chunks[chunk.value];
    const ParamId id = IdOf(parameters, i);
    spec.parameters.push_back(id);
    spec.used_elements += parameters[i].elements;
    layout.parameter_elements += parameters[i].elements;
    layout.parameters[id.value] = parameters[i];
    layout.parameters[id.value].id = id;
    layout.places[id.value] = {chunk, offset};
  }
  void Own(size_t i, int64_t elements) { Put(i, NewChunk(i, elements), 0); }
  void Open(size_t i, int64_t elements) {
    open[parameters[i].trainable ? 1 : 0] = NewChunk(i, elements);
  }
  void Append(size_t i, int64_t offset) {
    Put(i, open[parameters[i].trainable ? 1 : 0], offset);
  }
};

// Elements that the larger of the two kinds takes, rounded to tiles.
int64_t LargerKind(absl::Span<const LayoutParameter> parameters) {
  int64_t kinds[2] = {0, 0};
  for (const LayoutParameter& parameter : parameters) {
    kinds[parameter.trainable ? 1 : 0] +=
        RoundUp(parameter.elements, kTileElements);
  }
  return std::max(kinds[0], kinds[1]);
}

int64_t SearchCapacity(absl::Span<const LayoutParameter> parameters,
                       int64_t grain, int64_t element_bytes) {
  int64_t total = 0;
  for (const LayoutParameter& parameter : parameters) {
    total += RoundUp(parameter.elements, kTileElements);
  }
  const int64_t floor = kFloorBytes / element_bytes;
  const int64_t cap = kCapBytes / element_bytes;
  int64_t low = std::min(total / kMostParts, cap / 2);
  int64_t high = std::min(total / kFewestParts, cap);
  if (high >= floor) low = std::max(low, floor);
  low = RoundUp(std::max(low, int64_t{1}), grain);
  high = std::max(RoundUp(std::max(high, int64_t{1}), grain), low);

  const int64_t stride =
      std::max(RoundUp((high - low) / (kCandidates - 1), grain), grain);
  int64_t best = low;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t candidate = low; candidate <= high; candidate += stride) {
    Measure measure{parameters};
    Place(parameters, grain, candidate, measure);
    if (measure.chunks == 0) {  // all outsize
      if (measure.outsize < least) best = candidate;
      least = std::min(least, measure.outsize);
      continue;
    }
    // Parameters that did not fit into the candidate do not fit into less: the
    // cut into chunks stays the same at the size of the fullest one.
    const int64_t size = RoundUp(measure.fullest, grain);
    const int64_t total_elements = measure.outsize + measure.chunks * size;
    if (total_elements < least || (total_elements == least && size < best)) {
      least = total_elements;
      best = size;
    }
  }
  return best;
}

}  // namespace

absl::StatusOr<ChunkLayout> MakeChunkLayout(
    absl::Span<const LayoutParameter> parameters,
    const LayoutOptions& options) {
  CASTOR_RETURN_IF_ERROR(CheckArguments(parameters, options));
  const int64_t element_bytes = SizeOf(options.dtype);
  const int64_t grain = kTileElements * options.world_size;
  int64_t capacity = 0;
  if (options.chunk_bytes == 0) {
    capacity = SearchCapacity(parameters, grain, element_bytes);
  } else {
    const int64_t wanted = options.chunk_bytes / element_bytes / grain * grain;
    capacity = std::max(wanted, grain);
  }
  capacity = std::min(capacity, RoundUp(LargerKind(parameters), grain));

  ChunkLayout layout;
  layout.dtype = options.dtype;
  layout.world_size = options.world_size;
  layout.rank = options.rank;
  layout.states = options.states;
  layout.chunk_elements = capacity;
  layout.parameters.resize(parameters.size());
  layout.places.resize(parameters.size());
  BuildLayout build{parameters, layout, {}};
  Place(parameters, grain, capacity, build);
  return layout;
}

}  // namespace castor
