#include "memory/plan/simulator.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "memory/plan/simulated_memory.h"
#include "memory/plan/use_index.h"

namespace castor {
namespace {

// What the bytes on the device are, where several ranks share a chunk, and of
// activations, which are each rank's own.
enum class Content : uint8_t {
  kParameters,  // the same on all ranks: home keeps this one's shard
  kLocal,       // with gradients of this rank's own: only it has them, whole
  kSpent,       // reduced for the last time, worth nothing until the update;
                // or activations that are not made, or were read
};

struct Payload {
  SimulatedMemory::Spans block;
  int64_t arrived_ns = 0;  // the last fetch
  int64_t used_ns = 0;     // the last operator that used it
  int64_t written_ns = 0;  // the last one that changed it
  int64_t copied_ns = 0;   // the last copy back
  int64_t home_ns = 0;     // its home is valid for the device: copied, updated
  Content content = Content::kParameters;
  bool home_current = true;  // when the content is parameters
  // The gradient block beside it, while there is one.
  bool has_gradients = false;
  SimulatedMemory::Spans gradients;
  int64_t gradients_ns =
      0;  // from when on it may be written, then its last use
  // The sum on the device, while there is one; the same of it.
  bool has_sum = false;
  SimulatedMemory::Spans sum;
  int64_t sum_ns = 0;
  bool speculated = false;  // and not committed
};

// What the clock asks of an operator. It walks through them several times, so
// they lie close together, without names.
struct Op {
  OpKind kind = OpKind::kCompute;
  Phase phase = Phase::kForward;
  absl::Span<const ChunkUse> chunks;
  int64_t non_model_peak_bytes = 0;
  int64_t duration_ns = 0;
  int64_t host_duration_ns = 0;
  int64_t reduced_bytes = 0;
};

// Their uses lie in `uses`.
std::vector<Op> OpsOf(const StepTrace& trace, std::vector<ChunkUse>* uses) {
  size_t num_uses = 0;
  for (const OpRecord& op : trace.ops) num_uses += op.chunks.size();
  uses->reserve(num_uses);
  std::vector<Op> ops;
  ops.reserve(trace.ops.size());
  for (const OpRecord& op : trace.ops) {
    const size_t first = uses->size();
    uses->insert(uses->end(), op.chunks.begin(), op.chunks.end());
    ops.push_back({op.kind,
                   op.phase,
                   {uses->data() + first, op.chunks.size()},
                   op.non_model_peak_bytes,
                   op.duration_ns,
                   op.host_duration_ns,
                   op.reduced_bytes});
  }
  return ops;
}

class Clock {
 public:
  Clock(const Plan& plan, const PlanRequest& request,
        const Overheads& overheads, bool misses)
      : plan_(plan),
        request_(request),
        overheads_(overheads),
        trace_(*request.trace),
        ops_(OpsOf(trace_, &uses_)),
        misses_(misses),
        sharded_(request.world_size > 1),
        payloads_(trace_.chunks.size()),
        last_reduce_(trace_.chunks.size(), -1),
        update_(trace_.chunks.size(), -1) {
    resident_bytes_ = request.device_reserved_bytes;
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      if (plan.side[c] == Side::kDevice) {
        resident_bytes_ +=
            RoundUp(trace_.chunks[c].optimizer_bytes, kBlockAlignment);
      }
    }
    int64_t most_non_model = 0;
    for (const Op& op : ops_) {
      most_non_model = std::max(most_non_model, op.non_model_peak_bytes);
    }
    const int64_t room = request.device_budget_bytes - resident_bytes_;
    memory_ = SimulatedMemory(room, room - most_non_model);
    int64_t none = 0;
    for (const ResidentChunk& chunk : plan.initial) {
      const int64_t bytes = BlockOf(chunk.chunk.value);
      payloads_[chunk.chunk.value].block = memory_.TakeLow(bytes, 0, &none);
      resident_bytes_ += bytes;
    }
    // Between two operators lives what both count.
    if (!ops_.empty()) {
      SetNonModel(std::min(ops_.back().non_model_peak_bytes,
                           ops_.front().non_model_peak_bytes));
    }
    for (size_t t = 0; t < ops_.size(); ++t) {
      const Op& op = ops_[t];
      if (op.phase == Phase::kForward) last_forward_ = static_cast<int64_t>(t);
      if (op.kind == OpKind::kReduce) {
        last_reduce_[op.chunks[0].chunk.value] = static_cast<int64_t>(t);
      }
      if (op.kind == OpKind::kUpdate) {
        update_[op.chunks[0].chunk.value] = static_cast<int64_t>(t);
      }
    }
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      if (HoldsActivations(c)) payloads_[c].content = Content::kSpent;
    }
    cost_.op_start_ns.resize(ops_.size());
    cost_.device_bytes.resize(ops_.size());
  }

