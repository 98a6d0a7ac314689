// The trace of one training step: what the planner knows of a model.
//
// A step is a sequence of operators, all micro batches and the optimizer
// included. The index of an operator is its *moment*. For each moment the trace
// has the operator's name, the chunks whose parameters it touches, the peak of
// non-model bytes (activations, temporaries, workspace) while it runs, and its
// duration. It is recorded first by a dry pass (shapes only, durations
// estimated), then completed with measured durations by the warm-up steps.
//
//   moment      0        1            ...   b        b+1    ...   u      u+1
//   phase       forward  forward            backward backward     optimizer
//   operator    embed    ln_1/forward       head/..  reduce(c)    update(c)
//
// Two kinds of operator stand for the optimizer's side of a chunk:
//   reduce(c)  right after the operator that finished the last gradient of
//              chunk c in a micro batch: the gradient goes to where the chunk's
//              optimizer states live and is added to its sum there;
//   update(c)  at the end of the step: the optimizer's update of chunk c.
// Where they run is the plan's decision (memory/plan/plan.h), so the trace
// does not depend on it.
#ifndef CASTOR_TRACER_STEP_TRACE_H_
#define CASTOR_TRACER_STEP_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace castor {

enum class OpKind : uint8_t {
  kCompute,  // an operator of the model, on the device
  kReduce,   // chunk's gradients of this micro batch are finished
  kUpdate,   // optimizer update of one chunk
};

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };

// How an operator touches a chunk's payload (parameters, later gradients).
struct ChunkUse {
  ChunkId chunk;
  // True when the operator changes the payload (a gradient takes over its
  // parameter's place): the device copy is dirty afterwards.
  bool writes = false;

  friend bool operator==(const ChunkUse&, const ChunkUse&) = default;
};

struct OpRecord {
  std::string name;  // "transformer.h.0.attn.c_attn/forward"
  OpKind kind = OpKind::kCompute;
  Phase phase = Phase::kForward;
  // kCompute: the chunks that must be on the device, each once, ordered by id.
  // kReduce, kUpdate: exactly the one chunk concerned.
  std::vector<ChunkUse> chunks;
  // Peak of non-model device bytes from the moment at which the operator's
  // outputs are allocated until it has run: everything live plus outputs and
  // workspace.
  int64_t non_model_peak_bytes = 0;
  // The operator's own workspace, a part of the peak.
  int64_t workspace_bytes = 0;
  // Its duration on the device. A reduce or update that runs on the host's side
  // takes host_duration_ns instead.
  int64_t duration_ns = 0;
  // The duration of a kReduce or kUpdate on the host; 0 for a kCompute.
  int64_t host_duration_ns = 0;
  // Bytes of a kUpdate's sums over whole parameters, which several ranks add up
  // in the middle of it; else 0.
  int64_t reduced_bytes = 0;
  // Floating-point operations, counted from the shapes, a multiplication and an
  // addition as two. 0: none that count, or the trace does not say.
  int64_t flops = 0;
  // Shapes of operands and outputs, for the viewer: "[4, 64, 8] -> [4, 64,
  // 32]".
  std::string shapes = {};

  friend bool operator==(const OpRecord&, const OpRecord&) = default;
};

// A chunk, as far as the planner needs to know it.
struct ChunkInfo {
  // Payload: parameters in the compute type, whose place their gradients take
  // over. The unit of every copy.
  int64_t payload_bytes = 0;
  // Optimizer states (memory/plan/layout/state_layout.h), and with several
  // micro batches in a step, of one rank or of several, the fp32 sum: of AdamW
  // 12 or 16 bytes per element of this rank's shard. 0 for a chunk of frozen
  // parameters, which has neither kReduce nor kUpdate.
  int64_t optimizer_bytes = 0;
  // Names of its parameters, for messages and the viewer.
  std::vector<std::string> parameters;
  // Bytes of this rank's shard of the payload, which the host keeps. 0: the
  // whole payload, on one rank.
  int64_t shard_bytes = 0;
  // The part of optimizer_bytes that is the fp32 sum of gradients. 0: there is
  // none, or the trace is of a version that does not say.
  int64_t sum_bytes = 0;
  // If not -1, a chunk of activations, not of parameters: the activations that
  // the block of this number keeps from its forward for its backward, which may
  // go to the host in between (memory/plan/blocks/offloaded_blocks.h). Each
  // micro batch makes them anew; the chunk is empty before and afterwards.
  int64_t block = -1;
  // The number of copies that move it over the bus, one for each tensor; 1
  // except for activations.
  int64_t pieces = 1;

