#include "research/protrain_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memory/plan/blocks/block_uses.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/check/plan_checker.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

constexpr int64_t kUnit = 1024;

// "s" is swapped, "r" recomputed, "." kept.
std::string Picture(const BlockUses& uses) {
  std::string picture;
  for (const BlockUse use : uses) picture += ".sr"[static_cast<int>(use)];
  return picture;
}

TEST(ProTrainBlocks, SwapsTheFirstAndKeepsTheLast) {
  EXPECT_EQ(Picture(SpreadBlocks(8, 2, 3)), "ssr.r.r.");
  EXPECT_EQ(Picture(AlternatingBlocks(8, 2, 3)), "srrsr...");
  for (const auto& arrange : {SpreadBlocks, AlternatingBlocks}) {
    EXPECT_EQ(Picture(arrange(4, 0, 4)), "rrrr");
    EXPECT_EQ(Picture(arrange(4, 4, 0)), "ssss");
    EXPECT_EQ(Picture(arrange(4, 1, 0)), "s...");
    EXPECT_EQ(Picture(arrange(4, 0, 1)), "r...");
  }
}

TEST(ProTrainBlocks, HaveTheNumbersThatTheyAreAskedFor) {
  for (int64_t blocks = 0; blocks <= 9; ++blocks) {
    for (int64_t swapped = 0; swapped <= blocks; ++swapped) {
      for (int64_t recomputed = 0; swapped + recomputed <= blocks;
           ++recomputed) {
        for (const auto& arrange : {SpreadBlocks, AlternatingBlocks}) {
          const BlockUses uses = arrange(blocks, swapped, recomputed);
          const auto count = [&](BlockUse use) {
            return std::count(uses.begin(), uses.end(), use);
          };
          EXPECT_EQ(count(BlockUse::kOffloaded), swapped);
          EXPECT_EQ(count(BlockUse::kRemade), recomputed);
          EXPECT_EQ(static_cast<int64_t>(uses.size()), blocks);
        }
      }
    }
  }
}

// Blocks of a chunk of a unit and an operator each, none of which is kept: its
// input has a unit, the tensors that it keeps beside that two.
StepTrace Chain(int64_t blocks, int64_t operator_ns) {
  TraceBuilder builder;
  for (int64_t k = 0; k < blocks; ++k) builder.Chunk(kUnit, 3 * kUnit);
  for (int64_t k = 0; k < blocks; ++k) {
    builder.Read({k}, (k + 4) * kUnit, operator_ns);
  }
  std::vector<BlockRecord> records;
  for (int64_t k = 0; k < blocks; ++k) {
    records.push_back({.block = k,
                       .forward = Moment(k),
                       .backward = Moment(blocks + 3 * (blocks - 1 - k)),
                       .kept_bytes = 2 * kUnit,
                       .kept_peak_bytes = {0},
                       .remake_bytes = kUnit,
                       .offload_pieces = 1,
                       .offload_bytes = 2 * kUnit});
  }
  for (int64_t k = blocks - 1; k >= 0; --k) {
    builder.Read({k}, (k + 5) * kUnit, operator_ns);
    builder.Write({k}, (k + 5) * kUnit, 2 * operator_ns);
    builder.Reduce(k, 10, 10);
  }
  for (int64_t k = 0; k < blocks; ++k) builder.Update(k, 10, 10);
  StepTrace trace = builder.Build();
  for (OpRecord& op : trace.ops) {
    // Backward's first is the forward's once more.
    if (op.kind == OpKind::kCompute && &op - trace.ops.data() >= blocks) {
      op.phase = Phase::kBackward;
    }
  }
  trace.blocks = std::move(records);
  return WithKeptBlocks(trace, KeptBlocks());
}

BlockChoice Chosen(const StepTrace& trace, const PlanRequest& request) {
  const PlanRequestFor request_for = [&](const StepTrace& asked_for) {
    PlanRequest asked = request;
    asked.trace = &asked_for;
    return asked;
  };
  BlockChoice choice =
      std::get<BlockChoice>(ChooseProTrainBlocks(trace, request_for));
  EXPECT_EQ(choice.plan.instead_of_unproven, "");
  EXPECT_TRUE(CheckPlan(choice.plan, request_for(choice.trace)).ok());
  return choice;
}

TEST(ProTrainBlocks, KeepsAllWhereThereIsRoomAndRecomputesWhereThereIsNone) {
  const StepTrace trace = Chain(4, 5 * kUnit);
  PlanRequest request = RequestFor(trace);
  EXPECT_EQ(Chosen(trace, request).kept, KeptBlocks(4, true));
  // Copies take far longer than the time that they would spare.
  request.bus = {1e6, 1e6, 0};
  request.device_budget_bytes =
      SmallestDeviceBudget(FindPolicy("auto"), request);
  const BlockChoice choice = Chosen(trace, request);
  EXPECT_EQ(CountBlocks(choice.trace).offloaded, 0);
  EXPECT_LT(CountBlocks(choice.trace).kept, 4);
}

TEST(ProTrainBlocks, SwapsWhereCopiesHideBehindOperators) {
  const StepTrace trace = Chain(6, 20 * kUnit);
  PlanRequest request = RequestFor(trace);
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  request.device_budget_bytes = least + 2 * kUnit;
  const BlockChoice choice = Chosen(trace, request);
  EXPECT_GT(CountBlocks(choice.trace).offloaded, 0);
  int64_t copies = 0;
  for (const std::vector<Action>& actions : choice.plan.actions) {
    for (const Action& action : actions) {
      copies += RowOf(action.kind).direction() == CopyDirection::kToHost &&
                choice.trace.chunks[action.chunk.value].holds_activations();
    }
  }
  EXPECT_EQ(copies, CountBlocks(choice.trace).offloaded);
}

}  // namespace
}  // namespace castor