  void RunStep() {
    norm_pending_ =
        trace_.global_norm && std::find(plan_.side.begin(), plan_.side.end(),
                                        Side::kDevice) != plan_.side.end();
    const int64_t before_ns = end_ns();
    const int64_t step_issue_ns = issue_ns_;
    cost_.stall_ns = cost_.h2d_bytes = cost_.d2h_bytes = 0;
    cost_.network_bytes = 0;
    cost_.action_ns.clear();
    cost_.busy_ns = {};
    const int64_t moments = static_cast<int64_t>(ops_.size());
    for (int64_t t = 0; t <= moments; ++t) {
      if (t < static_cast<int64_t>(overheads_.issue_ns.size())) {
        issue_ns_ = step_issue_ns + overheads_.issue_ns[t];
      }
      // What the operator before held and this one does not is free for the
      // actions in between; what this one holds beyond it is taken after them.
      const int64_t peak =
          ops_.empty() ? 0 : ops_[t % moments].non_model_peak_bytes;
      if (peak < non_model_bytes_) SetNonModel(peak);
      for (const Action& action : plan_.actions[t]) {
        cost_.action_ns.push_back(BlockNs(action));
        Do(action);
      }
      if (t < moments) RunOperator(t);
      if (t == last_forward_) TakeLoss();
    }
    issue_ns_ = std::max({loss_arrived_ns_, before_ns, issue_ns_});
  }

  // When the last of the resources is done.
  int64_t end_ns() const {
    return std::max({compute_ns_, h2d_ns_, d2h_ns_, host_ns_, network_ns_});
  }
  PlanCost& cost() { return cost_; }

 private:
  bool AddsSums(const Op& op) const { return sharded_ && op.reduced_bytes > 0; }
  // When a queue that is busy until `own_ns` goes on with what is ready then.
  static int64_t After(int64_t own_ns, int64_t ready_ns, int64_t handoff_ns) {
    return ready_ns > own_ns ? ready_ns + handoff_ns : own_ns;
  }
  int64_t BlockOf(int64_t c) const {
    return RoundUp(trace_.chunks[c].payload_bytes, kBlockAlignment);
  }
  bool HoldsActivations(int64_t c) const {
    return trace_.chunks[c].holds_activations();
  }
  int64_t LatencyNs() const { return request_.bus.latency_ns; }
  // Counts what a resource works.
  int64_t Busy(Resource resource, int64_t ns) {
    cost_.busy_ns[static_cast<int>(resource)] += ns;
    return ns;
  }
  int64_t CopyNs(Resource resource, int64_t bytes, double bytes_per_s) {
    const double ns = static_cast<double>(bytes) * 1e9 / bytes_per_s;
    return Busy(resource, LatencyNs() + static_cast<int64_t>(std::ceil(ns)));
  }
  int64_t FetchNs(int64_t bytes, int64_t pieces = 1) {
    return MorePiecesNs(Resource::kToDevice, pieces) +
           CopyNs(Resource::kToDevice, bytes, request_.bus.h2d_bytes_per_s);
  }
  int64_t CopyBackNs(int64_t bytes, int64_t pieces = 1) {
    return MorePiecesNs(Resource::kFromDevice, pieces) +
           CopyNs(Resource::kFromDevice, bytes, request_.bus.d2h_bytes_per_s);
  }
  // What all but one of so many copies take beside their bytes.
  int64_t MorePiecesNs(Resource resource, int64_t pieces) {
    return Busy(resource, (pieces - 1) * LatencyNs());
  }
  int64_t NetworkNs(int64_t bytes) {
    return CopyNs(Resource::kNetwork, bytes, request_.bus.network_bytes_per_s);
  }
  // What is to cross the bus with a copy of the chunk as it is now.
  int64_t BytesOnBus(int64_t c) const {
    const Content content = payloads_[c].content;
    return content == Content::kLocal   ? trace_.chunks[c].payload_bytes
           : content == Content::kSpent ? 0
                                        : trace_.chunks[c].home_bytes();
  }
  // All other ranks' sums of an update, behind what is on the network.
  void AddSums(const Op& op, int64_t ready_ns) {
    const int64_t bytes = op.reduced_bytes * (request_.world_size - 1);
    network_ns_ = std::max(network_ns_, ready_ns) + NetworkNs(bytes);
    cost_.network_bytes += bytes;
  }
  // All other ranks' shards, or parts of this one's, come; from `ready_ns` on.
  void Exchange(int64_t c, int64_t ready_ns) {
    const ChunkInfo& chunk = trace_.chunks[c];
    const int64_t bytes = chunk.payload_bytes - chunk.home_bytes();
    network_ns_ = std::max(network_ns_, ready_ns) + NetworkNs(bytes);
    cost_.network_bytes += bytes;
  }

