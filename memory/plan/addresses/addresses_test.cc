#include "memory/plan/addresses/addresses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "memory/plan/addresses/expected_moves.h"
#include "memory/plan/check/address_checker.h"
#include "memory/plan/check/plan_checker.h"
#include "memory/plan/check/trace_check.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

constexpr int64_t kUnit = 256;  // kBlockAlignment

// Gives the trace tensors and workspaces, those of its activations too, and
// peaks that are theirs.
class TensorGiver {
 public:
  TensorGiver(StepTrace* trace, std::mt19937* random)
      : trace_(*trace), random_(*random), live_(trace->ops.size(), 0) {}

  void Give() {
    const int64_t moments = static_cast<int64_t>(trace_.ops.size());
    for (int64_t t = 0; t < moments; ++t) {
      for (int64_t i = Below(3); i > 0; --i) {
        // Some are used soon, some in backward.
        const int64_t last = Below(2) == 0 ? std::min(moments - 1, t + Below(3))
                                           : t + Below(moments - t);
        Add({kUnit * (1 + Below(8)), Moment(t), Moment(last)}, t, last);
      }
      trace_.ops[t].workspace_bytes = kUnit * Below(3);
    }
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      if (trace_.chunks[c].holds_activations()) GiveActivations(c);
    }
    std::stable_sort(trace_.tensors.begin(), trace_.tensors.end(),
                     [](const TensorRecord& a, const TensorRecord& b) {
                       return a.birth < b.birth;
                     });
    for (int64_t t = 0; t < moments; ++t) {
      trace_.ops[t].non_model_peak_bytes =
          live_[t] + trace_.ops[t].workspace_bytes;
    }
  }

 private:
  int64_t Below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }
  // It is among operators' bytes at the moments [birth, until] alone.
  void Add(const TensorRecord& tensor, int64_t birth, int64_t until) {
    trace_.tensors.push_back(tensor);
    for (int64_t t = birth; t <= until; ++t) live_[t] += tensor.bytes;
  }

  // The tensors are the same in each life of the chunk: operators make them
  // before it begins, and they are freed after backward has come to it, at
  // times by operators before that.
  void GiveActivations(size_t c) {
    ChunkInfo& chunk = trace_.chunks[c];
    std::vector<int64_t> sizes(chunk.pieces);
    chunk.payload_bytes = 0;
    for (int64_t& bytes : sizes) {
      chunk.payload_bytes += bytes = kUnit * (1 + Below(6));
    }
    const int64_t moments = static_cast<int64_t>(trace_.ops.size());
    int64_t made = 0;
    for (int64_t t = 0; t < moments; ++t) {
      for (const ChunkUse& use : trace_.ops[t].chunks) {
        if (use.chunk.value != static_cast<int64_t>(c)) continue;
        if (use.writes) {
          made = t;
          continue;
        }
        for (const int64_t bytes : sizes) {
          // Each micro batch has an operator of forward before that.
          const int64_t birth = made - 1;
          const int64_t last = std::min(moments - 1, t - 1 + Below(4));
          const TensorRecord tensor = {bytes, Moment(birth), Moment(last),
                                       chunk.block};
          Add(tensor, birth, made - 1);
          for (int64_t k = t + 1; k <= last; ++k) live_[k] += bytes;
        }
      }
    }
  }

  StepTrace& trace_;
  std::mt19937& random_;
  std::vector<int64_t> live_;  // by moment
};

void GiveTensors(StepTrace& trace, std::mt19937& random) {
  TensorGiver(&trace, &random).Give();
}

// Returns how often activations come back from the host.
int64_t Returns(const Plan& plan, const StepTrace& trace) {
  int64_t copies = 0;
  for (const std::vector<Action>& actions : plan.actions) {
    for (const Action& action : actions) {
      copies += RowOf(action.kind).direction() == CopyDirection::kToHost &&
                trace.chunks[action.chunk.value].holds_activations();
    }
  }
  return copies;
}

Foresee ForeseeOf(const PlanRequest& request) {
  return [&](const Plan& plan) { return SimulatePlan(plan, request); };
}

