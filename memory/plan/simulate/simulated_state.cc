#include "memory/plan/simulate/simulated_state.h"

#include <algorithm>

#include "memory/plan/simulate/step_blocks.h"

namespace castor {
namespace {

using Content = SimulatedChunk::Content;

}  // namespace

SimulatedState::SimulatedState(const Plan& plan, const PlanRequest& request,
                               const SimulatedTrace& trace,
                               const Overheads& overheads)
    : plan(plan),
      trace(trace),
      other_ranks(request.world_size - 1),
      sharded(request.world_size > 1),
      queues(request.bus, overheads),
      device(request.device_budget_bytes, StayingBytes(plan, request)),
      chunks(trace.num_chunks()) {
  int64_t none = 0;
  for (const ResidentChunk& chunk : plan.initial) {
    const int64_t c = chunk.chunk.value;
    chunks[c].block = device.TakeBlock(trace.chunk(c).payload_block, 0, &none);
  }
  for (int64_t c = 0; c < trace.num_chunks(); ++c) {
    chunks[c].holds_activations = trace.chunk(c).holds_activations;
    if (chunks[c].holds_activations) chunks[c].content = Content::kSpent;
  }
  // Between two operators the bytes live that both count.
  const int64_t moments = trace.moments();
  if (moments > 0) {
    device.SetNonModel(std::min(trace.op(moments - 1).non_model_peak_bytes,
                                trace.op(0).non_model_peak_bytes),
                       0, 0);
  }
}

int64_t SimulatedState::BytesOnBus(int64_t chunk) const {
  switch (chunks[chunk].content) {
    case Content::kLocal:
      return trace.chunk(chunk).payload_bytes;
    case Content::kSpent:
      return 0;
    case Content::kParameters:
      break;
  }
  return trace.chunk(chunk).home_bytes;
}

int64_t SimulatedState::Exchange(int64_t chunk, int64_t ready_ns) {
  const SimulatedTrace::Chunk& info = trace.chunk(chunk);
  return queues.Receive(ready_ns, info.payload_bytes - info.home_bytes);
}

}  // namespace castor
