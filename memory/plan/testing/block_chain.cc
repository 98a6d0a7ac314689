#include "memory/plan/testing/block_chain.h"

#include <string>

#include "memory/plan/blocks/kept_blocks.h"

namespace castor {
namespace {

void Append(StepTrace& trace, const std::string& name, Phase phase,
            int64_t chunk, bool writes, int64_t peak_bytes, int64_t ns) {
  OpRecord op;
  op.name = name;
  op.phase = phase;
  op.chunks = {{ChunkId(chunk), writes}};
  op.non_model_peak_bytes = peak_bytes;
  op.duration_ns = ns;
  trace.ops.push_back(op);
}

void AppendOfChunk(StepTrace& trace, OpKind kind, int64_t chunk, int64_t ns) {
  OpRecord op;
  op.name =
      (kind == OpKind::kReduce ? "reduce/" : "update/") + std::to_string(chunk);
  op.kind = kind;
  op.phase = kind == OpKind::kReduce ? Phase::kBackward : Phase::kOptimizer;
  op.chunks = {{ChunkId(chunk), true}};
  op.duration_ns = op.host_duration_ns = ns;
  trace.ops.push_back(op);
}

}  // namespace

StepTrace ChainOf(const std::vector<BlockSizes>& sizes) {
  StepTrace trace;
  const int64_t n = static_cast<int64_t>(sizes.size());
  for (const BlockSizes& block : sizes) {
    trace.chunks.push_back({block.payload_bytes, 3 * block.payload_bytes, {}});
  }
  const auto forward = [&](int64_t k, Phase phase, int64_t live) {
    const auto& [payload, made, ns] = sizes[k];
    const std::string name = "block." + std::to_string(k) + ".";
    Append(trace, name + "a", phase, k, false, live + made[0], ns);
    Append(trace, name + "b", phase, k, false, live + made[0] + made[1], ns);
    const int64_t kept = phase == Phase::kBackward ? made[0] : 0;
    Append(trace, name + "c", phase, k, false,
           live + kept + made[1] + kChainUnit, ns);
  };
  for (int64_t k = 0; k < n; ++k) {
    trace.blocks.push_back(
        {.block = k,
         .forward = Moment(static_cast<int64_t>(trace.ops.size())),
         .kept_bytes = sizes[k].made_bytes[0] + sizes[k].made_bytes[1],
         .kept_peak_bytes = {0, 0, sizes[k].made_bytes[0]},
         .remake_bytes = kChainUnit,
         .offload_pieces = 2,
         .offload_bytes = sizes[k].made_bytes[0] + sizes[k].made_bytes[1]});
    forward(k, Phase::kForward, (k + 1) * kChainUnit);
  }
  for (int64_t k = n - 1; k >= 0; --k) {
    trace.blocks[k].backward = Moment(static_cast<int64_t>(trace.ops.size()));
    const int64_t live = (k + 2) * kChainUnit;
    forward(k, Phase::kBackward, live);
    Append(trace, "block." + std::to_string(k) + "'", Phase::kBackward, k, true,
           live + trace.blocks[k].kept_bytes + kChainUnit,
           2 * sizes[k].operator_ns);
    AppendOfChunk(trace, OpKind::kReduce, k, 100);
  }
  for (int64_t k = 0; k < n; ++k) {
    AppendOfChunk(trace, OpKind::kUpdate, k, 100);
  }
  return WithKeptBlocks(trace, KeptBlocks());  // for the signature
}

}  // namespace castor
