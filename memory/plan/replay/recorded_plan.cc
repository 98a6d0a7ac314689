#include "memory/plan/replay/recorded_plan.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "memory/plan/addresses/expected_moves.h"
#include "memory/plan/bounds/lower_bound.h"
#include "memory/plan/policy/policies.h"

namespace castor {
namespace {

std::vector<Side> RecordedSides(const PlanRecord& record, int64_t chunks) {
  std::vector<Side> side(chunks, Side::kHost);
  for (const ChunkId chunk : record.device_side) {
    if (chunk.value >= 0 && chunk.value < chunks) {
      side[chunk.value] = Side::kDevice;
    }
  }
  return side;
}

absl::Status CheckIn(int64_t value, int64_t end, absl::string_view what) {
  if (value >= 0 && value < end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("plan record: ", what, " ", value, " of ", end));
}

}  // namespace

PlanRecord RecordRequest(const PlacementPolicy* policy,
                         const PlanRequest& request, int64_t trace_index) {
  PlanRecord record;
  record.trace = trace_index;
  record.policy = std::string(policy->name);
  record.refused = true;
  record.device_budget_bytes = request.device_budget_bytes;
  record.host_budget_bytes = request.host_budget_bytes;
  record.device_reserved_bytes = request.device_reserved_bytes;
  record.host_reserved_bytes = request.host_reserved_bytes;
  record.h2d_bytes_per_s = request.bus.h2d_bytes_per_s;
  record.d2h_bytes_per_s = request.bus.d2h_bytes_per_s;
  record.latency_ns = request.bus.latency_ns;
  record.prefetch = request.prefetch;
  record.gpu_margin_mem_ratio = request.gpu_margin_mem_ratio;
  record.fixed_sides = !request.fixed_side.empty();
  record.world_size = request.world_size;
  if (request.world_size > 1) {
    record.network_bytes_per_s = request.bus.network_bytes_per_s;
  }
  record.speculation_host_bytes = request.speculation.host_bytes;
  record.speculation_miss_rate = request.speculation.miss_rate;
  for (size_t c = 0; c < request.fixed_side.size(); ++c) {
    if (request.fixed_side[c] == Side::kDevice) {
      record.device_side.push_back(ChunkId(static_cast<int64_t>(c)));
    }
  }
  return record;
}

PlanRecord RecordPlan(const Plan& plan, const PlanRequest& request,
                      const PlanCost& cost, int64_t trace_index, bool warmup) {
  PlanRecord record = RecordRequest(plan.policy, request, trace_index);
  record.refused = false;
  record.warmup = warmup;
  record.predicted = {.step_ns = cost.step_ns,
                      .stall_ns = cost.stall_ns,
                      .h2d_bytes = cost.h2d_bytes,
                      .d2h_bytes = cost.d2h_bytes,
                      .device_peak_bytes = cost.device_peak_bytes,
                      .host_bytes = cost.host_bytes,
                      .least_h2d_bytes = LeastFetchedBytes(request, plan.side),
                      .op_start_ns = cost.op_start_ns,
                      .device_bytes = cost.device_bytes};
  if (request.trace->training) {
    record.planned_addresses = plan.addresses.has_value();
    const std::optional<ExpectedMoves> moves = plan.addresses.has_value()
                                                   ? ExpectedMoves()
                                                   : ExpectMoves(plan, request);
    if (moves.has_value()) {
      record.predicted.moves = moves->times;
      record.predicted.moved_bytes = moves->bytes;
    }
  }
  record.device_side.clear();
  for (size_t c = 0; c < plan.side.size(); ++c) {
    if (plan.side[c] == Side::kDevice) {
      record.device_side.push_back(ChunkId(static_cast<int64_t>(c)));
    }
  }
  for (const ResidentChunk& resident : plan.initial) {
    record.initial.push_back(resident.chunk);
    if (resident.dirty) record.initial_dirty.push_back(resident.chunk);
  }
  for (size_t t = 0; t < plan.actions.size(); ++t) {
    for (const Action& action : plan.actions[t]) {
      record.actions.push_back({.moment = Moment(static_cast<int64_t>(t)),
                                .kind = action.kind,
                                .chunk = action.chunk,
                                .because = action.because});
    }
  }
  return record;
}

PlanRequest RequestOf(const PlanRecord& record, const StepTrace* trace) {
  PlanRequest request{.trace = trace,
                      .device_budget_bytes = record.device_budget_bytes,
                      .host_budget_bytes = record.host_budget_bytes,
                      .device_reserved_bytes = record.device_reserved_bytes,
                      .host_reserved_bytes = record.host_reserved_bytes,
                      .bus = {.h2d_bytes_per_s = record.h2d_bytes_per_s,
                              .d2h_bytes_per_s = record.d2h_bytes_per_s,
                              .latency_ns = record.latency_ns},
                      .prefetch = record.prefetch,
                      .gpu_margin_mem_ratio = record.gpu_margin_mem_ratio,
                      .world_size = static_cast<int>(record.world_size)};
  if (record.world_size > 1) {
    request.bus.network_bytes_per_s = record.network_bytes_per_s;
  }
  request.speculation.host_bytes = record.speculation_host_bytes;
  request.speculation.miss_rate = record.speculation_miss_rate;
  if (record.fixed_sides) {
    request.fixed_side =
        RecordedSides(record, static_cast<int64_t>(trace->chunks.size()));
  }
  return request;
}

absl::StatusOr<Plan> PlanOf(const PlanRecord& record, const StepTrace& trace) {
  const int64_t chunks = static_cast<int64_t>(trace.chunks.size());
  const int64_t moments = static_cast<int64_t>(trace.ops.size());
  Plan plan;
  CASTOR_ASSIGN_OR_RETURN(plan.policy, PolicyNamed(record.policy));
  plan.signature = trace.signature;
  for (const ChunkId chunk : record.device_side) {
    CASTOR_RETURN_IF_ERROR(CheckIn(chunk.value, chunks, "chunk"));
  }
  plan.side = RecordedSides(record, chunks);
  std::vector<bool> dirty(chunks, false);
  for (const ChunkId chunk : record.initial_dirty) {
    CASTOR_RETURN_IF_ERROR(CheckIn(chunk.value, chunks, "chunk"));
    dirty[chunk.value] = true;
  }
  for (const ChunkId chunk : record.initial) {
    CASTOR_RETURN_IF_ERROR(CheckIn(chunk.value, chunks, "chunk"));
    plan.initial.push_back({chunk, dirty[chunk.value]});
  }
  plan.actions.resize(moments + 1);
  for (const ActionRecord& action : record.actions) {
    CASTOR_RETURN_IF_ERROR(CheckIn(action.moment.value, moments + 1, "moment"));
    CASTOR_RETURN_IF_ERROR(CheckIn(action.chunk.value, chunks, "chunk"));
    plan.actions[action.moment.value].push_back(
        {action.kind, action.chunk, action.because});
  }
  return plan;
}

}  // namespace castor
