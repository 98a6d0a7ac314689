#include "memory/plan/policy/short_step.h"

#include <algorithm>
#include <vector>

#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// Finds where each micro batch begins. Operators after all reduces of one micro
// batch count for the next one.
std::vector<int64_t> Beginnings(const StepTrace& trace) {
  // Find the last reduce of the first micro batch, and where it recurs.
  std::vector<bool> reduced(trace.chunks.size(), false);
  int64_t last = -1;
  for (const OpRecord& op : trace.ops) {
    if (op.kind != OpKind::kReduce) continue;
    const int64_t c = op.chunks[0].chunk.value;
    if (reduced[c]) break;
    reduced[c] = true;
    last = c;
  }
  std::vector<int64_t> beginnings = {0};
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    const OpRecord& op = trace.ops[t];
    if (op.kind == OpKind::kReduce && op.chunks[0].chunk.value == last) {
      beginnings.push_back(static_cast<int64_t>(t) + 1);
    }
  }
  beginnings.pop_back();  // the end of the last one
  return beginnings;
}

bool Alike(const OpRecord& a, const OpRecord& b) {
  return a.kind == b.kind && a.phase == b.phase && a.chunks == b.chunks &&
         a.non_model_peak_bytes == b.non_model_peak_bytes &&
         a.reduced_bytes == b.reduced_bytes;
}

// The bytes of one payload, or of one sum, that an action moves at most.
void AddBytes(const Action& action, const StepTrace& trace, double* h2d_bytes,
              double* d2h_bytes) {
  const ChunkInfo& chunk = trace.chunks[action.chunk.value];
  const ActionRow& row = RowOf(action.kind);
  if (row.direction() == CopyDirection::kToHost) {
    const auto bytes = static_cast<double>(BlockBytes(row.block, chunk));
    *d2h_bytes += bytes;
    // Activations that have left come back; a fetch before they are made moves
    // nothing.
    if (chunk.holds_activations()) *h2d_bytes += bytes;
  } else if (row.direction() == CopyDirection::kToDevice &&
             !chunk.holds_activations()) {
    *h2d_bytes += static_cast<double>(chunk.home_bytes());
  }
}

}  // namespace

std::optional<ShortStep> Shorten(const StepTrace& trace) {
  constexpr int64_t kKept = 3;
  const std::vector<int64_t> begin = Beginnings(trace);
  const int64_t batches = static_cast<int64_t>(begin.size());
  if (!trace.training || batches <= kKept || batches != trace.micro_batches) {
    return std::nullopt;
  }
  const int64_t length = begin[2] - begin[1];
  for (int64_t i = 2; i + 1 < batches; ++i) {
    if (begin[i + 1] - begin[i] != length) return std::nullopt;
    for (int64_t t = 0; t < length; ++t) {
      if (!Alike(trace.ops[begin[i] + t], trace.ops[begin[1] + t])) {
        return std::nullopt;
      }
    }
  }
  ShortStep step;
  step.left_out = batches - kKept;
  step.trace.signature = trace.signature;
  step.trace.micro_batches = kKept;
  step.trace.chunks = trace.chunks;
  step.trace.measured = trace.measured;
  step.trace.global_norm = trace.global_norm;
  step.trace.ops.assign(trace.ops.begin(), trace.ops.begin() + begin[2]);
  step.trace.ops.insert(step.trace.ops.end(), trace.ops.begin() + begin.back(),
                        trace.ops.end());
  step.middle = begin[1];
  step.last = begin[2];
  return step;
}

StepEstimate EstimateWhole(const ShortStep& step, const Plan& plan,
                           const PlanRequest& request, const PlanCost& cost) {
  double compute_ns = 0, host_ns = 0, h2d_bytes = 0, d2h_bytes = 0;
  std::vector<bool> summed(step.trace.chunks.size(), false);
  for (int64_t t = 0; t < step.last; ++t) {
    for (const Action& action : plan.actions[t]) {
      if (action.kind == ActionKind::kMakeSum) {
        summed[action.chunk.value] = true;
      }
      if (t < step.middle) continue;
      AddBytes(action, step.trace, &h2d_bytes, &d2h_bytes);
    }
    if (t < step.middle) continue;
    const OpRecord& op = step.trace.ops[t];
    if (RunsOnDevice(op, plan.side) || summed[op.chunks[0].chunk.value]) {
      if (RunsOnNetwork(step.trace, op)) continue;
      compute_ns += static_cast<double>(op.duration_ns);
    } else {
      host_ns += static_cast<double>(op.host_duration_ns);
    }
  }
  const auto busy_ns = [&](Resource resource) {
    return static_cast<double>(cost.busy_ns[static_cast<int>(resource)]);
  };
  const double times = static_cast<double>(step.left_out);
  const double middle_ns = static_cast<double>(cost.op_start_ns[step.last] -
                                               cost.op_start_ns[step.middle]);
  StepEstimate whole;
  whole.h2d_bytes = static_cast<double>(cost.h2d_bytes) + times * h2d_bytes;
  whole.d2h_bytes = static_cast<double>(cost.d2h_bytes) + times * d2h_bytes;
  whole.step_ns =
      std::max({static_cast<double>(cost.step_ns) + times * middle_ns,
                busy_ns(Resource::kCompute) + times * compute_ns,
                busy_ns(Resource::kHost) + times * host_ns,
                busy_ns(Resource::kToDevice) +
                    times * h2d_bytes * 1e9 / request.bus.h2d_bytes_per_s,
                busy_ns(Resource::kFromDevice) +
                    times * d2h_bytes * 1e9 / request.bus.d2h_bytes_per_s});
  return whole;
}

}  // namespace castor
