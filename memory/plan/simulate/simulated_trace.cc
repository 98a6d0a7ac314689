#include "memory/plan/simulate/simulated_trace.h"

#include <cstddef>

#include "memory/plan/residency/use_index.h"

namespace castor {

SimulatedTrace::SimulatedTrace(const StepTrace& trace)
    : global_norm_(trace.global_norm) {
  chunks_.reserve(trace.chunks.size());
  for (const ChunkInfo& chunk : trace.chunks) {
    chunks_.push_back({.payload_bytes = chunk.payload_bytes,
                       .home_bytes = chunk.home_bytes(),
                       .payload_block = PayloadBlock(chunk),
                       .sum_bytes = chunk.sum_bytes,
                       .sum_block = SumBlock(chunk),
                       .pieces = chunk.pieces,
                       .holds_activations = chunk.holds_activations()});
  }
  size_t num_uses = 0;
  for (const OpRecord& op : trace.ops) num_uses += op.chunks.size();
  uses_.reserve(num_uses);
  ops_.reserve(trace.ops.size());
  for (const OpRecord& op : trace.ops) {
    const int64_t t = moments();
    if (op.phase == Phase::kForward) last_forward_ = t;
    if (op.kind == OpKind::kReduce) {
      chunks_[op.chunks[0].chunk.value].last_reduce = t;
    }
    if (op.kind == OpKind::kUpdate) {
      chunks_[op.chunks[0].chunk.value].update = t;
    }
    ops_.push_back({.kind = op.kind,
                    .on_network = RunsOnNetwork(trace, op),
                    .first_use = static_cast<int64_t>(uses_.size()),
                    .num_uses = static_cast<int64_t>(op.chunks.size()),
                    .non_model_peak_bytes = op.non_model_peak_bytes,
                    .duration_ns = op.duration_ns,
                    .host_duration_ns = op.host_duration_ns,
                    .reduced_bytes = op.reduced_bytes});
    uses_.insert(uses_.end(), op.chunks.begin(), op.chunks.end());
  }
}

}  // namespace castor
