// Builds small traces by hand, for tests. Operators get invented names.
#ifndef CASTOR_MEMORY_PLAN_TESTING_TRACE_BUILDER_H_
#define CASTOR_MEMORY_PLAN_TESTING_TRACE_BUILDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory/plan/plan.h"
#include "tracer/step_trace.h"

namespace castor {

class TraceBuilder {
 public:
  TraceBuilder() { trace_.signature = "by hand"; }

  TraceBuilder& Evaluation() {
    trace_.training = false;
    return *this;
  }
  TraceBuilder& Chunk(int64_t payload_bytes, int64_t optimizer_bytes,
                      int64_t sum_bytes = 0) {
    trace_.chunks.push_back({payload_bytes, optimizer_bytes, {}});
    trace_.chunks.back().sum_bytes = sum_bytes;
    return *this;
  }
  // Adds a chunk of the activations that the model's block `block` keeps, in
  // `pieces` tensors. An operator that writes it makes it, for one that reads
  // it.
  TraceBuilder& Activations(int64_t bytes, int64_t block, int64_t pieces) {
    trace_.chunks.push_back({bytes, 0, {}});
    trace_.chunks.back().block = block;
    trace_.chunks.back().pieces = pieces;
    return *this;
  }
  // Read adds an operator that reads chunks, Write one that writes them; each
  // takes `ns`.
  TraceBuilder& Read(std::vector<int64_t> chunks, int64_t peak = 0,
                     int64_t ns = 0) {
    return Compute(Phase::kForward, std::move(chunks), false, peak, ns);
  }
  TraceBuilder& Write(std::vector<int64_t> chunks, int64_t peak = 0,
                      int64_t ns = 0) {
    return Compute(Phase::kBackward, std::move(chunks), true, peak, ns);
  }
  TraceBuilder& Reduce(int64_t chunk, int64_t host_ns = 0, int64_t ns = 0) {
    return Optimizer(OpKind::kReduce, Phase::kBackward, chunk, host_ns, ns);
  }
  TraceBuilder& Update(int64_t chunk, int64_t host_ns = 0, int64_t ns = 0) {
    return Optimizer(OpKind::kUpdate, Phase::kOptimizer, chunk, host_ns, ns);
  }
  TraceBuilder& MicroBatches(int64_t count) {
    trace_.micro_batches = count;
    return *this;
  }
  // Adds a tensor. `block` is the model's block that keeps it only for its own
  // backward.
  TraceBuilder& Tensor(int64_t bytes, int64_t birth, int64_t last,
                       int64_t block = -1) {
    trace_.tensors.push_back({bytes, Moment(birth), Moment(last), block});
    return *this;
  }
  // Sets the workspace of the last operator.
  TraceBuilder& Workspace(int64_t bytes) {
    trace_.ops.back().workspace_bytes = bytes;
    return *this;
  }
  StepTrace Build() { return trace_; }

 private:
  TraceBuilder& Compute(Phase phase, std::vector<int64_t> chunks, bool writes,
                        int64_t peak, int64_t ns) {
    OpRecord op;
    op.name = "op" + std::to_string(trace_.ops.size());
    op.phase = phase;
    for (const int64_t c : chunks) op.chunks.push_back({ChunkId(c), writes});
    op.non_model_peak_bytes = peak;
    op.duration_ns = ns;
    trace_.ops.push_back(op);
    return *this;
  }
  TraceBuilder& Optimizer(OpKind kind, Phase phase, int64_t chunk,
                          int64_t host_ns, int64_t ns) {
    OpRecord op;
    op.name =
        (kind == OpKind::kReduce ? "reduce" : "update") + std::to_string(chunk);
    op.kind = kind;
    op.phase = phase;
    op.chunks.push_back({ChunkId(chunk), false});
    op.duration_ns = ns;
    op.host_duration_ns = host_ns;
    trace_.ops.push_back(op);
    return *this;
  }

  StepTrace trace_;
};

// One byte per nanosecond in both directions.
inline BusModel ByteBus() { return {1e9, 1e9, 0}; }

// Returns a request for `trace` over this bus, without limits on memory.
inline PlanRequest RequestFor(const StepTrace& trace) {
  PlanRequest request;
  request.trace = &trace;
  request.bus = ByteBus();
  return request;
}

inline Action Fetch(int64_t chunk, int64_t because) {
  return {ActionKind::kFetch, ChunkId(chunk), Moment(because)};
}
inline Action CopyBack(int64_t chunk, int64_t because) {
  return {ActionKind::kCopyBack, ChunkId(chunk), Moment(because)};
}
inline Action Drop(int64_t chunk, int64_t because) {
  return {ActionKind::kDrop, ChunkId(chunk), Moment(because)};
}
inline Action MakeGradients(int64_t chunk, int64_t because) {
  return {ActionKind::kMakeGradients, ChunkId(chunk), Moment(because)};
}
inline Action SendGradients(int64_t chunk, int64_t because) {
  return {ActionKind::kSendGradients, ChunkId(chunk), Moment(because)};
}
inline Action DropGradients(int64_t chunk) {
  return {ActionKind::kDropGradients, ChunkId(chunk), Moment()};
}
inline Action MakeSum(int64_t chunk, int64_t because) {
  return {ActionKind::kMakeSum, ChunkId(chunk), Moment(because)};
}
inline Action SendSum(int64_t chunk, int64_t because) {
  return {ActionKind::kSendSum, ChunkId(chunk), Moment(because)};
}
inline Action DropSum(int64_t chunk) {
  return {ActionKind::kDropSum, ChunkId(chunk), Moment()};
}
inline Action Speculate(int64_t chunk) {
  return {ActionKind::kSpeculate, ChunkId(chunk), Moment()};
}

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_TESTING_TRACE_BUILDER_H_
