#include "memory/plan/simulate/simulated_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "memory/plan/simulate/simulated_actions.h"
#include "memory/plan/simulate/simulated_host.h"

namespace castor {

using Content = SimulatedChunk::Content;

SimulatedSteps::SimulatedSteps(const Plan& plan, const PlanRequest& request,
                               const SimulatedTrace& trace,
                               const Overheads& overheads, bool misses)
    : trace_(trace),
      overheads_(overheads),
      misses_(misses),
      gathers_norm_(trace.global_norm() &&
                    std::find(plan.side.begin(), plan.side.end(),
                              Side::kDevice) != plan.side.end()),
      state_(plan, request, trace, overheads) {
  cost_.op_start_ns.resize(trace.moments());
  cost_.device_bytes.resize(trace.moments());
}

void SimulatedSteps::RunStep() {
  SimulatedQueues& queues = state_.queues;
  const int64_t before_ns = queues.end_ns();
  const int64_t step_issue_ns = queues.issue_ns();
  norm_pending_ = gathers_norm_;
  cost_.stall_ns = 0;
  cost_.action_ns.clear();
  queues.StartCounting();
  state_.device.Forget(step_issue_ns);
  const int64_t moments = trace_.moments();
  for (int64_t t = 0; t <= moments; ++t) {
    if (t < static_cast<int64_t>(overheads_.issue_ns.size())) {
      queues.set_issue_ns(step_issue_ns + overheads_.issue_ns[t]);
    }
    // Bytes that the operator before held and this one does not are free for
    // the actions in between; bytes that only this one holds are taken after
    // them.
    const int64_t next = t < moments ? t : 0;
    const int64_t peak =
        moments == 0 ? 0 : trace_.op(next).non_model_peak_bytes;
    if (peak < state_.device.non_model_bytes()) SetNonModel(peak);
    for (const Action& action : state_.plan.actions[t]) {
      cost_.action_ns.push_back(ActionNs(state_, action));
      DoAction(state_, action);
    }
    if (t < moments) RunOperator(t);
    if (t == trace_.last_forward()) TakeLoss();
  }
  queues.set_issue_ns(
      std::max({loss_arrived_ns_, before_ns, queues.issue_ns()}));
}

PlanCost SimulatedSteps::TakeCost() {
  const SimulatedQueues& queues = state_.queues;
  cost_.h2d_bytes = queues.h2d_bytes();
  cost_.d2h_bytes = queues.d2h_bytes();
  cost_.network_bytes = queues.network_bytes();
  cost_.busy_ns = queues.busy_ns();
  return std::move(cost_);
}

int64_t SimulatedSteps::SetNonModel(int64_t bytes) {
  const int64_t used_ns = state_.queues.compute_ns();
  return state_.device.SetNonModel(bytes, used_ns,
                                   std::max(used_ns, state_.queues.issue_ns()));
}

// The loss follows the operators and does not wait for the bus; with several
// ranks all losses follow the exchanges before.
void SimulatedSteps::TakeLoss() {
  SimulatedQueues& queues = state_.queues;
  const int64_t latency_ns = queues.latency_ns();
  loss_arrived_ns_ =
      std::max(queues.compute_ns(), queues.issue_ns()) + latency_ns;
  if (!state_.sharded) return;
  loss_arrived_ns_ =
      queues.Run(Resource::kNetwork, loss_arrived_ns_, latency_ns);
}

// The device's sum goes to the host, which has its own sums by then and goes
// on; the scale comes back in two copies. Later copies wait behind them.
void SimulatedSteps::GatherNorm() {
  SimulatedQueues& queues = state_.queues;
  const int64_t host_ns = queues.done_ns(Resource::kHost);
  const int64_t sum_ns = queues.CopyBack(std::max(scalars_ns_, host_ns), 0);
  const int64_t scale_ns = queues.RunFrom(
      Resource::kHost, sum_ns + queues.handoff_ns(Resource::kHost), 0);
  scalars_ns_ = queues.Fetch(queues.Fetch(scale_ns, 0), 0);
  norm_pending_ = false;
}

int64_t SimulatedSteps::MoveBlocks(int64_t t, int64_t start_ns) const {
  if (overheads_.moves.empty()) return start_ns;
  const BlockMoves& moves = overheads_.moves[t];
  for (const ChunkId chunk : moves.after_fetches) {
    start_ns = std::max(start_ns, state_.chunks[chunk.value].arrived_ns);
  }
  for (const ChunkId chunk : moves.after_copies_back) {
    start_ns = std::max(start_ns, state_.chunks[chunk.value].copied_ns);
  }
  return start_ns + moves.duration_ns;
}

void SimulatedSteps::RunOperator(int64_t t) {
  const SimulatedTrace::Op& op = trace_.op(t);
  if (op.kind == OpKind::kUpdate) {
    SquareSums(state_);
    if (norm_pending_) GatherNorm();
  }
  int64_t start_ns =
      std::max(state_.queues.compute_ns(), state_.queues.issue_ns());
  cost_.op_start_ns[t] = start_ns;
  if (op.non_model_peak_bytes > state_.device.non_model_bytes()) {
    start_ns = std::max(start_ns, SetNonModel(op.non_model_peak_bytes));
  }
  cost_.device_bytes[t] = state_.device.bytes_in_use();
  if (op.kind == OpKind::kCompute) {
    RunCompute(t, MoveBlocks(t, start_ns));
    return;
  }
  const bool adds = state_.AddsOnDevice(op);
  if (!adds && state_.plan.side[trace_.chunk_of(op)] == Side::kHost) {
    RunOnHost(state_, op, misses_);  // the device goes on
  } else if (op.on_network) {
    if (MovesNs(t) > 0) Compute(t, MoveBlocks(t, start_ns), 0);
    RunOnNetwork(t);  // likewise
  } else if (adds) {
    AddOnDevice(t, MoveBlocks(t, start_ns));
  } else {
    RunOptimizer(t, MoveBlocks(t, start_ns));
  }
}

int64_t SimulatedSteps::Compute(int64_t t, int64_t ready_ns, int64_t work_ns) {
  SimulatedQueues& queues = state_.queues;
  const int64_t before_ns = queues.compute_ns();
  if (ready_ns > before_ns + MovesNs(t)) {
    ready_ns += queues.handoff_ns(Resource::kCompute);
  }
  cost_.op_start_ns[t] = ready_ns;
  cost_.stall_ns += ready_ns - before_ns;
  return queues.RunFrom(Resource::kCompute, ready_ns, work_ns);
}

void SimulatedSteps::RunCompute(int64_t t, int64_t start_ns) {
  const absl::Span<const ChunkUse> uses = trace_.uses(trace_.op(t));
  for (const ChunkUse& use : uses) {
    const SimulatedChunk& chunk = state_.chunks[use.chunk.value];
    start_ns = std::max(start_ns, chunk.arrived_ns);
    if (!use.writes) continue;
    start_ns = std::max(start_ns, chunk.gradients.exists ? chunk.gradients.ns
                                                         : chunk.copied_ns);
  }
  const int64_t end_ns = Compute(t, start_ns, trace_.op(t).duration_ns);
  for (const ChunkUse& use : uses) {
    SimulatedChunk& chunk = state_.chunks[use.chunk.value];
    if (chunk.holds_activations) {
      if (use.writes) continue;  // by those before it
      chunk.used_ns = end_ns;
      chunk.content = Content::kSpent;
      continue;
    }
    chunk.used_ns = end_ns;
    if (!use.writes) continue;
    if (chunk.gradients.exists) {
      chunk.gradients.ns = end_ns;
      continue;
    }
    chunk.written_ns = end_ns;
    if (state_.sharded) chunk.content = Content::kLocal;
  }
}

void SimulatedSteps::RunOptimizer(int64_t t, int64_t start_ns) {
  const SimulatedTrace::Op& op = trace_.op(t);
  const int64_t c = trace_.chunk_of(op);
  const bool writes = trace_.uses(op)[0].writes;
  SimulatedChunk& chunk = state_.chunks[c];
  start_ns = std::max({start_ns, chunk.arrived_ns, scalars_ns_,
                       writes && chunk.gradients.exists ? chunk.gradients.ns
                                                        : chunk.copied_ns});
  int64_t end_ns = Compute(t, start_ns, op.duration_ns);
  if (state_.AddsSumsOfRanks(op)) {
    const int64_t back_ns =
        AddSums(op, end_ns) + state_.queues.handoff_ns(Resource::kCompute);
    cost_.stall_ns += back_ns - end_ns;
    end_ns = state_.queues.RunFrom(Resource::kCompute, back_ns, 0);
  }
  scalars_ns_ = end_ns;
  chunk.used_ns = end_ns;
  if (writes && chunk.gradients.exists) {
    chunk.gradients.ns = end_ns;
    return;
  }
  chunk.written_ns = end_ns;
  if (!state_.sharded) return;
  chunk.arrived_ns = state_.Exchange(c, end_ns);
  chunk.content = Content::kParameters;
  chunk.home_current = false;
}

void SimulatedSteps::RunOnNetwork(int64_t t) {
  SimulatedQueues& queues = state_.queues;
  const SimulatedTrace::Op& op = trace_.op(t);
  const int64_t c = trace_.chunk_of(op);
  const bool reduces = op.kind == OpKind::kReduce;
  const bool last = t == trace_.chunk(c).last_reduce;
  SimulatedChunk& chunk = state_.chunks[c];
  const bool in_block = reduces && !last && chunk.gradients.exists;
  int64_t end_ns = std::max(
      queues.issue_ns(),
      in_block
          ? chunk.gradients.ns
          : std::max({chunk.written_ns, chunk.arrived_ns, chunk.copied_ns}));
  if (chunk.sum.exists) end_ns = std::max(end_ns, chunk.sum.ns);
  if (reduces) end_ns = state_.Exchange(c, end_ns);
  end_ns = queues.Run(Resource::kNetwork, end_ns, op.duration_ns);
  if (chunk.sum.exists) {
    chunk.sum.ns = end_ns;
    HasAdded(chunk, last);
    return;
  }
  if (in_block) {
    chunk.gradients.ns = end_ns;  // the payload is as it was
    return;
  }
  if (state_.AddsSumsOfRanks(op)) {
    end_ns = queues.Run(Resource::kNetwork, AddSums(op, end_ns), 0);
  }
  if (reduces && trace_.global_norm()) scalars_ns_ = end_ns;
  chunk.used_ns = chunk.written_ns = end_ns;
  if (last) {
    chunk.content = Content::kSpent;
    return;
  }
  chunk.arrived_ns = state_.Exchange(c, end_ns);
  chunk.content = Content::kParameters;
  if (!reduces) chunk.home_current = false;
}

void SimulatedSteps::AddOnDevice(int64_t t, int64_t start_ns) {
  const int64_t c = trace_.chunk_of(trace_.op(t));
  // Its gradients are in the payload, else in its gradient block.
  const bool last = t == trace_.chunk(c).last_reduce;
  SimulatedChunk& chunk = state_.chunks[c];
  start_ns = std::max(start_ns, chunk.sum.ns);
  if (last) start_ns = std::max(start_ns, chunk.arrived_ns);
  chunk.sum.ns = Compute(t, start_ns, trace_.op(t).duration_ns);
  HasAdded(chunk, last);
}

void SimulatedSteps::HasAdded(SimulatedChunk& chunk, bool last) {
  if (!last) {
    chunk.gradients.ns = chunk.sum.ns;
    return;
  }
  chunk.used_ns = chunk.sum.ns;
  // The home keeps the old parameters, and gets the update's.
  chunk.content = Content::kParameters;
  chunk.home_current = true;
}

int64_t SimulatedSteps::AddSums(const SimulatedTrace::Op& op,
                                int64_t ready_ns) {
  SimulatedQueues& queues = state_.queues;
  const int64_t sent_ns =
      queues.Run(Resource::kFromDevice, ready_ns,
                 queues.CopyNs(Resource::kFromDevice, op.reduced_bytes));
  return queues.Run(Resource::kToDevice, state_.ReceiveSums(op, sent_ns),
                    queues.CopyNs(Resource::kToDevice, op.reduced_bytes));
}

}  // namespace castor
