#include "research/baseline_policies.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "memory/plan/check/plan_checker.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"
#include "research/baseline_search.h"
#include "research/gemini_policy.h"
#include "research/patrickstar_policy.h"
#include "research/protrain_policy.h"

namespace castor {
namespace {

constexpr int64_t kChunk = 256;

// The places at which a plan fetches a chunk.
std::vector<int64_t> Fetches(const Plan& plan, int64_t chunk) {
  std::vector<int64_t> places;
  for (size_t t = 0; t < plan.actions.size(); ++t) {
    for (const Action& action : plan.actions[t]) {
      if (action.kind == ActionKind::kFetch && action.chunk.value == chunk) {
        places.push_back(static_cast<int64_t>(t));
      }
    }
  }
  return places;
}

using Places = std::vector<int64_t>;

// Forward through three chunks and back, moments 0 to 2 and 3 to 5. Each is
// reduced right after its backward, and updated at the end, so that a step
// begins with nothing on the device. States take three payloads.
StepTrace ThereAndBack() {
  TraceBuilder builder;
  for (int c = 0; c < 3; ++c) builder.Chunk(kChunk, 3 * kChunk);
  for (int c = 0; c < 3; ++c) builder.Read({c}, 0, 1000);
  for (int c = 2; c >= 0; --c) builder.Write({c}, 0, 1000);
  for (int c = 2; c >= 0; --c) builder.Reduce(c, 10, 10);
  for (int c = 0; c < 3; ++c) builder.Update(c, 10, 10);
  return builder.Build();
}

// Three chunks in a circle, which nobody writes.
StepTrace Circle() {
  return TraceBuilder()
      .Evaluation()
      .Chunk(kChunk, 0)
      .Chunk(kChunk, 0)
      .Chunk(kChunk, 0)
      .Read({0}, 0, 1000)
      .Read({1}, 0, 1000)
      .Read({2}, 0, 1000)
      .Build();
}

PlanRequest RoomFor(const StepTrace& trace, double chunks) {
  PlanRequest request = RequestFor(trace);
  request.device_budget_bytes = static_cast<int64_t>(chunks * kChunk);
  return request;
}

std::vector<Side> HostSides(const StepTrace& trace) {
  return std::vector<Side>(trace.chunks.size(), Side::kHost);
}

Plan Proven(const Plan& plan, const PlanRequest& request) {
  EXPECT_TRUE(CheckPlan(plan, request).ok());
  return plan;
}

Plan Gemini(const PlanRequest& request, int64_t max_prefetch, double cap) {
  return Proven(
      PlanGeminiWith(request, HostSides(*request.trace), {max_prefetch, cap}),
      request);
}

// With a budget that is so far on the way from the smallest one to everything.
PlanRequest AboveTheLeast(const StepTrace& trace, double share) {
  PlanRequest request = RequestFor(trace);
  request.bus = BusForShare(trace, 1.0);
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  request.device_budget_bytes =
      least + static_cast<int64_t>(share * static_cast<double>(most - least));
  return request;
}

// A baseline whose plans fail would be replaced by the cpu policy's, and prove
// nothing.
TEST(BaselinePolicies, HavePlansThatAreProven) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 1 + static_cast<int64_t>(seed % 7);
    options.operators = static_cast<int64_t>(seed % 13);
    options.micro_batches = 1 + static_cast<int64_t>(seed % 3);
    options.training = seed % 5 != 0;
    options.activations = static_cast<int64_t>(seed / 3 % 3);
    const StepTrace trace = ArbitraryTrace(options, seed);
    PlanRequest request;
    request.trace = &trace;
    request.prefetch = seed % 4 != 0;
    for (const PlacementPolicy& policy : BaselinePolicies()) {
      request.device_budget_bytes =
          SmallestDeviceBudget(&policy, request) +
          (seed % 6 == 0 ? 0 : static_cast<int64_t>(seed * 977 % 50000));
      const Plan plan = std::get<Plan>(MakePlan(&policy, request));
      EXPECT_EQ(plan.instead_of_unproven, "")
          << std::string(policy.name) << ", seed " << seed;
    }
  }
}

