#include "memory/plan/blocks/offloaded_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tracer/step_signature.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

// The moments at which a block's activations are a chunk, both included.
struct Stretch {
  int64_t made = 0;
  int64_t read = 0;
};

Stretch StretchOf(const BlockRecord& block) {
  return {block.forward.value + block.operators(), block.backward.value};
}

// Adds bytes to the peaks in each of the stretches.
void AddToPeaks(const std::vector<std::pair<Stretch, int64_t>>& stretches,
                StepTrace* trace) {
  std::vector<int64_t> changes(trace->ops.size() + 1, 0);
  for (const auto& [stretch, bytes] : stretches) {
    changes[stretch.made] += bytes;
    changes[stretch.read + 1] -= bytes;
  }
  int64_t sum = 0;
  for (size_t t = 0; t < trace->ops.size(); ++t) {
    sum += changes[t];
    trace->ops[t].non_model_peak_bytes += sum;
  }
}

// Activations are counted as non-model bytes throughout.
void BringBack(StepTrace* trace) {
  std::vector<int64_t> made(trace->chunks.size(), -1);
  std::vector<std::pair<Stretch, int64_t>> stretches;
  for (size_t t = 0; t < trace->ops.size(); ++t) {
    for (const ChunkUse& use : trace->ops[t].chunks) {
      const int64_t c = use.chunk.value;
      const ChunkInfo& chunk = trace->chunks[c];
      if (!chunk.holds_activations()) continue;
      if (use.writes) {
        made[c] = static_cast<int64_t>(t);
      } else {
        stretches.push_back({{made[c], static_cast<int64_t>(t)},  //
                             chunk.payload_bytes});
      }
    }
  }
  AddToPeaks(stretches, trace);
  for (OpRecord& op : trace->ops) {
    std::erase_if(op.chunks, [&](const ChunkUse& use) {
      return trace->chunks[use.chunk.value].holds_activations();
    });
  }
  std::erase_if(trace->chunks, [](const ChunkInfo& chunk) {
    return chunk.holds_activations();
  });
  for (BlockRecord& block : trace->blocks) block.offloaded = false;
}

bool CanLeave(const StepTrace& trace, const BlockRecord& block) {
  const auto [made, read] = StretchOf(block);
  return trace.training && block.kept && block.offload_bytes > 0 &&
         made < read && read < static_cast<int64_t>(trace.ops.size()) &&
         trace.ops[made].kind == OpKind::kCompute &&
         trace.ops[read].kind == OpKind::kCompute;
}

// The blocks that can leave, with the chunk that each gets.
std::map<int64_t, ChunkInfo> ChunksOf(const StepTrace& trace,
                                      const std::vector<bool>& offloaded) {
  std::map<int64_t, ChunkInfo> chunks;
  std::set<int64_t> stay;
  for (const BlockRecord& block : trace.blocks) {
    if (block.block >= static_cast<int64_t>(offloaded.size()) ||
        !offloaded[block.block]) {
      continue;
    }
    const auto [at, first] = chunks.try_emplace(block.block);
    ChunkInfo& chunk = at->second;
    if (first) {
      chunk.payload_bytes = block.offload_bytes;
      chunk.block = block.block;
      chunk.pieces = block.offload_pieces;
      chunk.parameters = {absl::StrCat("activations of block ", block.block)};
    }
    if (!CanLeave(trace, block) || chunk.payload_bytes != block.offload_bytes ||
        chunk.pieces != block.offload_pieces) {
      stay.insert(block.block);
    }
  }
  for (const int64_t block : stay) chunks.erase(block);
  // No more pieces than the tags of their copies can number.
  while (!chunks.empty() &&
         static_cast<int64_t>(trace.chunks.size() + chunks.size()) - 1 >
             WorkTag::kMaxChunk) {
    chunks.erase(std::prev(chunks.end()));
  }
  return chunks;
}

}  // namespace

StepTrace WithOffloadedBlocks(const StepTrace& trace,
                              const std::vector<bool>& offloaded) {
  StepTrace result = trace;
  BringBack(&result);
  std::map<int64_t, ChunkId> id_of;
  for (auto& [block, chunk] : ChunksOf(result, offloaded)) {
    id_of[block] = ChunkId(static_cast<int64_t>(result.chunks.size()));
    result.chunks.push_back(std::move(chunk));
  }
  std::vector<std::pair<Stretch, int64_t>> stretches;
  for (BlockRecord& block : result.blocks) {
    const auto id = id_of.find(block.block);
    if (id == id_of.end()) continue;
    block.offloaded = true;
    const Stretch stretch = StretchOf(block);
    stretches.push_back({stretch, -block.offload_bytes});
    result.ops[stretch.made].chunks.push_back({id->second, /*writes=*/true});
    result.ops[stretch.read].chunks.push_back({id->second, /*writes=*/false});
  }
  AddToPeaks(stretches, &result);
  for (const auto& [stretch, bytes] : stretches) {
    for (const int64_t t : {stretch.made, stretch.read}) {
      std::sort(result.ops[t].chunks.begin(), result.ops[t].chunks.end(),
                [](const ChunkUse& a, const ChunkUse& b) {
                  return a.chunk < b.chunk;
                });
    }
  }
  result.signature = SignatureOf(result);
  return result;
}

std::vector<bool> OffloadedBlocksOf(const StepTrace& trace) {
  std::vector<bool> offloaded;
  for (const ChunkInfo& chunk : trace.chunks) {
    if (!chunk.holds_activations()) continue;
    if (chunk.block >= static_cast<int64_t>(offloaded.size())) {
      offloaded.resize(chunk.block + 1, false);
    }
    offloaded[chunk.block] = true;
  }
  return offloaded;
}

bool OffloadsActivations(const StepTrace& trace) {
  return std::any_of(
      trace.chunks.begin(), trace.chunks.end(),
      [](const ChunkInfo& chunk) { return chunk.holds_activations(); });
}

}  // namespace castor
