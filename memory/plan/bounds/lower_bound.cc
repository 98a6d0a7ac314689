#include "memory/plan/bounds/lower_bound.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// Enough steps that the bytes that cross the ends of the row are a small part.
constexpr int64_t kStepsInRow = 16;

// The bytes of one gap that are still on the device.
struct Stay {
  int64_t to = 0;
  int64_t gap = 0;
  int64_t bytes = 0;
  friend bool operator<(const Stay& a, const Stay& b) {
    return std::tie(a.to, a.gap) < std::tie(b.to, b.gap);
  }
};

// The terms of the bounds in closed form.
struct Turn {
  double payload_bytes = 0;  // that forward uses and backward writes
  double optimizer_bytes = 0;
  // Bytes left beside those that must be there: from the last operator of
  // forward to the first one of backward, and at the first one of a micro
  // batch.
  double room_bytes = 0;
  double first_room_bytes = 0;
};

Turn FindTurn(const PlanRequest& request) {
  const StepTrace& trace = *request.trace;
  std::vector<bool> forward(trace.chunks.size(), false);
  std::vector<bool> written(trace.chunks.size(), false);
  int64_t turn_peak = 0;
  int64_t last_forward_peak = 0;
  bool in_backward = false;
  for (const OpRecord& op : trace.ops) {
    if (op.kind != OpKind::kCompute) continue;
    if (op.phase == Phase::kForward && !in_backward) {
      last_forward_peak = op.non_model_peak_bytes;
    } else if (!in_backward) {
      in_backward = true;
      turn_peak = std::max(last_forward_peak, op.non_model_peak_bytes);
    }
    for (const ChunkUse& use : op.chunks) {
      if (!in_backward) forward[use.chunk.value] = true;
      if (use.writes) written[use.chunk.value] = true;
    }
  }
  Turn turn;
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    if (!forward[c] || !written[c] || trace.chunks[c].holds_activations()) {
      continue;
    }
    turn.payload_bytes += static_cast<double>(trace.chunks[c].payload_bytes);
    turn.optimizer_bytes +=
        static_cast<double>(trace.chunks[c].optimizer_bytes);
  }
  const auto beside = [&](int64_t peak) {
    return static_cast<double>(std::max<int64_t>(
        0, request.device_budget_bytes - request.device_reserved_bytes - peak));
  };
  turn.room_bytes = beside(turn_peak);
  turn.first_room_bytes =
      beside(trace.ops.empty() ? 0 : trace.ops.front().non_model_peak_bytes);
  return turn;
}

// a x + b y = c.
struct Line {
  double a = 0, b = 0, c = 0;
};

// Returns the time that updates take on the host if the device holds as many
// bytes of optimizer states as no moment needs, those that take the host
// longest for their bytes first, and parts of chunks.
int64_t LeastHostUpdateNs(const PlanRequest& request) {
  const StepTrace& trace = *request.trace;
  const std::vector<Side> host(trace.chunks.size(), Side::kHost);
  double room = static_cast<double>(request.device_budget_bytes -
                                    PeakNeededDeviceBytes(request, host));
  struct Update {
    double ns = 0;
    double bytes = 0;
  };
  std::vector<Update> updates;
  double left_ns = 0;
  for (const OpRecord& op : trace.ops) {
    if (op.kind != OpKind::kUpdate) continue;
    Update update = {.ns = static_cast<double>(op.host_duration_ns)};
    for (const ChunkUse& use : op.chunks) {
      update.bytes +=
          static_cast<double>(trace.chunks[use.chunk.value].optimizer_bytes);
    }
    left_ns += update.ns;
    updates.push_back(update);
  }
  std::sort(updates.begin(), updates.end(),
            [](const Update& a, const Update& b) {
              return a.ns * b.bytes > b.ns * a.bytes;
            });
  for (const Update& update : updates) {
    const double part =
        update.bytes > 0 ? std::clamp(room / update.bytes, 0.0, 1.0) : 1;
    left_ns -= part * update.ns;
    room -= part * update.bytes;
  }
  return static_cast<int64_t>(left_ns);
}

}  // namespace

TrafficBound OneMicroBatchBound(const PlanRequest& request) {
  TrafficBound bound;
  if (!request.trace->training) return bound;
  const Turn turn = FindTurn(request);
  bound.h2d_bytes = static_cast<int64_t>(
      turn.payload_bytes + std::max(0.0, turn.payload_bytes - turn.room_bytes));
  bound.d2h_bytes = static_cast<int64_t>(turn.payload_bytes);
  return bound;
}

