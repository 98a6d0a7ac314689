#include "memory/plan/bounds/lower_bound.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdio>
#include <variant>
#include <vector>

#include "base/units.h"
#include "memory/plan/bounds/admission.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/residency/eviction.h"
#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

// RapidCheck starts with small ranges; here all of it counts from the start.
rc::Gen<int64_t> InRange(int64_t from, int64_t to) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(from, to));
}

TEST(OneMicroBatchBound, CountsWhatCannotStayOverTheTurn) {
  const StepTrace trace = TraceBuilder()
                              .Chunk(1024, 4096)
                              .Chunk(1024, 4096)
                              .Read({0}, 0)
                              .Read({1}, 500)
                              .Write({1}, 700)
                              .Reduce(1)
                              .Write({0}, 0)
                              .Reduce(0)
                              .Update(0)
                              .Update(1)
                              .Build();
  PlanRequest request;
  request.trace = &trace;
  request.device_budget_bytes = 4000;
  EXPECT_EQ(OneMicroBatchBound(request).h2d_bytes, 2048);
  EXPECT_EQ(OneMicroBatchBound(request).d2h_bytes, 2048);
  // K = 1900 - 700 = 1200.
  request.device_budget_bytes = 1900;
  EXPECT_EQ(OneMicroBatchBound(request).h2d_bytes, 2048 + 848);
  // A chunk stays as a whole or, for the other bound, byte by byte.
  const std::vector<Side> host(2, Side::kHost);
  EXPECT_EQ(LeastFetchedBytes(request, host), 2048 + 848);
}

// `micro_batches` times forward and backward of two chunks, then their updates.
StepTrace MicroBatches(int64_t micro_batches) {
  TraceBuilder builder;
  builder.MicroBatches(micro_batches).Chunk(1024, 4096).Chunk(1024, 4096);
  for (int64_t i = 0; i < micro_batches; ++i) {
    builder.Read({0}, 0).Read({1}, 500).Write({1}, 700).Reduce(1);
    builder.Write({0}, 0).Reduce(0);
  }
  return builder.Update(0).Update(1).Build();
}

TEST(AccumulationBound, ChoosesWhatMovesTheLeast) {
  StepTrace trace = MicroBatches(1);
  PlanRequest request;
  request.trace = &trace;
  // K = 1200 over the turn, 1900 at the first operator. States and sums would
  // take more than they save.
  request.device_budget_bytes = 1900;
  EXPECT_EQ(AccumulationBound(request, 2).h2d_bytes, 2048 + 848);
  EXPECT_EQ(AccumulationBound(request, 2).d2h_bytes, 2048);
  trace = MicroBatches(4);
  EXPECT_EQ(AccumulationBound(request, 2).h2d_bytes, 2048 + 4 * 848 + 3 * 148);
  EXPECT_EQ(AccumulationBound(request, 2).d2h_bytes, 4 * 2048);
  // Beside all payloads 4096 bytes are free: states of half of the model spare
  // 1024 bytes down and 4 * 1024 up, sums of all of it 2 * 2048 up.
  request.device_budget_bytes = 2048 + 4096 + 700;
  EXPECT_EQ(AccumulationBound(request, 2).h2d_bytes, 1024);
  EXPECT_EQ(AccumulationBound(request, 2).d2h_bytes, 4 * 1024);
  // With states of twice the size sums are the better use of that room.
  for (ChunkInfo& chunk : trace.chunks) chunk.optimizer_bytes = 8192;
  EXPECT_EQ(AccumulationBound(request, 2).h2d_bytes, 2048);
  EXPECT_EQ(AccumulationBound(request, 2).d2h_bytes, 2 * 2048);
  request.device_budget_bytes = kUnlimitedBytes;
  EXPECT_EQ(AccumulationBound(request, 2).h2d_bytes, 0);
  EXPECT_EQ(AccumulationBound(request, 2).d2h_bytes, 0);
}

TEST(AccumulationBound, IsBelowEveryPlan) {
  for (const int64_t micro_batches : {1, 2, 4, 8}) {
    GptTraceOptions options;
    options.layers = micro_batches > 2 ? 1 : 2;  // Planning takes a while.
    options.channels = 64;
    options.vocabulary = 200;
    options.batch = 2;
    options.sequence = 16;
    options.chunk_elements = 16000;
    options.micro_batches = micro_batches;
    options.tied_embeddings = micro_batches == 2;
    const StepTrace trace = GptTrace(options);
    PlanRequest request;
    request.trace = &trace;
    for (const double share : {0.2, 1.0, 4.0}) {
      request.bus = BusForShare(trace, share);
      const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
      const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
      for (const int64_t tenths : {0, 3, 7}) {
        SCOPED_TRACE(testing::Message() << micro_batches << " micro batches, "
                                        << share << ", " << tenths);
        request.device_budget_bytes = least + (most - least) * tenths / 10;
        const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
        const PlanCost cost = SimulatePlan(plan, request);
        const TrafficBound bound = AccumulationBound(request, 2);
        EXPECT_GE(cost.h2d_bytes + cost.d2h_bytes,
                  bound.h2d_bytes + bound.d2h_bytes);
      }
    }
  }
}

