#include "memory/plan/simulator.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/units.h"
#include "memory/plan/use_index.h"

namespace castor {
namespace {

// Free device bytes, each with the time from which it may be overwritten. Like
// the arena, whoever takes some takes first what is ready first. There are no
// addresses, so neither fragmentation nor moves of blocks.
class FreePool {
 public:
  void Give(int64_t bytes, int64_t from_ns) {
    if (bytes > 0) bytes_from_[from_ns] += bytes;
  }

  // When all of the bytes taken may be overwritten.
  int64_t Take(int64_t bytes) {
    int64_t from_ns = 0;
    while (bytes > 0) {
      CASTOR_CHECK(!bytes_from_.empty());
      const auto first = bytes_from_.begin();
      const int64_t taken = std::min(bytes, first->second);
      from_ns = first->first;
      bytes -= taken;
      first->second -= taken;
      if (first->second == 0) bytes_from_.erase(first);
    }
    return from_ns;
  }

 private:
  std::map<int64_t, int64_t> bytes_from_;
};

struct PayloadTimes {
  int64_t arrived_ns = 0;  // the last fetch
  int64_t used_ns = 0;     // the last operator that used it
  int64_t copied_ns = 0;   // the last copy back
  int64_t home_ns = 0;     // its home is valid for the device: copied, updated
};

class Clock {
 public:
  Clock(const Plan& plan, const PlanRequest& request)
      : plan_(plan),
        request_(request),
        trace_(*request.trace),
        times_(trace_.chunks.size()) {
    resident_bytes_ = request.device_reserved_bytes;
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      if (plan.side[c] == Side::kDevice) {
        resident_bytes_ +=
            RoundUp(trace_.chunks[c].optimizer_bytes, kBlockAlignment);
      }
    }
    for (const ResidentChunk& chunk : plan.initial) {
      resident_bytes_ += BlockOf(chunk.chunk.value);
    }
    // Between the steps the last operator's non-model bytes are still counted.
    if (!trace_.ops.empty()) {
      non_model_bytes_ = trace_.ops.back().non_model_peak_bytes;
    }
    pool_.Give(request.device_budget_bytes - resident_bytes_ - non_model_bytes_,
               0);
    cost_.op_start_ns.resize(trace_.ops.size());
    cost_.device_bytes.resize(trace_.ops.size());
  }

  void RunStep() {
    cost_.stall_ns = cost_.h2d_bytes = cost_.d2h_bytes = 0;
    const int64_t moments = static_cast<int64_t>(trace_.ops.size());
    for (int64_t t = 0; t <= moments; ++t) {
      // What the operator before held and this one does not is free for the
      // actions in between; what this one holds beyond it is taken after them.
      const int64_t peak =
          trace_.ops.empty() ? 0 : trace_.ops[t % moments].non_model_peak_bytes;
      if (peak < non_model_bytes_) {
        pool_.Give(non_model_bytes_ - peak, compute_ns_);
        non_model_bytes_ = peak;
      }
      for (const Action& action : plan_.actions[t]) Do(action);
      if (t < moments) RunOperator(t);
    }
  }

  // When the last of the resources is done.
  int64_t end_ns() const {
    return std::max({compute_ns_, h2d_ns_, d2h_ns_, host_ns_});
  }
  PlanCost& cost() { return cost_; }

 private:
  int64_t BlockOf(int64_t c) const {
    return RoundUp(trace_.chunks[c].payload_bytes, kBlockAlignment);
  }
  int64_t CopyNs(int64_t c, double bytes_per_s) const {
    const double ns =
        static_cast<double>(trace_.chunks[c].payload_bytes) * 1e9 / bytes_per_s;
    return request_.bus.latency_ns + static_cast<int64_t>(std::ceil(ns));
  }

  void Do(const Action& action) {
    const int64_t c = action.chunk.value;
    PayloadTimes& payload = times_[c];
    switch (action.kind) {
      case ActionKind::kFetch: {
        const int64_t room_ns = pool_.Take(BlockOf(c));
        const int64_t start = std::max({h2d_ns_, payload.home_ns, room_ns});
        h2d_ns_ = start + CopyNs(c, request_.bus.h2d_bytes_per_s);
        payload.arrived_ns = h2d_ns_;
        cost_.h2d_bytes += trace_.chunks[c].payload_bytes;
        resident_bytes_ += BlockOf(c);
        break;
      }
      case ActionKind::kCopyBack: {
        const int64_t start =
            std::max({d2h_ns_, payload.used_ns, payload.arrived_ns});
        d2h_ns_ = start + CopyNs(c, request_.bus.d2h_bytes_per_s);
        payload.copied_ns = payload.home_ns = d2h_ns_;
        cost_.d2h_bytes += trace_.chunks[c].payload_bytes;
        break;
      }
      case ActionKind::kDrop:
        pool_.Give(BlockOf(c), std::max({payload.used_ns, payload.copied_ns,
                                         payload.arrived_ns}));
        resident_bytes_ -= BlockOf(c);
        break;
    }
  }

  void RunOperator(int64_t t) {
    const OpRecord& op = trace_.ops[t];
    int64_t start = compute_ns_;
    if (op.non_model_peak_bytes > non_model_bytes_) {
      const int64_t growth = op.non_model_peak_bytes - non_model_bytes_;
      start = std::max(start, pool_.Take(growth));
      non_model_bytes_ = op.non_model_peak_bytes;
    }
    cost_.device_bytes[t] = resident_bytes_ + non_model_bytes_;

    if (op.kind != OpKind::kCompute &&
        plan_.side[op.chunks[0].chunk.value] == Side::kHost) {
      // On the host's own queue; the device goes on.
      PayloadTimes& home = times_[op.chunks[0].chunk.value];
      host_ns_ = std::max(host_ns_, home.home_ns) + op.host_duration_ns;
      home.home_ns = host_ns_;
      cost_.op_start_ns[t] = compute_ns_;
      return;
    }
    for (const ChunkUse& use : op.chunks) {
      start = std::max(start, times_[use.chunk.value].arrived_ns);
    }
    cost_.op_start_ns[t] = start;
    cost_.stall_ns += start - compute_ns_;
    compute_ns_ = start + op.duration_ns;
    for (const ChunkUse& use : op.chunks) {
      times_[use.chunk.value].used_ns = compute_ns_;
    }
  }

  const Plan& plan_;
  const PlanRequest& request_;
  const StepTrace& trace_;
  std::vector<PayloadTimes> times_;
  FreePool pool_;
  int64_t resident_bytes_ = 0;
  int64_t non_model_bytes_ = 0;
  // Until when each resource is busy.
  int64_t compute_ns_ = 0;
  int64_t h2d_ns_ = 0;
  int64_t d2h_ns_ = 0;
  int64_t host_ns_ = 0;
  PlanCost cost_;
};

}  // namespace

PlanCost SimulatePlan(const Plan& plan, const PlanRequest& request) {
  Clock clock(plan, request);
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
  }
  cost.device_peak_bytes = request.device_reserved_bytes;
  for (const int64_t bytes : cost.device_bytes) {
    cost.device_peak_bytes = std::max(cost.device_peak_bytes, bytes);
  }
  cost.host_bytes = request.host_reserved_bytes;
  for (size_t c = 0; c < request.trace->chunks.size(); ++c) {
    const ChunkInfo& chunk = request.trace->chunks[c];
    cost.host_bytes += PayloadBlock(chunk);
    if (plan.side[c] == Side::kHost) cost.host_bytes += OptimizerBlock(chunk);
  }
  return cost;
}

}  // namespace castor