  // What goes was used by operators before, what comes is the time from which
  // it may be used.
  int64_t SetNonModel(int64_t bytes) {
    int64_t from_ns = 0;
    if (bytes > non_model_bytes_) {
      memory_.TakeHigh(bytes - non_model_bytes_,
                       std::max(compute_ns_, issue_ns_), &from_ns, &non_model_);
    }
    for (int64_t left = non_model_bytes_ - bytes; left > 0;) {
      SimulatedMemory::Span& last = non_model_.back();
      const int64_t part = std::min(left, last.bytes);
      memory_.Give({last.offset, part}, compute_ns_);
      last = {last.offset + part, last.bytes - part};
      left -= part;
      if (last.bytes == 0) non_model_.pop_back();
    }
    non_model_bytes_ = bytes;
    return from_ns;
  }

  // PlanCost::action_ns of an action that comes next.
  int64_t BlockNs(const Action& action) const {
    const Payload& payload = payloads_[action.chunk.value];
    switch (action.kind) {
      case ActionKind::kFetch:
        return std::max({payload.home_ns, issue_ns_, h2d_ns_});
      case ActionKind::kMakeGradients:
      case ActionKind::kMakeSum:
        return std::max(issue_ns_, compute_ns_);
      case ActionKind::kDrop:
        return std::max(
            {payload.used_ns, payload.copied_ns, payload.arrived_ns});
      case ActionKind::kDropGradients:
        return payload.gradients_ns;
      case ActionKind::kDropSum:
        return payload.sum_ns;
      case ActionKind::kCopyBack:
      case ActionKind::kSendGradients:
      case ActionKind::kSendSum:
      case ActionKind::kSpeculate:
        break;
    }
    return 0;
  }

