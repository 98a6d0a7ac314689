#include "memory/plan/addresses/addresses.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "memory/plan/addresses/packing.h"
#include "memory/plan/check/address_checker.h"
#include "memory/plan/simulate/step_blocks.h"

namespace castor {
namespace {

// Finds the lifetimes of a step's blocks. Time is counted in blocks made.
class Lifetimes {
 public:
  Lifetimes(const Plan& plan, const StepTrace& trace, const PlanCost& cost)
      : step_(BlocksOfStep(plan, trace)), step_ns_(cost.step_ns) {
    const std::vector<StepBlock>& blocks = step_.blocks;
    for (const StepBlock& block : blocks) {
      blocks_.push_back({.begin = 0,
                         .end = 0,
                         .bytes = block.bytes,
                         .from = IsFromHighEnd(block.kind) ? PackFrom::kHigh
                                                           : PackFrom::kLow});
      over_ns_.push_back(block.freed_by >= 0 ? cost.action_ns[block.freed_by]
                                             : 0);
    }
    for (const BlockEvent& event : step_.events) {
      if (!event.makes) {
        blocks_[event.block].end = time_;
        continue;
      }
      const StepBlock& block = blocks[event.block];
      blocks_[event.block].begin = time_++;
      made_ns_.push_back(block.made_by >= 0
                             ? cost.action_ns[block.made_by]
                             : cost.op_start_ns[block.moment.value]);
    }
    // A block that lives at the end of the step is the initial block of its
    // chunk in the next one: both are packed as one.
    for (int64_t i = 0; i < step_.num_initial; ++i) {
      const int64_t last = blocks[i].at_end;
      if (last == i) {
        blocks_[i].end = time_;  // all of the step
      } else {
        blocks_[last].end = blocks_[i].end;
        over_ns_[last] = over_ns_[i] + step_ns_;
      }
    }
    FindWaits();
  }

  // Returns the blocks to pack. A block that was made in the step and lives
  // around its end appears once, in place of the initial one. Blocks that
  // actions free keep their place until no other block would wait for them, for
  // at most `most_waits` times.
  std::vector<PackedBlock> ToPack(int64_t most_waits) const {
    std::vector<PackedBlock> blocks;
    for (int64_t i = 0; i < Size(); ++i) {
      if (Alias(i)) continue;
      PackedBlock& block = blocks.emplace_back(blocks_[i]);
      const int64_t waits = std::min(waits_[i], most_waits);
      if (waits == 0) continue;
      int64_t times = block.end - block.begin;
      if (times <= 0) times += length();
      block.end = block.begin + std::min(length(), times + waits);
      if (block.end > length()) block.end -= length();
    }
    return blocks;
  }
  // At least one, so that blocks that live all step long have a lifetime.
  int64_t length() const { return std::max<int64_t>(1, time_); }
  int64_t most_waits() const {
    return waits_.empty() ? 0 : *std::max_element(waits_.begin(), waits_.end());
  }

  Addresses Write(const std::vector<int64_t>& offsets, int64_t begin) const {
    std::vector<int64_t> at(Size());
    size_t next = 0;
    for (int64_t i = 0; i < Size(); ++i) {
      if (!Alias(i)) at[i] = begin + offsets[next++];
    }
    Addresses addresses;
    addresses.begin = begin;
    for (int64_t i = 0; i < Size(); ++i) {
      switch (step_.blocks[i].kind) {
        case BlockKind::kInitial:
          addresses.initial.push_back(at[step_.blocks[i].at_end]);
          break;
        case BlockKind::kOfAction:
        case BlockKind::kPiece:
          addresses.actions.push_back(at[i]);
          break;
        case BlockKind::kNonModel:
          addresses.non_model.push_back({at[i], blocks_[i].bytes});
          break;
      }
    }
    return addresses;
  }

 private:
  int64_t Size() const { return static_cast<int64_t>(blocks_.size()); }
  bool Alias(int64_t i) const {
    return i < step_.num_initial && step_.blocks[i].at_end != i;
  }

  // Finds for each block that an action frees for how many times after that
  // another block in its place would wait.
  void FindWaits() {
    // Indexed by time, in this step and the next: the earliest write from then
    // on.
    std::vector<int64_t> earliest_ns(2 * time_);
    int64_t earliest = std::numeric_limits<int64_t>::max();
    for (int64_t k = 2 * time_; k-- > 0;) {
      earliest = std::min(
          earliest, k < time_ ? made_ns_[k] : made_ns_[k - time_] + step_ns_);
      earliest_ns[k] = earliest;
    }
    waits_.resize(Size());
    for (int64_t i = 0; i < Size(); ++i) {
      const PackedBlock& block = blocks_[i];
      if (over_ns_[i] == 0) continue;  // operators free it
      const int64_t end =
          block.end <= block.begin ? block.end + time_ : block.end;
      const auto first = earliest_ns.begin() + end;
      waits_[i] =
          std::lower_bound(first, earliest_ns.end(), over_ns_[i]) - first;
    }
  }

