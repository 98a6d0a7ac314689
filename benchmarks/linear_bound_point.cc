// Makes a plan's choices a point of its step's program.
#include <algorithm>

#include "benchmarks/linear_bound.h"

namespace castor {

std::vector<double> LinearBound::PointOf(const Plan& plan, const PlanCost& cost,
                                         double value) const {
  std::vector<double> point(program_.variables.size(), 0);
  point[0] = value;
  const int64_t chunks = static_cast<int64_t>(plan.side.size());
  const int64_t moments = static_cast<int64_t>(request_.trace->ops.size());
  std::vector<std::vector<int64_t>> fetches(chunks), blocks(chunks);
  std::vector<bool> summed(chunks, false);
  for (int64_t t = 0; t <= moments; ++t) {
    for (const Action& action : plan.actions[t]) {
      const int64_t c = action.chunk.value;
      if (action.kind == ActionKind::kFetch) {
        fetches[c].push_back(t);
        fetches[c].push_back(t + moments);
      } else if (action.kind == ActionKind::kMakeGradients) {
        blocks[c].push_back(t);
      } else if (action.kind == ActionKind::kMakeSum) {
        summed[c] = true;
      }
    }
  }
  for (int64_t c = 0; c < chunks; ++c) {
    if (on_device_[c] >= 0)
      point[on_device_[c]] = plan.side[c] == Side::kDevice;
    if (summed_[c] >= 0) point[summed_[c]] = summed[c];
  }
  for (const Stay& stay : stays_) {
    if (plan.side[stay.chunk] != stay.side) continue;
    point[stay.variable] =
        std::none_of(fetches[stay.chunk].begin(), fetches[stay.chunk].end(),
                     [&](int64_t t) { return t > stay.from && t <= stay.to; });
  }
  for (const Block& block : blocks_) {
    if (summed[block.chunk] || plan.side[block.chunk] != block.side) continue;
    point[block.variable] =
        std::count(blocks[block.chunk].begin(), blocks[block.chunk].end(),
                   block.from) > 0;
  }
  for (const CopyBack& copy : copies_back_) {
    if (plan.side[copy.chunk] != Side::kDevice) continue;
    for (const int64_t stay : copy.stays) {
      if (point[stay] == 0) point[copy.variable] = 1;
    }
  }
  SetMore(plan, cost, &point);
  for (const Held& held : held_) {
    point[held.variable] = held.always;
    if (held.before >= 0) point[held.variable] += point[held.before];
    for (const auto& [variable, mib] : held.changes) {
      point[held.variable] += mib * point[variable];
    }
  }
  return point;
}

}  // namespace castor