  void Do(const Action& action) {
    const int64_t c = action.chunk.value;
    Payload& payload = payloads_[c];
    switch (action.kind) {
      case ActionKind::kFetch: {
        if (HoldsActivations(c) && payload.content == Content::kSpent) {
          MakeActivations(c);
          break;
        }
        int64_t ready = std::max(payload.home_ns, issue_ns_);
        payload.block = memory_.TakeLow(BlockOf(c), issue_ns_, &ready);
        const int64_t bytes = BytesOnBus(c);
        if (payload.content != Content::kSpent) {
          h2d_ns_ = After(h2d_ns_, ready, overheads_.h2d_handoff_ns) +
                    FetchNs(bytes, trace_.chunks[c].pieces);
          ready = h2d_ns_;
        }
        payload.arrived_ns = ready;
        if (sharded_ && payload.content == Content::kParameters) {
          Exchange(c, h2d_ns_);
          payload.arrived_ns = network_ns_;
        }
        cost_.h2d_bytes += bytes;
        resident_bytes_ += BlockOf(c);
        break;
      }
      case ActionKind::kCopyBack: {
        int64_t bytes = BytesOnBus(c);
        if (payload.content == Content::kParameters) {
          if (sharded_ && payload.home_current) bytes = 0;
          payload.home_current = true;
        }
        if (sharded_ && bytes == 0) break;
        const int64_t ready =
            std::max({payload.written_ns, payload.arrived_ns, issue_ns_});
        d2h_ns_ = After(d2h_ns_, ready, overheads_.d2h_handoff_ns) +
                  CopyBackNs(bytes, trace_.chunks[c].pieces);
        payload.copied_ns = payload.home_ns = d2h_ns_;
        cost_.d2h_bytes += bytes;
        break;
      }
      case ActionKind::kDrop:
        for (const SimulatedMemory::Span& span : payload.block) {
          memory_.Give(span, BlockNs(action));
        }
        resident_bytes_ -= BlockOf(c);
        break;
      case ActionKind::kMakeGradients:
        payload.gradients_ns = issue_ns_;
        payload.gradients =
            memory_.TakeLow(BlockOf(c), issue_ns_, &payload.gradients_ns);
        payload.has_gradients = true;
        resident_bytes_ += BlockOf(c);
        break;
      case ActionKind::kSendGradients: {
        const int64_t bytes = trace_.chunks[c].payload_bytes;
        d2h_ns_ = After(d2h_ns_, std::max(payload.gradients_ns, issue_ns_),
                        overheads_.d2h_handoff_ns) +
                  CopyBackNs(bytes);
        payload.gradients_ns = payload.home_ns = d2h_ns_;
        cost_.d2h_bytes += bytes;
        break;
      }
      case ActionKind::kDropGradients:
        for (const SimulatedMemory::Span& span : payload.gradients) {
          memory_.Give(span, payload.gradients_ns);
        }
        payload.has_gradients = false;
        resident_bytes_ -= BlockOf(c);
        break;
      case ActionKind::kMakeSum:
        payload.sum_ns = issue_ns_;
        payload.sum = memory_.TakeLow(SumBlock(trace_.chunks[c]), issue_ns_,
                                      &payload.sum_ns);
        payload.has_sum = true;
        resident_bytes_ += SumBlock(trace_.chunks[c]);
        break;
      case ActionKind::kSendSum: {
        const int64_t bytes = trace_.chunks[c].sum_bytes;
        d2h_ns_ = After(d2h_ns_, std::max(payload.sum_ns, issue_ns_),
                        overheads_.d2h_handoff_ns) +
                  CopyBackNs(bytes);
        payload.sum_ns = payload.home_ns = d2h_ns_;
        cost_.d2h_bytes += bytes;
        if (trace_.global_norm) sums_to_square_.push_back(c);
        break;
      }
      case ActionKind::kDropSum:
        for (const SimulatedMemory::Span& span : payload.sum) {
          memory_.Give(span, payload.sum_ns);
        }
        payload.has_sum = false;
        resident_bytes_ -= SumBlock(trace_.chunks[c]);
        break;
      case ActionKind::kSpeculate:
        if (std::erase(sums_to_square_, c) > 0) SquareSum(c);
        host_ns_ = After(host_ns_, std::max(payload.home_ns, issue_ns_),
                         overheads_.host_handoff_ns) +
                   Busy(Resource::kHost, ops_[update_[c]].host_duration_ns);
        payload.speculated = true;
        break;
    }
  }

  // Blocks that operators have written change hands: what is taken for them
  // here was given back when the operators' bytes fell.
  void MakeActivations(int64_t c) {
    Payload& payload = payloads_[c];
    const int64_t written_ns = std::max(compute_ns_, issue_ns_);
    int64_t ready_ns = 0;
    payload.block = memory_.TakeLow(BlockOf(c), written_ns, &ready_ns);
    payload.content = Content::kLocal;
    payload.arrived_ns = payload.used_ns = payload.written_ns = written_ns;
    payload.copied_ns = 0;
    resident_bytes_ += BlockOf(c);
  }

