#include "memory/plan/bounds/admission.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

int64_t OptimizerBytes(const StepTrace& trace, const std::vector<Side>& side) {
  int64_t bytes = 0;
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    if (side[c] == Side::kDevice) bytes += OptimizerBlock(trace.chunks[c]);
  }
  return bytes;
}

// Returns the least number in [low, high] for which `holds` is true, which must
// then be true for all above it; high if it is true for none below.
template <typename Predicate>
int64_t LeastThat(int64_t low, int64_t high, Predicate holds) {
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Returns the bytes of reserved memory, device-side optimizer states and pinned
// payloads.
int64_t AlwaysDeviceBytes(const PlanRequest& request,
                          const std::vector<Side>& side) {
  const StepTrace& trace = *request.trace;
  int64_t bytes = request.device_reserved_bytes + OptimizerBytes(trace, side);
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    if (IsPinned(trace, side, c)) bytes += PayloadBlock(trace.chunks[c]);
  }
  return bytes;
}

// Returns the bytes with everything resident at every moment. One entry more
// than there are moments, for a step without any.
std::vector<int64_t> WholeModelDeviceBytes(const PlanRequest& request,
                                           const std::vector<Side>& side) {
  const StepTrace& trace = *request.trace;
  int64_t model = request.device_reserved_bytes + OptimizerBytes(trace, side);
  for (const ChunkInfo& chunk : trace.chunks) model += PayloadBlock(chunk);
  std::vector<int64_t> needed;
  for (const OpRecord& op : trace.ops) {
    needed.push_back(model + op.non_model_peak_bytes);
  }
  needed.push_back(model);
  return needed;
}

// Returns the least budget for which `share` of its part beyond `floor` is at
// least `bytes`.
int64_t BudgetForShare(int64_t floor, int64_t bytes, double share) {
  if (bytes == 0) return 0;
  if (share <= 0) return kUnlimitedBytes;
  const double beyond = std::ceil(static_cast<double>(bytes) / share);
  return beyond >= static_cast<double>(kUnlimitedBytes - floor)
             ? kUnlimitedBytes
             : floor + static_cast<int64_t>(beyond);
}

Refusal WorstMoment(const PlanRequest& request,
                    const std::vector<int64_t>& needed) {
  Refusal refusal;
  refusal.tier = "device";
  if (needed.empty()) return refusal;
  const int64_t worst =
      std::max_element(needed.begin(), needed.end()) - needed.begin();
  if (request.trace->ops.empty()) {
    refusal.resident_bytes = needed[worst];
    return refusal;
  }
  const OpRecord& op = request.trace->ops[worst];
  refusal.op = op.name;
  refusal.moment = Moment(worst);
  refusal.peak_bytes = op.non_model_peak_bytes;
  refusal.resident_bytes = needed[worst] - op.non_model_peak_bytes;
  return refusal;
}

}  // namespace

std::vector<int64_t> NeededDeviceBytes(const PlanRequest& request,
                                       const std::vector<Side>& side) {
  const StepTrace& trace = *request.trace;
  const int64_t always = AlwaysDeviceBytes(request, side);
  std::vector<int64_t> needed;
  needed.reserve(trace.ops.size());
  for (const OpRecord& op : trace.ops) {
    int64_t bytes = always + op.non_model_peak_bytes;
    if (RunsOnDevice(op, side)) {
      for (const ChunkUse& use : op.chunks) {
        if (IsPinned(trace, side, use.chunk.value)) continue;
        bytes += PayloadBlock(trace.chunks[use.chunk.value]);
      }
    }
    needed.push_back(bytes);
  }
  return needed;
}

int64_t PeakNeededDeviceBytes(const PlanRequest& request,
                              const std::vector<Side>& side) {
  int64_t peak = AlwaysDeviceBytes(request, side);
  for (const int64_t bytes : NeededDeviceBytes(request, side)) {
    peak = std::max(peak, bytes);
  }
  return peak;
}

int64_t HostBytes(const PlanRequest& request, const std::vector<Side>& side) {
  int64_t bytes = request.host_reserved_bytes;
  for (size_t c = 0; c < request.trace->chunks.size(); ++c) {
    const ChunkInfo& chunk = request.trace->chunks[c];
    bytes += HomeBlock(chunk);
    if (side[c] == Side::kHost) bytes += OptimizerBlock(chunk);
  }
  return bytes;
}