TEST(Addresses, NestChunksAndTensorsFromBothEnds) {
  const StepTrace trace = TraceBuilder()
                              .Chunk(kUnit, 6 * kUnit)
                              .Chunk(2 * kUnit, 0)
                              .Read({0}, 2 * kUnit)
                              .Read({1}, 3 * kUnit)
                              .Write({0}, 2 * kUnit)
                              .Reduce(0)
                              .Update(0)
                              .Tensor(2 * kUnit, 0, 2)
                              .Tensor(kUnit, 1, 1)
                              .Build();
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes = 6 * kUnit;
  Plan plan;
  plan.signature = "by hand";
  plan.side = {Side::kHost, Side::kHost};
  plan.initial = {{ChunkId(0), false}};
  plan.actions.resize(6);
  plan.actions[1] = {Fetch(1, 1)};
  plan.actions[2] = {Drop(1, 2)};
  plan.actions[3] = {CopyBack(0, 3), Drop(0, 3)};
  plan.actions[5] = {Fetch(0, 0)};
  ASSERT_TRUE(CheckPlan(plan, request).ok()) << CheckPlan(plan, request);
  const auto addresses =
      FindAddresses(plan, request, SimulatePlan(plan, request));
  ASSERT_TRUE(addresses.has_value());
  EXPECT_EQ(addresses->begin, 0);
  EXPECT_EQ(addresses->initial, std::vector<int64_t>({0}));
  EXPECT_EQ(addresses->actions, std::vector<int64_t>({kUnit, 0}));
  EXPECT_EQ(addresses->non_model,
            (std::vector<Addresses::Block>{{4 * kUnit, 2 * kUnit},
                                           {3 * kUnit, kUnit}}));
}

// Two tensors are on the host while a third one has their place:
//
//   2  [ 0  ][ 2 ][ 0  ]
//   1  [ 1  ][ 2 ][ 1       ]
//   0      [3]      [4]
//      0   1  2   3    4
TEST(Addresses, GiveActivationsThatComeBackPlacesOfTheirOwn) {
  const StepTrace trace = TraceBuilder()
                              .Activations(2 * kUnit, /*block=*/0, /*pieces=*/2)
                              .Read({}, 2 * kUnit)
                              .Write({0}, kUnit)
                              .Read({}, 2 * kUnit)
                              .Read({0}, kUnit)
                              .Read({}, 2 * kUnit)
                              .Tensor(kUnit, 0, 3, 0)
                              .Tensor(kUnit, 0, 4, 0)
                              .Tensor(kUnit, 1, 1)
                              .Tensor(2 * kUnit, 2, 2)
                              .Tensor(kUnit, 3, 3)
                              .Build();
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes = 3 * kUnit;
  Plan plan;
  plan.signature = "by hand";
  plan.side = {Side::kHost};
  plan.actions.resize(6);
  plan.actions[1] = {Fetch(0, 1)};
  plan.actions[2] = {CopyBack(0, 2), Drop(0, 2)};
  plan.actions[3] = {Fetch(0, 3)};
  plan.actions[4] = {Drop(0, 4)};
  ASSERT_TRUE(CheckPlan(plan, request).ok()) << CheckPlan(plan, request);
  PlanAddresses(request, SimulatePlan(plan, request), &plan);
  ASSERT_TRUE(plan.addresses.has_value());
  EXPECT_EQ(plan.addresses->actions.size(), 2u);
  EXPECT_EQ(plan.addresses->non_model.size(), 5u);
  EXPECT_EQ(ExpectMoves(plan, request)->times, 0);
  // A trace need not say which tensors they are.
  StepTrace silent = trace;
  silent.tensors[0].block = -1;
  request.trace = &silent;
  PlanAddresses(request, SimulatePlan(plan, request), &plan);
  EXPECT_FALSE(plan.addresses.has_value());
  EXPECT_FALSE(ExpectMoves(plan, request).has_value());
}

TEST(Addresses, LeaveThePlaceOfACopyThatIsUnderWayToTheLast) {
  // Chunk 0 leaves dirty, which takes 256 ns; chunk 1 comes at once. With room
  // for three it does not take the place of the copy.
  const StepTrace trace = TraceBuilder()
                              .Chunk(kUnit, 6 * kUnit)
                              .Chunk(kUnit, 0)
                              .Write({0}, 0, 1)
                              .Reduce(0)
                              .Read({1}, 0, 1)
                              .Update(0)
                              .Build();
  PlanRequest request = RequestFor(trace);
  Plan plan;
  plan.signature = "by hand";
  plan.side = {Side::kHost, Side::kHost};
  plan.initial = {{ChunkId(0), false}};
  plan.actions.resize(5);
  plan.actions[1] = {CopyBack(0, 1), Drop(0, 1)};
  plan.actions[2] = {Fetch(1, 2)};
  plan.actions[3] = {Drop(1, 3)};
  plan.actions[4] = {Fetch(0, 0)};
  ASSERT_TRUE(CheckPlan(plan, request).ok()) << CheckPlan(plan, request);
  const PlanCost cost = SimulatePlan(plan, request);
  for (const int64_t units : {1, 2}) {
    request.device_budget_bytes = units * kUnit;
    const auto addresses = FindAddresses(plan, request, cost);
    ASSERT_TRUE(addresses.has_value());
    EXPECT_EQ(addresses->initial[0] == addresses->actions[0], units == 1);
  }
}