std::vector<int64_t> FreeBytes(const PlanRequest& request,
                               const std::vector<Side>& side) {
  std::vector<int64_t> free_bytes = NeededDeviceBytes(request, side);
  for (int64_t& bytes : free_bytes) {
    bytes = request.device_budget_bytes - bytes;
  }
  return free_bytes;
}

int64_t FetchedBytes(const StepTrace& trace, const UseIndex& index,
                     const Residency& residency) {
  int64_t bytes = 0;
  for (size_t g = 0; g < residency.size(); ++g) {
    if (residency[g].stays) continue;
    bytes += trace.chunks[index.gaps()[g].chunk].payload_bytes;
  }
  return bytes;
}

// Tries every set of gaps to stay in, by depth-first search.
class BruteForce {
 public:
  BruteForce(const StepTrace& trace, const UseIndex& index,
             std::vector<int64_t> free_bytes)
      : trace_(trace), index_(index), free_(std::move(free_bytes)) {
    Search(0, 0);
  }
  int64_t least_bytes() const { return best_; }

 private:
  void Search(size_t g, int64_t fetched) {
    if (fetched >= best_) return;
    if (g == index_.gaps().size()) {
      best_ = fetched;
      return;
    }
    const Gap& gap = index_.gaps()[g];
    const int64_t moments = index_.moments();
    bool fits = !gap.forced();
    for (int64_t t = gap.from + 1; t < gap.to; ++t) {
      fits &= free_[t % moments] >= gap.bytes;
    }
    if (fits) {
      Occupy(gap, gap.bytes);
      Search(g + 1, fetched);
      Occupy(gap, -gap.bytes);
    }
    Search(g + 1, fetched + trace_.chunks[gap.chunk].payload_bytes);
  }
  void Occupy(const Gap& gap, int64_t bytes) {
    for (int64_t t = gap.from + 1; t < gap.to; ++t) {
      free_[t % index_.moments()] -= bytes;
    }
  }

  const StepTrace& trace_;
  const UseIndex& index_;
  std::vector<int64_t> free_;
  int64_t best_ = kUnlimitedBytes;
};

struct Fetched {
  int64_t farthest = 0;  // what Belady's rule chooses
  int64_t chosen = 0;    // the best of all rules
  int64_t least = 0;     // of all choices
  int64_t bound = 0;
};

Fetched FetchedOf(const ArbitraryTraceOptions& options, uint64_t seed,
                  int64_t beyond) {
  const StepTrace trace = ArbitraryTrace(options, seed);
  const std::vector<Side> side(trace.chunks.size(), Side::kHost);
  PlanRequest request;
  request.trace = &trace;
  request.device_budget_bytes = PeakNeededDeviceBytes(request, side) + beyond;
  const UseIndex index(trace, side);
  const std::vector<int64_t> free_bytes = FreeBytes(request, side);
  std::vector<int64_t> next_use;
  for (const Gap& gap : index.gaps()) next_use.push_back(gap.to);
  Fetched fetched;
  fetched.chosen = kUnlimitedBytes;
  for (const VictimRule rule : kVictimRules) {
    Residency residency = StayEverywhere(index);
    Evict(index, free_bytes, next_use, rule, residency);
    Room room(free_bytes);
    for (size_t g = 0; g < residency.size(); ++g) {
      const Gap& gap = index.gaps()[g];
      if (residency[g].stays) room.Take(gap.from + 1, gap.to, gap.bytes);
    }
    KeepWhatFits(index, room, residency);
    const int64_t bytes = FetchedBytes(trace, index, residency);
    if (rule == VictimRule::kFarthest) fetched.farthest = bytes;
    fetched.chosen = std::min(fetched.chosen, bytes);
  }
  fetched.least = BruteForce(trace, index, free_bytes).least_bytes();
  fetched.bound = LeastFetchedBytes(request, side);
  return fetched;
}