std::vector<int64_t> DeviceSideOrder(const StepTrace& trace) {
  std::vector<int64_t> order;
  std::vector<bool> seen(trace.chunks.size(), false);
  for (const OpRecord& op : trace.ops) {
    for (const ChunkUse& use : op.chunks) {
      const int64_t c = use.chunk.value;
      if (seen[c]) continue;
      seen[c] = true;
      if (trace.chunks[c].optimizer_bytes > 0) order.push_back(c);
    }
  }
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    if (!seen[c] && trace.chunks[c].optimizer_bytes > 0) order.push_back(c);
  }
  return order;
}

std::vector<Side> SidesOf(const StepTrace& trace,
                          const std::vector<int64_t>& order, int64_t count) {
  std::vector<Side> side(trace.chunks.size(), Side::kHost);
  for (int64_t i = 0; i < count; ++i) side[order[i]] = Side::kDevice;
  return side;
}

Admission Admit(const AdmissionRule& rule, const PlanRequest& request) {
  const StepTrace& trace = *request.trace;
  Admission admission;
  admission.order = DeviceSideOrder(trace);
  const int64_t all = static_cast<int64_t>(admission.order.size());
  const auto sides = [&](int64_t count) {
    return request.fixed_side.empty() ? SidesOf(trace, admission.order, count)
                                      : request.fixed_side;
  };

  // At most `high` may be on the device at all, and at least `low` have to be.
  const bool chooses = rule.sides == SideChoice::kChosen && trace.training &&
                       request.fixed_side.empty();
  int64_t low = rule.sides == SideChoice::kDevice ? all : 0;
  const int64_t high = chooses ? all : low;
  low = LeastThat(low, high, [&](int64_t count) {
    return HostBytes(request, sides(count)) <= request.host_budget_bytes;
  });
  admission.fewest = low;

  const auto needed_with = [&](int64_t count) {
    return rule.keeps_all_payloads
               ? WholeModelDeviceBytes(request, sides(count))
               : NeededDeviceBytes(request, sides(count));
  };
  // The ratio limits the states that a policy puts into bytes that no moment
  // needs.
  const int64_t floor = chooses ? PeakNeededDeviceBytes(request, sides(0)) : 0;
  const auto least_budget = [&](int64_t count) {
    const std::vector<Side> side = sides(count);
    int64_t least = AlwaysDeviceBytes(request, side);
    for (const int64_t bytes : needed_with(count)) {
      least = std::max(least, bytes);
    }
    if (chooses) {
      least = std::max(least, BudgetForShare(floor, OptimizerBytes(trace, side),
                                             request.gpu_margin_mem_ratio));
    }
    return least;
  };

  const bool host_fits =
      HostBytes(request, sides(low)) <= request.host_budget_bytes;
  const int64_t least = least_budget(low);
  admission.smallest_device_budget_bytes = host_fits ? least : kUnlimitedBytes;

  const bool device_fits = least <= request.device_budget_bytes;
  if (host_fits && device_fits) return admission;

  // Blame the host only where the device budget would be large enough with the
  // fewest chunks that the policy could place there.
  const int64_t fewest = chooses ? 0 : low;
  const bool host_is_short =
      least_budget(fewest) <= request.device_budget_bytes;
  Refusal refusal =
      WorstMoment(request, needed_with(host_is_short ? low : fewest));
  if (host_is_short) {
    const int64_t at_most = LeastThat(fewest, high, [&](int64_t count) {
      return least_budget(count + 1) > request.device_budget_bytes;
    });
    refusal.tier = "host";
    refusal.smallest_host_budget_bytes = HostBytes(request, sides(at_most));
    refusal.smallest_device_budget_bytes =
        admission.smallest_device_budget_bytes;
  } else {
    // Where no device budget makes up for the host's, both must grow.
    const bool device_would_do = host_fits && least < kUnlimitedBytes;
    refusal.smallest_device_budget_bytes =
        device_would_do ? least : least_budget(fewest);
    refusal.smallest_host_budget_bytes =
        HostBytes(request, sides(device_would_do ? low : fewest));
  }
  admission.refusal = refusal;
  return admission;
}

std::vector<Side> SafeSides(const AdmissionRule& rule,
                            const PlanRequest& training) {
  const Admission admission = Admit(rule, training);
  return SidesOf(*training.trace, admission.order, admission.fewest);
}

}  // namespace castor
