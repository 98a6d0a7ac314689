#include "memory/plan/simulate/simulated_host.h"

#include <algorithm>
#include <vector>

namespace castor {
namespace {

// Squaring a sum is assumed to take the host as long as adding one up.
void SquareSum(SimulatedState& state, int64_t chunk) {
  SimulatedChunk& home = state.chunks[chunk];
  const int64_t last_reduce = state.trace.chunk(chunk).last_reduce;
  home.home_ns = state.queues.Run(
      Resource::kHost, std::max(home.home_ns, state.queues.issue_ns()),
      state.trace.op(last_reduce).host_duration_ns);
}

}  // namespace

void RunOnHost(SimulatedState& state, const SimulatedTrace::Op& op,
               bool misses) {
  const int64_t c = state.trace.chunk_of(op);
  SimulatedChunk& home = state.chunks[c];
  SimulatedQueues& queues = state.queues;
  const int64_t ready_ns = std::max(home.home_ns, queues.issue_ns());
  if (state.sharded && op.kind == OpKind::kReduce) {
    // The home keeps the parameters meanwhile.
    queues.Run(Resource::kHost, state.Exchange(c, ready_ns),
               op.host_duration_ns);
    home.home_ns = queues.issue_ns();
    home.content = SimulatedChunk::Content::kParameters;
    return;
  }
  // A chunk that is committed was updated before.
  const bool works = !home.speculated || misses;
  home.home_ns =
      queues.Run(Resource::kHost, ready_ns, works ? op.host_duration_ns : 0);
  home.speculated = false;
  // The trace has one duration for both phases, so the sums come between them.
  if (state.AddsSumsOfRanks(op)) {
    home.home_ns =
        queues.Run(Resource::kHost, state.ReceiveSums(op, home.home_ns), 0);
  }
}

void UpdateAhead(SimulatedState& state, int64_t chunk) {
  if (std::erase(state.sums_to_square, chunk) > 0) SquareSum(state, chunk);
  SimulatedChunk& home = state.chunks[chunk];
  const int64_t update = state.trace.chunk(chunk).update;
  state.queues.Run(Resource::kHost,
                   std::max(home.home_ns, state.queues.issue_ns()),
                   state.trace.op(update).host_duration_ns);
  home.speculated = true;
}

void SquareSums(SimulatedState& state) {
  for (const int64_t c : state.sums_to_square) SquareSum(state, c);
  state.sums_to_square.clear();
}

}  // namespace castor
