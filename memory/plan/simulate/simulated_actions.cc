#include "memory/plan/simulate/simulated_actions.h"

#include <algorithm>

#include "memory/plan/simulate/simulated_host.h"

namespace castor {
namespace {

using Content = SimulatedChunk::Content;

// Returns the time when all use of a payload's block is over.
int64_t PayloadOverNs(const SimulatedChunk& chunk) {
  return std::max({chunk.used_ns, chunk.copied_ns, chunk.arrived_ns});
}

// Takes over blocks that operators have written: the bytes taken here were
// given back when the operators' bytes fell.
void MakeActivations(SimulatedState& state, int64_t c) {
  SimulatedChunk& chunk = state.chunks[c];
  const int64_t written_ns =
      std::max(state.queues.compute_ns(), state.queues.issue_ns());
  int64_t ready_ns = 0;
  chunk.block = state.device.TakeBlock(state.trace.chunk(c).payload_block,
                                       written_ns, &ready_ns);
  chunk.content = Content::kLocal;
  chunk.arrived_ns = chunk.used_ns = chunk.written_ns = written_ns;
  chunk.copied_ns = 0;
}

void Fetch(SimulatedState& state, int64_t c) {
  SimulatedChunk& chunk = state.chunks[c];
  const SimulatedTrace::Chunk& info = state.trace.chunk(c);
  if (chunk.holds_activations && chunk.content == Content::kSpent) {
    MakeActivations(state, c);
    return;
  }
  const int64_t issue_ns = state.queues.issue_ns();
  chunk.arrived_ns = std::max(chunk.home_ns, issue_ns);
  chunk.block =
      state.device.TakeBlock(info.payload_block, issue_ns, &chunk.arrived_ns);
  if (chunk.content == Content::kSpent) return;
  chunk.arrived_ns =
      state.queues.Fetch(chunk.arrived_ns, state.BytesOnBus(c), info.pieces);
  if (state.sharded && chunk.content == Content::kParameters) {
    chunk.arrived_ns = state.Exchange(c, chunk.arrived_ns);
  }
}

void CopyBack(SimulatedState& state, int64_t c) {
  SimulatedChunk& chunk = state.chunks[c];
  int64_t bytes = state.BytesOnBus(c);
  if (chunk.content == Content::kParameters) {
    if (state.sharded && chunk.home_current) bytes = 0;
    chunk.home_current = true;
  }
  if (state.sharded && bytes == 0) return;
  chunk.copied_ns = chunk.home_ns = state.queues.CopyBack(
      std::max({chunk.written_ns, chunk.arrived_ns, state.queues.issue_ns()}),
      bytes, state.trace.chunk(c).pieces);
}

void ActBeside(SimulatedState& state, const ActionRow& row, int64_t c) {
  SimulatedChunk& chunk = state.chunks[c];
  const SimulatedTrace::Chunk& info = state.trace.chunk(c);
  const bool is_sum = row.block == ChunkBlock::kSum;
  SimulatedChunk::Beside& beside = is_sum ? chunk.sum : chunk.gradients;
  const int64_t issue_ns = state.queues.issue_ns();
  if (row.makes) {
    beside.exists = true;
    beside.ns = issue_ns;
    beside.block = state.device.TakeBlock(
        is_sum ? info.sum_block : info.payload_block, issue_ns, &beside.ns);
  }
  if (row.direction() == CopyDirection::kToHost) {
    beside.ns = chunk.home_ns =
        state.queues.CopyBack(std::max(beside.ns, issue_ns),
                              is_sum ? info.sum_bytes : info.payload_bytes);
    if (is_sum && state.trace.global_norm()) state.sums_to_square.push_back(c);
  }
  if (row.frees) {
    state.device.GiveBlock(beside.block, beside.ns);
    beside.exists = false;
  }
}

}  // namespace

int64_t ActionNs(const SimulatedState& state, const Action& action) {
  const ActionRow& row = RowOf(action.kind);
  const SimulatedChunk& chunk = state.chunks[action.chunk.value];
  const SimulatedQueues& queues = state.queues;
  const bool of_payload = row.block == ChunkBlock::kPayload;
  if (row.makes) {
    return of_payload ? std::max({chunk.home_ns, queues.issue_ns(),
                                  queues.done_ns(Resource::kToDevice)})
                      : std::max(queues.issue_ns(), queues.compute_ns());
  }
  if (!row.frees) return 0;
  if (of_payload) return PayloadOverNs(chunk);
  return (row.block == ChunkBlock::kSum ? chunk.sum : chunk.gradients).ns;
}

void DoAction(SimulatedState& state, const Action& action) {
  const ActionRow& row = RowOf(action.kind);
  const int64_t c = action.chunk.value;
  SimulatedChunk& chunk = state.chunks[c];
  switch (row.block) {
    case ChunkBlock::kPayload:
      if (row.direction() == CopyDirection::kToDevice) Fetch(state, c);
      if (row.direction() == CopyDirection::kToHost) CopyBack(state, c);
      if (row.frees) state.device.GiveBlock(chunk.block, PayloadOverNs(chunk));
      break;
    case ChunkBlock::kGradients:
    case ChunkBlock::kSum:
      ActBeside(state, row, c);
      break;
    case ChunkBlock::kBank:
      UpdateAhead(state, c);
      break;
  }
}

}  // namespace castor