  const StepBlocks step_;
  const int64_t step_ns_;
  std::vector<PackedBlock> blocks_;  // as in step_.blocks
  int64_t time_ = 0;
  std::vector<int64_t> made_ns_;  // by time: when that block may be written
  // Indexed by block: when all use of a block that an action frees is over; 0
  // for other blocks.
  std::vector<int64_t> over_ns_;
  std::vector<int64_t> waits_;  // by block
};

}  // namespace

std::optional<Addresses> FindAddresses(const Plan& plan,
                                       const PlanRequest& request,
                                       const PlanCost& cost) {
  const StepTrace& trace = *request.trace;
  if (!trace.training || !SaysWhenTensorsLive(trace)) return std::nullopt;
  size_t actions = 0;
  for (const std::vector<Action>& at : plan.actions) actions += at.size();
  CASTOR_CHECK(cost.action_ns.size() == actions);
  const int64_t begin = RoundUp(StayingBytes(plan, request), kBlockAlignment);
  const Lifetimes lifetimes(plan, trace, cost);
  const int64_t budget =
      request.device_budget_bytes / kBlockAlignment * kBlockAlignment;
  int64_t most_waits = lifetimes.most_waits();
  while (true) {
    const std::vector<PackedBlock> blocks = lifetimes.ToPack(most_waits);
    // Without a budget the two ends are far enough apart for all blocks.
    int64_t all = 0;
    for (const PackedBlock& block : blocks) all += block.bytes;
    const int64_t size = static_cast<int64_t>(blocks.size());
    constexpr int64_t kLeastEffort = 20'000, kTries = 2;
    const auto offsets =
        Pack(blocks, lifetimes.length(), std::min(all, budget - begin),
             most_waits > 0 ? size : std::max(kLeastEffort, kTries * size));
    if (offsets.has_value()) return lifetimes.Write(*offsets, begin);
    if (most_waits == 0) return std::nullopt;
    most_waits /= 16;
  }
}

void PlanAddresses(const PlanRequest& request, const PlanCost& cost,
                   Plan* plan) {
  plan->addresses = FindAddresses(*plan, request, cost);
  if (!plan->addresses.has_value()) return;
  // Without a proof the plan is as good as it was, with first fit.
  if (!CheckAddresses(*plan, request).ok()) plan->addresses.reset();
}

Plan WithAddresses(Plan plan, const PlanRequest& request,
                   const Foresee& foresee, const PlanMistake& mistake) {
  const PlanCost cost = foresee(plan);
  PlanAddresses(request, cost, &plan);
  if (plan.addresses.has_value() || !request.trace->training ||
      !SaysWhenTensorsLive(*request.trace)) {
    return plan;
  }
  // Planning again takes too long for a step of many operators.
  constexpr int64_t kMostOperators = 20'000;  // in all tries
  int64_t operators_left = kMostOperators;
  constexpr double kMostLoss = 0.02;
  const int64_t smallest = SmallestDeviceBudget(plan.policy, request);
  const int64_t budget = request.device_budget_bytes;
  for (const int64_t part : {64, 32, 16}) {
    PlanRequest less = request;
    less.device_budget_bytes = budget - budget / part;
    operators_left -= static_cast<int64_t>(request.trace->ops.size());
    if (less.device_budget_bytes < smallest || operators_left < 0) break;
    // With fixed sides few plans are made, so planning again is fast.
    less.fixed_side = plan.side;
    PlanOrRefusal made = MakePlan(plan.policy, less, mistake);
    if (std::holds_alternative<Refusal>(made)) {
      less.fixed_side = request.fixed_side;
      made = MakePlan(plan.policy, less, mistake);
    }
    Plan* const other = std::get_if<Plan>(&made);
    if (other == nullptr || !other->instead_of_unproven.empty()) break;
    const PlanCost other_cost = foresee(*other);
    if (static_cast<double>(other_cost.step_ns) >
        (1 + kMostLoss) * static_cast<double>(cost.step_ns)) {
      continue;
    }
    PlanAddresses(request, other_cost, other);
    if (other->addresses.has_value()) return std::move(*other);
  }
  return plan;
}

}  // namespace castor