TrafficBound AccumulationBound(const PlanRequest& request, double sum_ratio) {
  const Turn turn = FindTurn(request);
  const double p = turn.payload_bytes;
  if (!request.trace->training || p == 0) return {};
  const double times = static_cast<double>(request.trace->micro_batches);
  const double r = turn.optimizer_bytes / p;
  const double rooms[] = {turn.room_bytes, turn.first_room_bytes};
  // Both sides are convex and piecewise linear, so the least is where two of
  // these lines meet, along which they bend or end.
  std::vector<Line> lines = {{1, 0, 0}, {0, 1, 0}, {1, 1, p}};
  for (const double room : rooms) {
    lines.push_back({r, 0, room - p});
    lines.push_back({r, sum_ratio, room - p});
    lines.push_back({r, sum_ratio, room});
  }
  TrafficBound least;
  double least_bytes = std::numeric_limits<double>::infinity();
  for (const Line& one : lines) {
    for (const Line& other : lines) {
      const double det = one.a * other.b - other.a * one.b;
      if (det == 0) continue;
      const double x = (one.c * other.b - other.c * one.b) / det;
      const double y = (one.a * other.c - other.a * one.c) / det;
      const double held = r * x + sum_ratio * y;
      const double slack = 1e-9 * p;
      if (x < -slack || y < -slack || x + y > p + slack ||
          held > std::min(rooms[0], rooms[1]) + slack) {
        continue;
      }
      double h2d = p - x + std::max(0.0, p + r * x - rooms[0]);
      for (const double room : rooms) {
        h2d += (times - 1) * std::max(0.0, p + held - room);
      }
      const double d2h = times * (p - x - y) + std::min(times, sum_ratio) * y;
      if (h2d + d2h >= least_bytes) continue;
      least_bytes = h2d + d2h;
      least = {static_cast<int64_t>(h2d), static_cast<int64_t>(d2h)};
    }
  }
  return least;
}

int64_t LeastStepNs(const PlanRequest& request, double sum_ratio,
                    int64_t compute_ns) {
  const StepTrace& trace = *request.trace;
  if (!trace.training) return 0;
  const auto least =
      static_cast<double>(std::max(compute_ns, LeastHostUpdateNs(request)));
  if (request.world_size == 1) {
    const TrafficBound bound = AccumulationBound(request, sum_ratio);
    const double bytes_per_s =
        request.bus.h2d_bytes_per_s + request.bus.d2h_bytes_per_s;
    const auto bytes = static_cast<double>(bound.h2d_bytes + bound.d2h_bytes);
    return static_cast<int64_t>(std::max(least, 1e9 * bytes / bytes_per_s));
  }
  double received = 0;
  for (const ChunkInfo& chunk : trace.chunks) {
    if (chunk.optimizer_bytes == 0) continue;
    received +=
        2 * static_cast<double>(chunk.payload_bytes - chunk.home_bytes());
  }
  return static_cast<int64_t>(
      std::max(least, 1e9 * received / request.bus.network_bytes_per_s));
}

int64_t LeastFetchedBytes(const PlanRequest& request,
                          const std::vector<Side>& side) {
  const StepTrace& trace = *request.trace;
  // A gradient block takes no room here: no payload need leave for a reduce
  // that may have one.
  const UseIndex index(trace, side, PossibleGradientBlocks(trace, side));
  const int64_t moments = index.moments();
  std::vector<int64_t> free_bytes = NeededDeviceBytes(request, side);
  for (int64_t t = 0; t < moments; ++t) {
    free_bytes[t] = request.device_budget_bytes - free_bytes[t];
    // The chunks that an operator uses take their exact bytes here, like all
    // else.
    if (!RunsOnDevice(trace.ops[t], side)) continue;
    for (const ChunkUse& use : trace.ops[t].chunks) {
      const ChunkInfo& chunk = trace.chunks[use.chunk.value];
      free_bytes[t] += PayloadBlock(chunk) - chunk.payload_bytes;
    }
  }

  int64_t forced = 0;
  bool crosses = false;
  std::vector<std::vector<int64_t>> starting(moments + 1);
  for (size_t g = 0; g < index.gaps().size(); ++g) {
    const Gap& gap = index.gaps()[g];
    if (gap.makes) continue;
    if (gap.forced()) {
      forced += trace.chunks[gap.chunk].payload_bytes;
    } else {
      starting[gap.from + 1].push_back(static_cast<int64_t>(g));
      crosses |= gap.to > moments;
    }
  }

  const int64_t steps = crosses ? kStepsInRow : 1;
  std::priority_queue<Stay> stays;
  std::vector<int64_t> ending(steps * moments + 1, 0);  // bytes, by moment
  int64_t bytes = 0;
  int64_t left = 0;  // taken out
  for (int64_t row = 0; row < steps * moments; ++row) {
    bytes -= ending[row];
    const auto start = [&](int64_t g, int64_t lap) {
      const Gap& gap = index.gaps()[g];
      const int64_t to = gap.to + lap * moments;
      if (to > steps * moments) return;  // reaches out of the row
      const int64_t payload = trace.chunks[gap.chunk].payload_bytes;
      stays.push({to, g, payload});
      ending[to] += payload;
      bytes += payload;
    };
    const int64_t t = row % moments;
    const int64_t lap = row / moments;
    for (const int64_t g : starting[t]) start(g, lap);
    if (t == 0 && lap > 0) {
      for (const int64_t g : starting[moments]) start(g, lap - 1);
    }
    while (bytes > free_bytes[t]) {
      Stay last = stays.top();
      stays.pop();
      const int64_t out = std::min(last.bytes, bytes - free_bytes[t]);
      bytes -= out;
      ending[last.to] -= out;
      left += out;
      last.bytes -= out;
      if (last.bytes > 0) stays.push(last);
    }
  }
  // The count is in payloads so far; a fetch takes one shard over the bus.
  return (forced + left / steps) / request.world_size;
}

}  // namespace castor
