#include "memory/plan/policy/schedules.h"

#include <algorithm>

#include "memory/plan/residency/room.h"

namespace castor {

std::vector<Side> AdmittedSides(const PlanRequest& request,
                                const Admission& admission) {
  return request.fixed_side.empty()
             ? SidesOf(*request.trace, admission.order, admission.fewest)
             : request.fixed_side;
}

std::vector<Side> SidesWithin(const StepTrace& trace,
                              const std::vector<int64_t>& order, int64_t fewest,
                              double bytes) {
  std::vector<Side> side = SidesOf(trace, order, fewest);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto block =
        static_cast<double>(OptimizerBlock(trace.chunks[order[i]]));
    if (static_cast<int64_t>(i) >= fewest) {
      if (block > bytes) continue;
      side[order[i]] = Side::kDevice;
    }
    bytes -= block;
  }
  return side;
}

std::vector<int64_t> FreeBesideNeeds(const PlanRequest& request,
                                     const std::vector<Side>& side) {
  std::vector<int64_t> free_bytes = NeededDeviceBytes(request, side);
  for (int64_t& bytes : free_bytes) {
    bytes = request.device_budget_bytes - bytes;
  }
  return free_bytes;
}

std::vector<GradientBlock> GradientBlocksThatFit(
    Room room, const std::vector<GradientBlock>& blocks) {
  std::vector<size_t> order(blocks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto length = [&](size_t i) { return blocks[i].drop - blocks[i].from; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return length(a) < length(b); });
  std::vector<bool> fits(blocks.size(), false);
  for (const size_t i : order) {
    const GradientBlock& block = blocks[i];
    fits[i] = room.Min(block.from, block.drop) >= block.bytes;
    if (fits[i]) room.Take(block.from, block.drop, block.bytes);
  }
  std::vector<GradientBlock> fitting;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (fits[i]) fitting.push_back(blocks[i]);
  }
  return fitting;
}

namespace {

// Takes the room that a device sum costs, or gives it back if `sign` is -1.
void Take(const StepTrace& trace, const PossibleSum& possible, int sign,
          Room& room) {
  const DeviceSum& sum = possible.sum;
  const int64_t payload = PayloadBlock(trace.chunks[sum.chunk]);
  room.Take(sum.from, sum.drop, sign * sum.bytes);
  room.Take(sum.reduce, sum.reduce + 1, sign * payload);
  for (const GradientBlock& block : possible.blocks) {
    room.Take(block.from, block.drop, sign * block.bytes);
  }
}

}  // namespace

void TakeDeviceSum(const StepTrace& trace, const PossibleSum& possible,
                   Room& room) {
  Take(trace, possible, 1, room);
}

std::vector<PossibleSum> DeviceSumsThatFit(const PlanRequest& request,
                                           const std::vector<Side>& side,
                                           const std::vector<PossibleSum>& sums,
                                           double most_bytes) {
  Room room(FreeBesideNeeds(request, side));
  std::vector<PossibleSum> fitting;
  for (const PossibleSum& possible : sums) {
    const DeviceSum& sum = possible.sum;
    if (static_cast<double>(sum.bytes) > most_bytes) continue;
    TakeDeviceSum(*request.trace, possible, room);
    if (room.Min(possible.blocks.front().from, sum.drop) < 0) {
      Take(*request.trace, possible, -1, room);
      continue;
    }
    most_bytes -= static_cast<double>(sum.bytes);
    fitting.push_back(possible);
  }
  return fitting;
}

}  // namespace castor
