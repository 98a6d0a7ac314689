#include "memory/plan/step_blocks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "memory/plan/offloaded_blocks.h"

namespace castor {
namespace {

class Recorder {
 public:
  explicit Recorder(const StepTrace& trace)
      : trace_(trace), chunks_(trace.chunks.size()) {}

  StepBlocks Record(const Plan& plan) {
    for (const ResidentChunk& chunk : plan.initial) {
      chunks_[chunk.chunk.value].payload =
          New({.bytes = PayloadBytes(chunk.chunk.value)});
    }
    step_.num_initial = static_cast<int64_t>(step_.blocks.size());
    const int64_t moments = static_cast<int64_t>(trace_.ops.size());
    std::vector<std::vector<int64_t>> freed_after(moments);
    size_t tensor = 0;
    for (int64_t t = 0; t <= moments; ++t) {
      for (const Action& action : plan.actions[t]) Do(action, t);
      if (t == moments) break;
      for (; tensor < trace_.tensors.size() &&
             trace_.tensors[tensor].birth.value == t;
           ++tensor) {
        freed_after[trace_.tensors[tensor].last.value].push_back(
            MakeNonModel(trace_.tensors[tensor].bytes, t));
      }
      if (trace_.ops[t].workspace_bytes > 0) {
        Free(MakeNonModel(trace_.ops[t].workspace_bytes, t));
      }
      for (const int64_t block : freed_after[t]) Free(block);
    }
    for (int64_t i = 0; i < step_.num_initial; ++i) {
      step_.blocks[i].at_end = chunks_[plan.initial[i].chunk.value].payload;
      CASTOR_CHECK(step_.blocks[i].at_end >= 0);
    }
    return std::move(step_);
  }

 private:
  struct Chunk {
    int64_t payload = -1, gradients = -1, sum = -1;  // blocks, while they live
  };

  int64_t PayloadBytes(int64_t c) const {
    return trace_.chunks[c].payload_bytes;
  }
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

  void Do(const Action& action, int64_t t) {
    const int64_t c = action.chunk.value;
    Chunk& chunk = chunks_[c];
    switch (action.kind) {
      case ActionKind::kFetch:
        chunk.payload = MakeOfAction(PayloadBytes(c), t);
        break;
      case ActionKind::kDrop:
        FreeOfChunk(chunk.payload);
        break;
      case ActionKind::kMakeGradients:
        chunk.gradients = MakeOfAction(PayloadBytes(c), t);
        break;
      case ActionKind::kDropGradients:
        FreeOfChunk(chunk.gradients);
        break;
      case ActionKind::kMakeSum:
        chunk.sum = MakeOfAction(trace_.chunks[c].sum_bytes, t);
        break;
      case ActionKind::kDropSum:
        FreeOfChunk(chunk.sum);
        break;
      case ActionKind::kCopyBack:
      case ActionKind::kSendGradients:
      case ActionKind::kSendSum:
      case ActionKind::kSpeculate:
        break;
    }
    ++action_;
  }

  const StepTrace& trace_;
  std::vector<Chunk> chunks_;
  int64_t action_ = 0;
  StepBlocks step_;
};

}  // namespace

bool SaysWhenTensorsLive(const StepTrace& trace) {
  // Which tensors a chunk of activations consists of no trace says.
  if (OffloadsActivations(trace)) return false;
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
