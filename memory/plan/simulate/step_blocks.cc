#include "memory/plan/simulate/step_blocks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace castor {
namespace {

class Recorder {
 public:
  explicit Recorder(const StepTrace& trace)
      : trace_(trace),
        chunks_(trace.chunks.size()),
        tensor_at_(trace.tensors.size(), -1) {
    for (size_t c = 0; c < chunks_.size(); ++c) {
      if (trace.chunks[c].holds_activations()) {
        chunk_of_[trace.chunks[c].block] = &chunks_[c];
      }
    }
  }

  StepBlocks Record(const Plan& plan) {
    for (const ResidentChunk& chunk : plan.initial) {
      Payload(chunk.chunk.value) =
          New({.bytes = trace_.chunks[chunk.chunk.value].payload_bytes});
    }
    step_.num_initial = static_cast<int64_t>(step_.blocks.size());
    const int64_t moments = static_cast<int64_t>(trace_.ops.size());
    const int64_t tensors = static_cast<int64_t>(trace_.tensors.size());
    std::vector<std::vector<int64_t>> last_at(moments);  // tensors
    int64_t tensor = 0;
    for (int64_t t = 0; t <= moments; ++t) {
      for (const Action& action : plan.actions[t]) Do(action, t);
      if (t == moments) break;
      for (; tensor < tensors && trace_.tensors[tensor].birth.value == t;
           ++tensor) {
        MakeTensor(tensor, t);
        last_at[trace_.tensors[tensor].last.value].push_back(tensor);
      }
      if (trace_.ops[t].workspace_bytes > 0) {
        Free(MakeNonModel(trace_.ops[t].workspace_bytes, t));
      }
      for (const ChunkUse& use : trace_.ops[t].chunks) {
        if (!use.writes) chunks_[use.chunk.value].used = true;
      }
      for (const int64_t last : last_at[t]) FreeTensor(last);
    }
    for (int64_t i = 0; i < step_.num_initial; ++i) {
      step_.blocks[i].at_end = Payload(plan.initial[i].chunk.value);
      CASTOR_CHECK(step_.blocks[i].at_end >= 0);
    }
    return std::move(step_);
  }

 private:
  struct Chunk {
    // By ChunkBlock: the block while it lives, else -1.
    std::array<int64_t, kNumChunkBlocks> blocks = {-1, -1, -1, -1};
    // The state of a chunk that holds activations: its live tensors, if they
    // are the chunk by now, and if backward has come to it.
    std::vector<int64_t> pieces;
    bool made = false, used = false;
  };

  int64_t& BlockOf(int64_t c, ChunkBlock block) {
    return chunks_[c].blocks[static_cast<size_t>(block)];
  }
  int64_t& Payload(int64_t c) { return BlockOf(c, ChunkBlock::kPayload); }
  int64_t New(StepBlock block) {
    block.bytes =
        std::max(RoundUp(block.bytes, kBlockAlignment), kBlockAlignment);
    step_.blocks.push_back(block);
    return static_cast<int64_t>(step_.blocks.size()) - 1;
  }
  int64_t Make(const StepBlock& block) {
    step_.events.push_back({New(block), true});
    return step_.events.back().block;
  }
  int64_t MakeNonModel(int64_t bytes, int64_t t) {
    return Make(
        {.kind = BlockKind::kNonModel, .bytes = bytes, .moment = Moment(t)});
  }
  int64_t MakeOfAction(int64_t bytes, int64_t t) {
    return Make({.kind = BlockKind::kOfAction,
                 .bytes = bytes,
                 .moment = Moment(t),
                 .made_by = action_});
  }
  void Free(int64_t block) { step_.events.push_back({block, false}); }
  void FreeOfChunk(int64_t& block) {
    step_.blocks[block].freed_by = action_;
    Free(std::exchange(block, -1));
  }