  // The host adds up the squares of sums that the device made, for which it is
  // taken to need what it needs to make one.
  void SquareSum(int64_t c) {
    host_ns_ = After(host_ns_, std::max(payloads_[c].home_ns, issue_ns_),
                     overheads_.host_handoff_ns) +
               Busy(Resource::kHost, ops_[last_reduce_[c]].host_duration_ns);
    payloads_[c].home_ns = host_ns_;
  }
  void SquareSums() {
    for (const int64_t c : sums_to_square_) SquareSum(c);
    sums_to_square_.clear();
  }

  // The loss comes to the host with the operators, not with what is on the bus.
  void TakeLoss() {
    loss_arrived_ns_ = std::max(compute_ns_, issue_ns_) + LatencyNs();
    if (sharded_) {  // all ranks' losses, behind what was exchanged before
      network_ns_ = std::max(network_ns_, loss_arrived_ns_) +
                    Busy(Resource::kNetwork, LatencyNs());
      loss_arrived_ns_ = network_ns_;
    }
  }

  // The device's sum goes to the host, which has all of its own then and goes
  // on; the scale comes back. What is queued on the bus later waits behind
  // them.
  void GatherNorm() {
    d2h_ns_ = After(d2h_ns_, std::max(scalars_ns_, host_ns_),
                    overheads_.d2h_handoff_ns) +
              CopyBackNs(0);
    host_ns_ = d2h_ns_ + overheads_.host_handoff_ns;
    h2d_ns_ = After(h2d_ns_, host_ns_, overheads_.h2d_handoff_ns) + FetchNs(0) +
              FetchNs(0);
    scalars_ns_ = h2d_ns_;
    norm_pending_ = false;
  }

  int64_t MovesNs(int64_t t) const {
    return overheads_.moves.empty() ? 0 : overheads_.moves[t].duration_ns;
  }
  int64_t MoveBlocks(int64_t t, int64_t start) const {
    if (overheads_.moves.empty()) return start;
    const BlockMoves& moves = overheads_.moves[t];
    for (const ChunkId chunk : moves.after_fetches) {
      start = std::max(start, payloads_[chunk.value].arrived_ns);
    }
    for (const ChunkId chunk : moves.after_copies_back) {
      start = std::max(start, payloads_[chunk.value].copied_ns);
    }
    return start + moves.duration_ns;
  }

  void RunOnHost(const Op& op) {
    const int64_t c = op.chunks[0].chunk.value;
    Payload& home = payloads_[c];
    if (sharded_ && op.kind == OpKind::kReduce) {
      // The home keeps the parameters meanwhile.
      Exchange(c, std::max(home.home_ns, issue_ns_));
      host_ns_ = After(host_ns_, network_ns_, overheads_.host_handoff_ns) +
                 Busy(Resource::kHost, op.host_duration_ns);
      home.home_ns = issue_ns_;
      home.content = Content::kParameters;
      return;
    }
    host_ns_ = After(host_ns_, std::max(home.home_ns, issue_ns_),
                     overheads_.host_handoff_ns);
    // What is committed was updated before.
    if (!home.speculated || misses_) {
      host_ns_ += Busy(Resource::kHost, op.host_duration_ns);
    }
    home.speculated = false;
    if (AddsSums(op)) {  // between its phases, whose durations are one number
      AddSums(op, host_ns_);
      host_ns_ = After(host_ns_, network_ns_, overheads_.host_handoff_ns);
    }
    home.home_ns = host_ns_;
  }