// Each does what it is known for.
TEST(BaselinePolicies, AreFasterThanCpuWithRoomAndNotThanAuto) {
  GptTraceOptions options;
  options.layers = 6;
  const StepTrace trace = GptTrace(options);
  const PlanRequest request = AboveTheLeast(trace, 1.0 / 2);
  const auto step_ns = [&](const PlacementPolicy* policy) {
    const Plan plan = std::get<Plan>(MakePlan(policy, request));
    return SimulatePlan(plan, request).step_ns;
  };
  const int64_t cpu_ns = step_ns(FindPolicy("cpu"));
  const int64_t auto_ns = step_ns(FindPolicy("auto"));
  for (const PlacementPolicy& policy : BaselinePolicies()) {
    EXPECT_LT(step_ns(&policy), cpu_ns) << std::string(policy.name);
    // auto takes a step that is a little longer for fewer copies.
    EXPECT_GE(1.005 * static_cast<double>(step_ns(&policy)),
              static_cast<double>(auto_ns))
        << std::string(policy.name);
  }
}

TEST(BaselinePolicies, HaveTheFastestOfTheSettingsThatTheyTry) {
  GptTraceOptions options;
  options.layers = 3;
  const StepTrace trace = GptTrace(options);
  const PlanRequest request = AboveTheLeast(trace, 1.0 / 3);
  const auto step_ns = [&](absl::string_view name) {
    return SimulatedStepNs(
        std::get<Plan>(MakePlan(FindBaseline(name), request)), request);
  };
  const std::vector<Side> side = HostSides(trace);
  for (const int64_t prefetch : {0, 2, 8}) {
    for (const double cap : {0.9, 1.0}) {
      EXPECT_LE(step_ns("gemini"),
                SimulatedStepNs(PlanGeminiWith(request, side, {prefetch, cap}),
                                request));
    }
  }
  EXPECT_LE(step_ns("patrickstar"),
            SimulatedStepNs(PlanPatrickStarWith(request, side), request));
  EXPECT_LE(step_ns("protrain"),
            SimulatedStepNs(PlanProTrainWith(request, side, {}), request));
}

TEST(GeminiPolicy, LetsNobodyGoUntilItsShareOfTheBudgetIsFull) {
  const StepTrace trace = Circle();
  const PlanRequest request = RoomFor(trace, 3);
  const Plan all = Gemini(request, 0, 1.0);
  EXPECT_EQ(all.initial.size(), 3);
  for (int c = 0; c < 3; ++c) EXPECT_EQ(Fetches(all, c), Places({}));
  // In nine tenths of three chunks there is no place for the third.
  int64_t fetched = 0;
  const Plan part = Gemini(request, 0, 0.9);
  for (int c = 0; c < 3; ++c) {
    fetched += static_cast<int64_t>(Fetches(part, c).size());
  }
  EXPECT_EQ(fetched, 2);
}

// Before moment 2 chunks 0 and 1 are there, which this step does not use any
// more. Gemini does not see that the next step wants 0 first.
TEST(GeminiPolicy, LooksNoFartherThanTheEndOfTheStepAndPatrickStarDoes) {
  const StepTrace trace = Circle();
  PlanRequest request = RoomFor(trace, 2);
  request.prefetch = false;
  const Plan gemini = Gemini(request, 0, 1.0);
  // 0 leaves at moment 2, so it is fetched at 0, where of 1 and 2 the one that
  // is used later leaves: 2.
  EXPECT_EQ(Fetches(gemini, 0), Places({0}));
  EXPECT_EQ(Fetches(gemini, 1), Places({}));
  EXPECT_EQ(Fetches(gemini, 2), Places({2}));
  const Plan patrickstar =
      Proven(PlanPatrickStarWith(request, HostSides(trace)), request);
  EXPECT_EQ(Fetches(patrickstar, 0), Places({}));
}

