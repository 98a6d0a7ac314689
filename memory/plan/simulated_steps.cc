#include "memory/plan/simulated_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/plan/simulated_actions.h"
#include "memory/plan/simulated_host.h"

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
  const int64_t moments = trace_.moments();
  for (int64_t t = 0; t <= moments; ++t) {
    if (t < static_cast<int64_t>(overheads_.issue_ns.size())) {
      queues.set_issue_ns(step_issue_ns + overheads_.issue_ns[t]);
    }
    // What the operator before held and this one does not is free for the
    // actions in between; what this one holds beyond it is taken after them.
    const int64_t peak =
        moments == 0 ? 0 : trace_.op(t % moments).non_model_peak_bytes;
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

// With the operators, not with what is on the bus; all ranks' losses, behind
// what was exchanged before.
void SimulatedSteps::TakeLoss() {
  SimulatedQueues& queues = state_.queues;
  const int64_t latency_ns = queues.latency_ns();
  loss_arrived_ns_ =
      std::max(queues.compute_ns(), queues.issue_ns()) + latency_ns;
  if (!state_.sharded) return;
  loss_arrived_ns_ =
      queues.Run(Resource::kNetwork, loss_arrived_ns_, latency_ns);
}

// The device's sum goes to the host, which has all of its own then and goes on;
// the scale comes back, in two copies. What is queued on the bus later waits
// behind them.
void SimulatedSteps::GatherNorm() {
  SimulatedQueues& queues = state_.queues;
  const int64_t host_ns = queues.done_ns(Resource::kHost);
  const int64_t sum_ns = queues.CopyBack(std::max(scalars_ns_, host_ns), 0);
  const int64_t scale_ns = queues.RunFrom(
      Resource::kHost, sum_ns + queues.handoff_ns(Resource::kHost), 0);
  scalars_ns_ = queues.Fetch(queues.Fetch(scale_ns, 0), 0);
  norm_pending_ = false;
}

int64_t SimulatedSteps::MovesNs(int64_t t) const {
  return overheads_.moves.empty() ? 0 : overheads_.moves[t].duration_ns;
}

int64_t SimulatedSteps::MoveBlocks(int64_t t, int64_t start) const {
  if (overheads_.moves.empty()) return start;
  const BlockMoves& moves = overheads_.moves[t];
  for (const ChunkId chunk : moves.after_fetches) {
    start = std::max(start, state_.chunks[chunk.value].arrived_ns);
  }
  for (const ChunkId chunk : moves.after_copies_back) {
    start = std::max(start, state_.chunks[chunk.value].copied_ns);
  }
  return start + moves.duration_ns;
}

void SimulatedSteps::RunOperator(int64_t t) {
  const SimulatedTrace::Op& op = trace_.op(t);
  if (op.kind == OpKind::kUpdate) {
    SquareSums(state_);
    if (norm_pending_) GatherNorm();
  }
  int64_t start =
      std::max(state_.queues.compute_ns(), state_.queues.issue_ns());
  cost_.op_start_ns[t] = start;
  if (op.non_model_peak_bytes > state_.device.non_model_bytes()) {
    start = std::max(start, SetNonModel(op.non_model_peak_bytes));
  }
  cost_.device_bytes[t] = state_.device.bytes_in_use();
  if (state_.RunsOnDevice(op)) {
    RunOnDevice(t, start);
  } else {
    RunOnHost(state_, op, misses_);  // the device goes on
  }
}

void SimulatedSteps::RunOnDevice(int64_t t, int64_t start) {
  const SimulatedTrace::Op& op = trace_.op(t);
  const bool optimizer = op.kind != OpKind::kCompute;
  const bool adds = state_.AddsOnDevice(op);
  const bool reduces = op.kind == OpKind::kReduce;
  SimulatedQueues& queues = state_.queues;

  start = MoveBlocks(t, start);
  if (adds) {
    const int64_t c = trace_.chunk_of(op);
    start = std::max(start, state_.chunks[c].sum.ns);
    if (t == trace_.chunk(c).last_reduce) {
      start = std::max(start, state_.chunks[c].arrived_ns);
    }
  } else {
    for (const ChunkUse& use : trace_.uses(op)) {
      const SimulatedChunk& chunk = state_.chunks[use.chunk.value];
      start = std::max(start, chunk.arrived_ns);
      if (use.writes && chunk.gradients.exists) {
        start = std::max(start, chunk.gradients.ns);
      } else if (use.writes || optimizer) {
        start = std::max(start, chunk.copied_ns);
      }
    }
    if (optimizer) start = std::max(start, scalars_ns_);
  }
  if (state_.sharded && reduces) {
    const int64_t c = trace_.chunk_of(op);
    const SimulatedChunk& chunk = state_.chunks[c];
    const bool in_block = adds && t != trace_.chunk(c).last_reduce;
    start = std::max(
        start, state_.Exchange(
                   c, in_block ? chunk.gradients.ns
                               : std::max(chunk.written_ns, chunk.arrived_ns)));
  }
  const int64_t before_ns = queues.compute_ns();
  const int64_t handoff_ns = queues.handoff_ns(Resource::kCompute);
  if (start > before_ns + MovesNs(t)) start += handoff_ns;
  cost_.op_start_ns[t] = start;
  cost_.stall_ns += start - before_ns;
  const int64_t ready_ns =
      queues.RunFrom(Resource::kCompute, start, op.duration_ns);
  if (state_.AddsSumsOfRanks(op)) {  // which go to the host and come back
    const int64_t sent_ns =
        queues.Run(Resource::kFromDevice, ready_ns,
                   queues.CopyNs(Resource::kFromDevice, op.reduced_bytes));
    const int64_t back_ns =
        queues.Run(Resource::kToDevice, state_.ReceiveSums(op, sent_ns),
                   queues.CopyNs(Resource::kToDevice, op.reduced_bytes));
    cost_.stall_ns += back_ns + handoff_ns - ready_ns;
    queues.RunFrom(Resource::kCompute, back_ns + handoff_ns, 0);
  }
  if (adds) {
    AddedUp(t, trace_.chunk_of(op));
  } else {
    LeaveChunks(t);
  }
  if (optimizer && !adds) scalars_ns_ = queues.compute_ns();
}

void SimulatedSteps::LeaveChunks(int64_t t) {
  const SimulatedTrace::Op& op = trace_.op(t);
  const bool optimizer = op.kind != OpKind::kCompute;
  const int64_t end_ns = state_.queues.compute_ns();
  for (const ChunkUse& use : trace_.uses(op)) {
    const int64_t c = use.chunk.value;
    SimulatedChunk& chunk = state_.chunks[c];
    if (trace_.chunk(c).holds_activations) {
      if (use.writes) continue;  // by those before it
      chunk.used_ns = end_ns;
      chunk.content = Content::kSpent;
      continue;
    }
    chunk.used_ns = end_ns;
    if (use.writes && chunk.gradients.exists) {
      chunk.gradients.ns = end_ns;
      continue;
    }
    if (!use.writes && !optimizer) continue;
    chunk.written_ns = end_ns;
    if (state_.sharded) Wrote(t, c);
  }
}

void SimulatedSteps::AddedUp(int64_t t, int64_t chunk) {
  SimulatedChunk& at = state_.chunks[chunk];
  const int64_t end_ns = state_.queues.compute_ns();
  at.sum.ns = end_ns;
  if (t != trace_.chunk(chunk).last_reduce) {
    at.gradients.ns = end_ns;
    return;
  }
  at.used_ns = end_ns;
  // The home has what it had, and gets what the update makes.
  at.content = Content::kParameters;
  at.home_current = true;
}

void SimulatedSteps::Wrote(int64_t t, int64_t chunk) {
  const OpKind kind = trace_.op(t).kind;
  SimulatedChunk& at = state_.chunks[chunk];
  if (kind == OpKind::kCompute) {
    at.content = Content::kLocal;
  } else if (kind == OpKind::kReduce && t == trace_.chunk(chunk).last_reduce) {
    at.content = Content::kSpent;
  } else {
    at.arrived_ns = state_.Exchange(chunk, state_.queues.compute_ns());
    at.content = Content::kParameters;
    if (kind == OpKind::kUpdate) at.home_current = false;
  }
}

}  // namespace castor