  void RunOperator(int64_t t) {
    const Op& op = ops_[t];
    const bool optimizer = op.kind != OpKind::kCompute;
    if (op.kind == OpKind::kUpdate) SquareSums();
    if (op.kind == OpKind::kUpdate && norm_pending_) GatherNorm();
    int64_t start = std::max(compute_ns_, issue_ns_);
    cost_.op_start_ns[t] = start;
    if (op.non_model_peak_bytes > non_model_bytes_) {
      start = std::max(start, SetNonModel(op.non_model_peak_bytes));
    }
    cost_.device_bytes[t] = resident_bytes_ + non_model_bytes_;
    // Whether the device adds up a chunk of the host's side.
    const bool adds = op.kind == OpKind::kReduce &&
                      payloads_[op.chunks[0].chunk.value].has_sum;
    if (optimizer && !adds &&
        plan_.side[op.chunks[0].chunk.value] == Side::kHost) {
      RunOnHost(op);  // the device goes on
      return;
    }

    start = MoveBlocks(t, start);
    if (adds) {
      const int64_t c = op.chunks[0].chunk.value;
      const Payload& payload = payloads_[c];
      start = std::max(start, payload.sum_ns);
      if (t == last_reduce_[c]) start = std::max(start, payload.arrived_ns);
    }
    for (const ChunkUse& use : op.chunks) {
      const Payload& payload = payloads_[use.chunk.value];
      if (adds) continue;
      start = std::max(start, payload.arrived_ns);
      if (use.writes && payload.has_gradients) {
        start = std::max(start, payload.gradients_ns);
      } else if (use.writes || optimizer) {
        start = std::max(start, payload.copied_ns);
      }
    }
    if (optimizer && !adds) start = std::max(start, scalars_ns_);
    if (sharded_ && op.kind == OpKind::kReduce) {
      const int64_t c = op.chunks[0].chunk.value;
      const bool in_block = adds && t != last_reduce_[c];
      Exchange(c, in_block ? payloads_[c].gradients_ns
                           : std::max(payloads_[c].written_ns,
                                      payloads_[c].arrived_ns));
      start = std::max(start, network_ns_);
    }
    if (start > compute_ns_ + MovesNs(t)) {
      start += overheads_.compute_handoff_ns;
    }
    cost_.op_start_ns[t] = start;
    cost_.stall_ns += start - compute_ns_;
    compute_ns_ = start + Busy(Resource::kCompute, op.duration_ns);
    if (AddsSums(op)) {  // which go to the host and come back
      const int64_t ready_ns = compute_ns_;
      d2h_ns_ = After(d2h_ns_, ready_ns, overheads_.d2h_handoff_ns) +
                CopyBackNs(op.reduced_bytes);
      AddSums(op, d2h_ns_);
      h2d_ns_ = After(h2d_ns_, network_ns_, overheads_.h2d_handoff_ns) +
                FetchNs(op.reduced_bytes);
      cost_.stall_ns += h2d_ns_ + overheads_.compute_handoff_ns - compute_ns_;
      compute_ns_ = h2d_ns_ + overheads_.compute_handoff_ns;
    }
    if (adds) {
      AddedUp(t, op.chunks[0].chunk.value);
      return;
    }
    for (const ChunkUse& use : op.chunks) {
      Payload& payload = payloads_[use.chunk.value];
      if (HoldsActivations(use.chunk.value)) {
        if (use.writes) continue;  // by those before it
        payload.used_ns = compute_ns_;
        payload.content = Content::kSpent;
        continue;
      }
      payload.used_ns = compute_ns_;
      if (use.writes && payload.has_gradients) {
        payload.gradients_ns = compute_ns_;
        continue;
      }
      if (use.writes || optimizer) payload.written_ns = compute_ns_;
      if (sharded_ && (use.writes || optimizer)) {
        Wrote(t, use.chunk.value);
      }
    }
    if (optimizer) scalars_ns_ = compute_ns_;
  }

  // The device has added gradients to its sum.
  void AddedUp(int64_t t, int64_t c) {
    Payload& payload = payloads_[c];
    payload.sum_ns = compute_ns_;
    if (t != last_reduce_[c]) {
      payload.gradients_ns = compute_ns_;
      return;
    }
    payload.used_ns = compute_ns_;
    // The home has what it had, and gets what the update makes.
    payload.content = Content::kParameters;
    payload.home_current = true;
  }

