#include "tracer/step_signature.h"

#include <cstdint>

#include "absl/strings/str_format.h"
#include "base/philox.h"

namespace castor {
namespace {

uint64_t Mix(uint64_t hash, const std::string& text) {
  return MixKey(hash, HashName(text.data(), text.size()));
}

}  // namespace

std::string SignatureOf(const StepTrace& trace) {
  uint64_t hash = trace.training ? 1 : 0;
  for (const OpRecord& op : trace.ops) {
    hash = Mix(hash, op.name);
    hash = MixKey(hash, static_cast<uint64_t>(op.non_model_peak_bytes));
    for (const ChunkUse& use : op.chunks) {
      hash = MixKey(hash, static_cast<uint64_t>(use.chunk.value * 2 +
                                                (use.writes ? 1 : 0)));
    }
  }
  for (const ChunkInfo& chunk : trace.chunks) {
    hash = MixKey(hash, static_cast<uint64_t>(chunk.payload_bytes));
    hash = MixKey(hash, static_cast<uint64_t>(chunk.optimizer_bytes));
    if (chunk.shard_bytes > 0) {
      hash = MixKey(hash, static_cast<uint64_t>(chunk.shard_bytes));
    }
    if (chunk.holds_activations()) {
      hash = MixKey(hash, static_cast<uint64_t>(chunk.block));
      hash = MixKey(hash, static_cast<uint64_t>(chunk.pieces));
    }
  }
  for (const OpRecord& op : trace.ops) {
    if (op.reduced_bytes > 0) {
      hash = MixKey(hash, static_cast<uint64_t>(op.reduced_bytes));
    }
  }
  return absl::StrFormat("%s-%d-%016x", trace.training ? "train" : "eval",
                         trace.micro_batches, hash);
}

}  // namespace castor