  void MakeTensor(int64_t tensor, int64_t t) {
    tensor_at_[tensor] = MakeNonModel(trace_.tensors[tensor].bytes, t);
    if (Chunk* const chunk = ChunkOf(tensor)) chunk->pieces.push_back(tensor);
  }
  void FreeTensor(int64_t tensor) {
    if (tensor_at_[tensor] >= 0) Free(tensor_at_[tensor]);
    if (Chunk* const chunk = ChunkOf(tensor)) {
      std::erase(chunk->pieces, tensor);
    }
  }
  // Null: it never goes to the host.
  Chunk* ChunkOf(int64_t tensor) const {
    const auto found = chunk_of_.find(trace_.tensors[tensor].block);
    return found == chunk_of_.end() ? nullptr : found->second;
  }

  void FetchActivations(Chunk& chunk, int64_t t) {
    if (!std::exchange(chunk.made, true)) {  // where they are
      chunk.used = false;
      return;
    }
    for (const int64_t tensor : chunk.pieces) {
      tensor_at_[tensor] = Make({.kind = BlockKind::kPiece,
                                 .bytes = trace_.tensors[tensor].bytes,
                                 .moment = Moment(t),
                                 .made_by = action_});
    }
  }
  void DropActivations(Chunk& chunk) {
    if (chunk.used) {  // they are operators' again
      chunk.pieces.clear();
      chunk.made = false;
      return;
    }
    for (const int64_t tensor : chunk.pieces) FreeOfChunk(tensor_at_[tensor]);
  }

  void Do(const Action& action, int64_t t) {
    const ActionRow& row = RowOf(action.kind);
    const int64_t c = action.chunk.value;
    const ChunkInfo& info = trace_.chunks[c];
    if (info.holds_activations()) {
      if (row.makes) FetchActivations(chunks_[c], t);
      if (row.frees) DropActivations(chunks_[c]);
    } else {
      int64_t& block = BlockOf(c, row.block);
      if (row.makes) block = MakeOfAction(BlockBytes(row.block, info), t);
      if (row.frees) FreeOfChunk(block);
    }
    ++action_;
  }

  const StepTrace& trace_;
  std::vector<Chunk> chunks_;
  std::map<int64_t, Chunk*> chunk_of_;  // of activations, by the model's block
  std::vector<int64_t> tensor_at_;      // its block; -1: away, or not made yet
  int64_t action_ = 0;
  StepBlocks step_;
};

// Returns true if the trace has the tensors of each chunk of activations, every
// time that it is made.
bool SaysWhatActivationsAre(const StepTrace& trace) {
  struct Sum {
    int64_t times = 0, tensors = 0, bytes = 0;
  };
  std::map<int64_t, Sum> sums;  // by the model's block
  for (const OpRecord& op : trace.ops) {
    for (const ChunkUse& use : op.chunks) {
      const ChunkInfo& chunk = trace.chunks[use.chunk.value];
      if (chunk.holds_activations() && use.writes) ++sums[chunk.block].times;
    }
  }
  for (const TensorRecord& tensor : trace.tensors) {
    const auto sum = sums.find(tensor.block);
    if (sum == sums.end()) continue;
    ++sum->second.tensors;
    sum->second.bytes += tensor.bytes;
  }
  return std::all_of(trace.chunks.begin(), trace.chunks.end(),
                     [&](const ChunkInfo& chunk) {
                       if (!chunk.holds_activations()) return true;
                       const Sum& sum = sums[chunk.block];
                       return sum.tensors == sum.times * chunk.pieces &&
                              sum.bytes == sum.times * chunk.payload_bytes;
                     });
}

}  // namespace

bool SaysWhenTensorsLive(const StepTrace& trace) {
  if (!SaysWhatActivationsAre(trace)) return false;
  return !trace.tensors.empty() ||
         std::none_of(
             trace.ops.begin(), trace.ops.end(),
             [](const OpRecord& op) { return op.non_model_peak_bytes > 0; });
}

int64_t StayingBytes(const Plan& plan, const PlanRequest& request) {
  int64_t bytes = request.device_reserved_bytes;
  for (size_t c = 0; c < request.trace->chunks.size(); ++c) {
    if (plan.side[c] == Side::kDevice) {
      bytes +=
          RoundUp(request.trace->chunks[c].optimizer_bytes, kBlockAlignment);
    }
  }
  return bytes;
}

StepBlocks BlocksOfStep(const Plan& plan, const StepTrace& trace) {
  return Recorder(trace).Record(plan);
}

}  // namespace castor