  // What an operator on the device leaves of a chunk that ranks share.
  void Wrote(int64_t t, int64_t c) {
    const OpKind kind = ops_[t].kind;
    Payload& payload = payloads_[c];
    if (kind == OpKind::kCompute) {
      payload.content = Content::kLocal;
    } else if (kind == OpKind::kReduce && t == last_reduce_[c]) {
      payload.content = Content::kSpent;
    } else {
      Exchange(c, compute_ns_);
      payload.arrived_ns = network_ns_;
      payload.content = Content::kParameters;
      if (kind == OpKind::kUpdate) payload.home_current = false;
    }
  }

  const Plan& plan_;
  const PlanRequest& request_;
  const Overheads& overheads_;
  const StepTrace& trace_;
  std::vector<ChunkUse> uses_;  // of all operators
  const std::vector<Op> ops_;
  const bool misses_;
  const bool sharded_;
  std::vector<Payload> payloads_;
  std::vector<int64_t> last_reduce_;     // its moment
  std::vector<int64_t> update_;          // its moment
  std::vector<int64_t> sums_to_square_;  // chunks whose sums the host has got
  SimulatedMemory memory_{0};
  std::vector<SimulatedMemory::Span> non_model_;  // in the order of taking
  int64_t resident_bytes_ = 0;
  int64_t non_model_bytes_ = 0;
  // Until when each resource is busy.
  int64_t compute_ns_ = 0;
  int64_t h2d_ns_ = 0;
  int64_t d2h_ns_ = 0;
  int64_t host_ns_ = 0;
  int64_t network_ns_ = 0;
  // From when the step's work may be queued.
  int64_t issue_ns_ = 0;
  // The loss of the last micro batch: the moment after which it is computed, -1
  // in a trace without any, and when it is on the host.
  int64_t last_forward_ = -1;
  int64_t loss_arrived_ns_ = 0;
  // The sums and the scale of the gradients' norm on the device.
  bool norm_pending_ = false;
  int64_t scalars_ns_ = 0;
  PlanCost cost_;
};

}  // namespace

absl::string_view ResourceName(Resource resource) {
  constexpr absl::string_view kNames[kNumResources] = {
      "compute", "bus to the device", "bus from it", "host", "network"};
  return kNames[static_cast<int>(resource)];
}

Resource PlanCost::Busiest() const {
  return static_cast<Resource>(
      std::max_element(busy_ns.begin(), busy_ns.end()) - busy_ns.begin());
}

PlanCost SimulatePlan(const Plan& plan, const PlanRequest& request,
                      const Overheads& overheads, bool misses) {
  Clock clock(plan, request, overheads, misses);
  // The first step starts with idle queues; a later one with what the step
  // before left. Equal lengths twice are taken for the steady state.
  constexpr int kMostSteps = 6;
  int64_t length = -1;
  int64_t end = 0;
  for (int step = 0; step < kMostSteps; ++step) {
    clock.RunStep();
    const int64_t last = length;
    length = clock.end_ns() - end;
    end = clock.end_ns();
    if (step >= 2 && length == last) break;
  }
  PlanCost cost = clock.cost();
  cost.step_ns = length;
  if (!cost.op_start_ns.empty()) {
    const int64_t first_ns = cost.op_start_ns.front();
    for (int64_t& start_ns : cost.op_start_ns) start_ns -= first_ns;
    for (int64_t& ns : cost.action_ns) ns -= first_ns;
  }
  cost.device_peak_bytes = request.device_reserved_bytes;
  for (const int64_t bytes : cost.device_bytes) {
    cost.device_peak_bytes = std::max(cost.device_peak_bytes, bytes);
  }
  cost.host_bytes = request.host_reserved_bytes;
  for (size_t c = 0; c < request.trace->chunks.size(); ++c) {
    const ChunkInfo& chunk = request.trace->chunks[c];
    cost.host_bytes += HomeBlock(chunk);
    if (plan.side[c] == Side::kHost) cost.host_bytes += OptimizerBlock(chunk);
  }
  for (const std::vector<Action>& actions : plan.actions) {
    for (const Action& action : actions) {
      if (action.kind != ActionKind::kSpeculate) continue;
      cost.host_bytes += BankBlock(request.trace->chunks[action.chunk.value]);
    }
  }
  return cost;
}

}  // namespace castor