  int64_t home_bytes() const {
    return shard_bytes > 0 ? shard_bytes : payload_bytes;
  }
  bool holds_activations() const { return block >= 0; }

  friend bool operator==(const ChunkInfo&, const ChunkInfo&) = default;
};

// A block: a part of the model, in one micro batch, whose operators can run
// again in backward, so that their activations need not be kept until then
// (Checkpoint in runtime/autograd/tape.h). Its operators in forward, and those
// that run again in backward, follow one another without a gap:
//
//   moment    forward ..      backward ..
//   kept      f f f f   ...   b b b
//   remade    f f f f   ...   f f f f b b b
//
// Bytes are differences: the kept case minus the other one, so that the trace
// of either follows from that of the other (memory/plan/blocks/kept_blocks.h).
struct BlockRecord {
  int64_t block = 0;    // its number in the micro batch, in order of running
  bool kept = false;    // in this trace
  Moment forward = {};  // its first operator
  // Where backward comes to it: the first of its operators that run again or,
  // if it is kept, the first operator of its gradients.
  Moment backward = {};
  // Bytes that stay from the end of its forward until backward comes to it.
  // Below 0 if they are less than the input from which it is made again.
  int64_t kept_bytes = 0;
  // The difference of the peak of each of its operators in forward.
  std::vector<int64_t> kept_peak_bytes = {};
  // The peak of each of its operators when it runs again, minus that of the
  // same operator in a forward that keeps all.
  int64_t remake_bytes = 0;
  // The number of tensors that it keeps only for its own backward, and their
  // bytes: these may be on the host until backward comes to it. 0: none, or the
  // trace does not say.
  int64_t offload_pieces = 0;
  int64_t offload_bytes = 0;
  // True if these are a chunk in this trace; only for a kept block.
  bool offloaded = false;

  int64_t operators() const {
    return static_cast<int64_t>(kept_peak_bytes.size());
  }

  friend bool operator==(const BlockRecord&, const BlockRecord&) = default;
};

// A block of non-model bytes that operators make and use: an activation, a
// temporary. Workspaces, each of which belongs to one operator, are not among
// them.
struct TensorRecord {
  int64_t bytes = 0;  // as the arena counts them
  Moment birth = {};  // the operator that makes it
  Moment last = {};   // it is freed after this one, before the next one's turn
  // The number of the kept block that keeps the tensor only for its own
  // backward, as one of the block's offload_pieces, in the order of the list;
  // -1: there is none. If the block is offloaded, the tensor counts as a part
  // of the chunk of its activations while that exists.
  int64_t block = -1;

  friend bool operator==(const TensorRecord&, const TensorRecord&) = default;
};

struct StepTrace {
  // Identifies the sequence of operators and sizes: equal signatures mean
  // traces that are equal except for durations.
  std::string signature;
  // False for evaluation (forward only, no kReduce or kUpdate).
  bool training = true;
  int64_t micro_batches = 1;
  std::vector<ChunkInfo> chunks;  // indexed by ChunkId
  std::vector<OpRecord> ops;      // indexed by Moment
  // By first operator. Empty: the model has none, or the trace does not say.
  std::vector<BlockRecord> blocks = {};
  // In the order in which they are allocated, those of one operator before its
  // workspace. Empty: the trace does not say.
  std::vector<TensorRecord> tensors = {};
  // True if durations were measured (warm-up), false if estimated (dry pass).
  bool measured = false;
  // True if gradients are clipped by their global norm: no update starts before
  // every reduce of the step is over.
  bool global_norm = false;

  // Returns the sum of the durations of the model's operators: no step is
  // shorter.
  int64_t compute_ns() const {
    int64_t ns = 0;
    for (const OpRecord& op : ops) {
      if (op.kind == OpKind::kCompute) ns += op.duration_ns;
    }
    return ns;
  }

  // Compares durations, too; plans need only equal signatures.
  friend bool operator==(const StepTrace&, const StepTrace&) = default;
};

}  // namespace castor

#endif  // CASTOR_TRACER_STEP_TRACE_H_