TEST(GeminiPolicy, PrefetchesAsManyChunksAsItMayInTheRoomThatIsLeft) {
  const StepTrace trace = ThereAndBack();
  const PlanRequest roomy = RoomFor(trace, 3);
  const Plan none = Gemini(roomy, 0, 1.0);
  EXPECT_EQ(Fetches(none, 1), Places({1}));
  EXPECT_EQ(Fetches(none, 2), Places({2}));
  // Before moment 0 is place 12, at the end of the step before.
  const Plan one = Gemini(roomy, 1, 1.0);
  EXPECT_EQ(Fetches(one, 1), Places({12}));
  EXPECT_EQ(Fetches(one, 2), Places({1}));
  const Plan two = Gemini(roomy, 2, 1.0);
  EXPECT_EQ(Fetches(two, 1), Places({12}));
  EXPECT_EQ(Fetches(two, 2), Places({12}));
  // No chunk leaves for one that is prefetched: 2 comes when it is used, and
  // then 0 leaves, whose next use is the farthest.
  const Plan tight = Gemini(RoomFor(trace, 2), 2, 1.0);
  EXPECT_EQ(Fetches(tight, 1), Places({12}));
  EXPECT_EQ(Fetches(tight, 2), Places({2}));
  EXPECT_EQ(Fetches(tight, 0).size(), 2);
}

TEST(PatrickStarPolicy, HasStatesOnTheDeviceOnlyBesideAllPayloads) {
  const StepTrace trace = ThereAndBack();
  const PlacementPolicy* const patrickstar = FindBaseline("patrickstar");
  const PlacementPolicy* const protrain = FindBaseline("protrain");
  // Beside an operator's chunk there is room for one chunk's states and for
  // more, but not beside all three; copies take longer than operators.
  PlanRequest tight = RoomFor(trace, 5);
  tight.bus = {1e8, 1e8, 0};
  EXPECT_EQ(PatrickStarMarginBytes(tight), 2 * kChunk);
  EXPECT_EQ(std::get<Plan>(MakePlan(patrickstar, tight)).side,
            HostSides(trace));
  EXPECT_NE(std::get<Plan>(MakePlan(protrain, tight)).side, HostSides(trace));
  PlanRequest roomy = tight;
  roomy.device_budget_bytes += kChunk;
  EXPECT_EQ(std::get<Plan>(MakePlan(patrickstar, roomy)).side,
            std::vector<Side>({Side::kDevice, Side::kHost, Side::kHost}));
}

TEST(PatrickStarPolicy, PrefetchesNothing) {
  const StepTrace trace = ThereAndBack();
  const PlanRequest request = RoomFor(trace, 3);
  const Plan plan =
      Proven(PlanPatrickStarWith(request, HostSides(trace)), request);
  EXPECT_EQ(Fetches(plan, 1), Places({1}));
  EXPECT_EQ(Fetches(plan, 2), Places({2}));
}

TEST(ProTrainPolicy, FindsInBackwardWhatForwardLeftInItsBuffers) {
  const StepTrace trace = ThereAndBack();
  PlanRequest request = RoomFor(trace, 2);
  request.prefetch = false;
  const Plan cached =
      Proven(PlanProTrainWith(request, HostSides(trace), {}), request);
  EXPECT_EQ(Fetches(cached, 0).size(), 2);
  EXPECT_EQ(Fetches(cached, 1).size(), 1);
  EXPECT_EQ(Fetches(cached, 2).size(), 1);
  // One of two buffers is for the chunk that is on its way.
  const Plan none = Proven(
      PlanProTrainWith(request, HostSides(trace), {kChunk, false}), request);
  EXPECT_EQ(Fetches(none, 1).size(), 2);
}

TEST(ProTrainPolicy, FetchesAsSoonAsThereIsABuffer) {
  const StepTrace trace = ThereAndBack();
  const PlanRequest request = RoomFor(trace, 2);
  const Plan plan =
      Proven(PlanProTrainWith(request, HostSides(trace), {}), request);
  EXPECT_EQ(Fetches(plan, 2), Places({1}));
}

TEST(ProTrainPolicy, KeepsWhatPersistsWhateverElseLeaves) {
  const StepTrace trace = ThereAndBack();
  // Chunk 0, whose next use is the farthest at the turn, and its states.
  const PlanRequest request = RoomFor(trace, 1 + 3 + 1);
  const Plan plan = Proven(
      PlanProTrainWith(request, {Side::kDevice, Side::kHost, Side::kHost}, {}),
      request);
  EXPECT_EQ(Fetches(plan, 0), Places({}));
  EXPECT_EQ(Fetches(plan, 1).size(), 2);
}

}  // namespace
}  // namespace castor