// Two chunks of 1024 bytes with 4096 bytes of states each, on a bus of a byte
// per ns in each direction.
TEST(LeastStepNs, IsTheLongestOfWhatNoPlanAvoids) {
  const StepTrace trace = TraceBuilder()
                              .Chunk(1024, 4096)
                              .Chunk(1024, 4096)
                              .Read({0}, 0, 100)
                              .Read({1}, 500, 100)
                              .Write({1}, 700, 200)
                              .Reduce(1)
                              .Write({0}, 0, 200)
                              .Reduce(0)
                              .Update(0, /*host_ns=*/9000)
                              .Update(1, /*host_ns=*/5000)
                              .Build();
  PlanRequest request;
  request.trace = &trace;
  request.bus = {.h2d_bytes_per_s = 1e9, .d2h_bytes_per_s = 1e9};
  // All fits: the operators are left.
  request.device_budget_bytes = 1 << 20;
  EXPECT_EQ(LeastStepNs(request, 2, trace.compute_ns()), 600);
  // 1024 + 700 bytes are needed: there is room for the states of one chunk,
  // which are those of the longer update, and for a quarter of the other's.
  request.device_budget_bytes = 1724 + 4096 + 1024;
  EXPECT_EQ(LeastStepNs(request, 2, trace.compute_ns()), 5000 * 3 / 4);
  // Nothing has room. The bus moves 2048 + 848 bytes there and 2048 back, which
  // take it less than the updates.
  request.device_budget_bytes = 1900;
  EXPECT_NEAR(static_cast<double>(LeastStepNs(request, 2, 600)),
              14000 - 9000 * 176.0 / 4096, 1);
  request.bus = {.h2d_bytes_per_s = 1e8, .d2h_bytes_per_s = 1e8};
  EXPECT_EQ(LeastStepNs(request, 2, 600), 10 * (2048 + 848 + 2048) / 2);
  // Each of two ranks gathers the other half of each payload, and gets as much
  // of gradients.
  StepTrace shared = trace;
  for (ChunkInfo& chunk : shared.chunks) chunk.shard_bytes = 512;
  request.trace = &shared;
  request.world_size = 2;
  request.bus.network_bytes_per_s = 1e7;
  EXPECT_EQ(LeastStepNs(request, 2, 600), 100 * 2 * (512 + 512));
  shared.training = false;
  EXPECT_EQ(LeastStepNs(request, 2, 600), 0);
}

RC_GTEST_PROP(Evict, FetchesTheLeastForOneSizeAndNothingAcrossSteps, ()) {
  ArbitraryTraceOptions options;
  options.equal_sizes = true;
  options.frozen_share = 0;  // the update lies between a step and the next
  options.chunks = *InRange(1, 6);
  options.operators = *InRange(1, 8);
  const Fetched fetched = FetchedOf(options, *rc::gen::arbitrary<uint64_t>(),
                                    *InRange(0, 4) * options.unit_bytes);
  RC_ASSERT(fetched.farthest == fetched.least);
  RC_ASSERT(fetched.bound == fetched.least);
}

RC_GTEST_PROP(LeastFetchedBytes, IsBelowEveryChoice, ()) {
  ArbitraryTraceOptions options;
  options.equal_sizes = *rc::gen::arbitrary<bool>();
  options.training = *rc::gen::arbitrary<bool>();
  options.chunks = *InRange(1, 6);
  options.operators = *InRange(1, 7);
  const Fetched fetched =
      FetchedOf(options, *rc::gen::arbitrary<uint64_t>(), *InRange(0, 8000));
  RC_ASSERT(fetched.bound <= fetched.least);
  RC_ASSERT(fetched.least <= fetched.farthest);
}

// With sizes and on a circle the rules are no longer exact; they lose little.
TEST(Evict, LosesLittleWithSizesAndAcrossSteps) {
  double sum_farthest = 0;
  double sum_chosen = 0;
  double sum_least = 0;
  double worst = 1;
  constexpr uint64_t kCases = 2000;
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 2 + static_cast<int64_t>(seed % 4);
    options.operators = 3 + static_cast<int64_t>(seed % 4);
    options.training = seed % 3 != 0;
    const Fetched fetched =
        FetchedOf(options, seed, static_cast<int64_t>(seed * 37 % 8000));
    sum_farthest += static_cast<double>(fetched.farthest);
    sum_chosen += static_cast<double>(fetched.chosen);
    sum_least += static_cast<double>(fetched.least);
    if (fetched.least > 0) {
      worst = std::max(worst, static_cast<double>(fetched.chosen) /
                                  static_cast<double>(fetched.least));
    }
  }
  std::printf(
      "fetched over least: %.4f on average (farthest %.4f), %.4f at "
      "worst\n",
      sum_chosen / sum_least, sum_farthest / sum_least, worst);
  EXPECT_LE(sum_chosen, 1.02 * sum_least);
  EXPECT_LE(worst, 2.5);
}

}  // namespace
}  // namespace castor
