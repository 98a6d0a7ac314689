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

void MakeBeside(SimulatedState& state, int64_t bytes,
                SimulatedChunk::Beside& beside) {
  const int64_t issue_ns = state.queues.issue_ns();
  beside.exists = true;
  beside.ns = issue_ns;
  beside.block = state.device.TakeBlock(bytes, issue_ns, &beside.ns);
}

// Sends the block's content home.
void SendBeside(SimulatedState& state, int64_t bytes, SimulatedChunk& chunk,
                SimulatedChunk::Beside& beside) {
  beside.ns = chunk.home_ns = state.queues.CopyBack(
      std::max(beside.ns, state.queues.issue_ns()), bytes);
}

void DropBeside(SimulatedState& state, SimulatedChunk::Beside& beside) {
  state.device.GiveBlock(beside.block, beside.ns);
  beside.exists = false;
}

}  // namespace

int64_t ActionNs(const SimulatedState& state, const Action& action) {
  const SimulatedChunk& chunk = state.chunks[action.chunk.value];
  const SimulatedQueues& queues = state.queues;
  switch (action.kind) {
    case ActionKind::kFetch:
      return std::max({chunk.home_ns, queues.issue_ns(),
                       queues.done_ns(Resource::kToDevice)});
    case ActionKind::kMakeGradients:
    case ActionKind::kMakeSum:
      return std::max(queues.issue_ns(), queues.compute_ns());
    case ActionKind::kDrop:
      return PayloadOverNs(chunk);
    case ActionKind::kDropGradients:
      return chunk.gradients.ns;
    case ActionKind::kDropSum:
      return chunk.sum.ns;
    case ActionKind::kCopyBack:
    case ActionKind::kSendGradients:
    case ActionKind::kSendSum:
    case ActionKind::kSpeculate:
      break;
  }
  return 0;
}

void DoAction(SimulatedState& state, const Action& action) {
  const int64_t c = action.chunk.value;
  SimulatedChunk& chunk = state.chunks[c];
  const SimulatedTrace::Chunk& info = state.trace.chunk(c);
  switch (action.kind) {
    case ActionKind::kFetch:
      Fetch(state, c);
      break;
    case ActionKind::kCopyBack:
      CopyBack(state, c);
      break;
    case ActionKind::kDrop:
      state.device.GiveBlock(chunk.block, PayloadOverNs(chunk));
      break;
    case ActionKind::kMakeGradients:
      MakeBeside(state, info.payload_block, chunk.gradients);
      break;
    case ActionKind::kSendGradients:
      SendBeside(state, info.payload_bytes, chunk, chunk.gradients);
      break;
    case ActionKind::kDropGradients:
      DropBeside(state, chunk.gradients);
      break;
    case ActionKind::kMakeSum:
      MakeBeside(state, info.sum_block, chunk.sum);
      break;
    case ActionKind::kSendSum:
      SendBeside(state, info.sum_bytes, chunk, chunk.sum);
      if (state.trace.global_norm()) state.sums_to_square.push_back(c);
      break;
    case ActionKind::kDropSum:
      DropBeside(state, chunk.sum);
      break;
    case ActionKind::kSpeculate:
      UpdateAhead(state, c);
      break;
  }
}

}  // namespace castor