TEST(Addresses, AreNotFoundForATraceThatDoesNotSayWhenTensorsLive) {
  StepTrace trace = TraceBuilder()
                        .Chunk(kUnit, 6 * kUnit)
                        .Write({0}, kUnit)
                        .Reduce(0)
                        .Update(0)
                        .Build();
  const PlanRequest request = RequestFor(trace);
  Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
  EXPECT_FALSE(
      WithAddresses(plan, request, ForeseeOf(request)).addresses.has_value());
  EXPECT_FALSE(ExpectMoves(plan, request).has_value());
  trace.tensors = {{kUnit, Moment(0), Moment(0)}};
  EXPECT_TRUE(
      WithAddresses(plan, request, ForeseeOf(request)).addresses.has_value());
  EXPECT_TRUE(ExpectMoves(plan, request).has_value());
}

TEST(Addresses, AreNotFoundForEvaluations) {
  StepTrace trace =
      TraceBuilder().Evaluation().Chunk(kUnit, 6 * kUnit).Read({0}).Build();
  PlanRequest request = RequestFor(trace);
  request.fixed_side = {Side::kHost};
  const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
  EXPECT_FALSE(
      WithAddresses(plan, request, ForeseeOf(request)).addresses.has_value());
}

// For any plan of any trace, addresses that are found are proven, within the
// budget; most tight plans have some, and where they have, blocks of other
// plans would be moved.
TEST(Addresses, AreProvenAtEveryBudget) {
  int64_t plans = 0, at_once = 0, found = 0, moving = 0, spared = 0;
  int64_t leaving = 0, found_leaving = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<uint32_t>(seed));
    StepTrace trace =
        ArbitraryTrace({.chunks = 3 + static_cast<int64_t>(seed % 9),
                        .operators = 5 + static_cast<int64_t>(seed % 20),
                        .micro_batches = 1 + static_cast<int64_t>(seed % 3),
                        .activations = static_cast<int64_t>(seed / 2 % 3)},
                       seed);
    GiveTensors(trace, random);
    ASSERT_TRUE(CheckTrace(trace).ok()) << CheckTrace(trace);
    PlanRequest request = RequestFor(trace);
    request.device_reserved_bytes = static_cast<int64_t>(random() % 1000);
    const PlacementPolicy* const policy = FindPolicy("auto");
    const int64_t least = SmallestDeviceBudget(policy, request);
    const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
    for (const int64_t tenths : {0, 1, 2, 4, 6, 10}) {
      request.device_budget_bytes = least + (most - least) * tenths / 10;
      const Plan plan = std::get<Plan>(MakePlan(policy, request));
      const PlanCost cost = SimulatePlan(plan, request);
      at_once += FindAddresses(plan, request, cost).has_value();
      const Plan with = WithAddresses(plan, request, ForeseeOf(request));
      EXPECT_TRUE(CheckPlan(with, request).ok()) << CheckPlan(with, request);
      EXPECT_LE(SimulatePlan(with, request).step_ns,
                cost.step_ns + cost.step_ns / 50 + 1);
      ++plans;
      leaving += Returns(with, trace) > 0;
      found_leaving += Returns(with, trace) > 0 && with.addresses.has_value();
      found += with.addresses.has_value();
      const auto moves = ExpectMoves(plan, request);
      ASSERT_TRUE(moves.has_value());
      moving += moves->times > 0;
      spared += moves->times > 0 && with.addresses.has_value();
    }
  }
  std::printf(
      "%lld plans, %lld with addresses at once, %lld with addresses; %lld "
      "would move blocks, of which %lld do not; activations leave in %lld, "
      "%lld "
      "with addresses\n",
      static_cast<long long>(plans), static_cast<long long>(at_once),
      static_cast<long long>(found), static_cast<long long>(moving),
      static_cast<long long>(spared), static_cast<long long>(leaving),
      static_cast<long long>(found_leaving));
  EXPECT_GT(10 * found, 6 * plans);
  EXPECT_GT(found, at_once);
  EXPECT_GT(spared, 0);
  EXPECT_GT(4 * found_leaving, leaving);  // the tightest plans
  EXPECT_GE(found_leaving, 10);
}

TEST(Addresses, ArePureFunctions) {
  std::mt19937 random(3);
  StepTrace trace = ArbitraryTrace({.chunks = 8, .operators = 20}, 3);
  GiveTensors(trace, random);
  PlanRequest request = RequestFor(trace);
  const PlacementPolicy* const policy = FindPolicy("auto");
  request.device_budget_bytes = SmallestDeviceBudget(policy, request) * 5 / 4;
  const Plan plan = std::get<Plan>(MakePlan(policy, request));
  const Plan first = WithAddresses(plan, request, ForeseeOf(request));
  const Plan second = WithAddresses(plan, request, ForeseeOf(request));
  EXPECT_EQ(first.addresses, second.addresses);
  EXPECT_EQ(first.actions, second.actions);
}

}  // namespace
}  // namespace castor
