#include "run/program/make_step_trace.h"

#include <utility>

#include "kernels/exact_sum/exact_sum.h"
#include "tracer/step_signature.h"

namespace castor {

StepTrace MakeStepTrace(std::vector<OpRecord> ops, const ChunkLayout* layout,
                        bool accumulate, bool training, int64_t micro_batches,
                        const Roofline& roofline) {
  StepTrace trace;
  trace.training = training;
  trace.micro_batches = micro_batches;
  trace.ops = std::move(ops);
  if (layout != nullptr) {
    for (int64_t i = 0; i < layout->num_chunks(); ++i) {
      const ChunkSpec& chunk = layout->chunk(ChunkId(i));
      ChunkInfo info;
      info.payload_bytes = layout->payload_bytes(ChunkId(i));
      info.optimizer_bytes = layout->state_bytes(ChunkId(i), accumulate);
      if (accumulate && info.optimizer_bytes > 0) {
        info.sum_bytes =
            layout->shard_elements(ChunkId(i)) * StateLayout::kSumBytes;
      }
      if (layout->world_size > 1) {
        info.shard_bytes = layout->shard_bytes(ChunkId(i));
      }
      for (ParamId id : chunk.parameters) {
        info.parameters.push_back(layout->parameter(id).name);
      }
      trace.chunks.push_back(std::move(info));
    }
  }
  for (OpRecord& op : trace.ops) {
    if (op.kind == OpKind::kCompute) continue;
    // reduce reads the gradient; update reads and writes everything, once in
    // each of its phases.
    const ChunkInfo& chunk = trace.chunks[op.chunks[0].chunk.value];
    const int phases = layout->states.margins    ? 3
                       : layout->states.sums > 0 ? 2
                                                 : 1;
    const double bytes = op.kind == OpKind::kReduce
                             ? static_cast<double>(chunk.payload_bytes)
                             : 2.0 * phases *
                                   static_cast<double>(chunk.home_bytes() +
                                                       chunk.optimizer_bytes);
    if (op.kind == OpKind::kUpdate && phases > 1 && layout->world_size > 1) {
      op.reduced_bytes =
          (static_cast<int64_t>(chunk.parameters.size()) * layout->states.sums +
           layout->num_margins(op.chunks[0].chunk)) *
          static_cast<int64_t>(sizeof(kernels::ExactSum));
    }
    const CostKind kind =
        op.kind == OpKind::kUpdate ? CostKind::kUpdate : CostKind::kElements;
    op.duration_ns = roofline.Duration(kind, 0, bytes);
    op.host_duration_ns = roofline.HostUpdateDuration(bytes);
  }
  trace.signature = SignatureOf(trace);
  return trace;
}

}  // namespace castor
