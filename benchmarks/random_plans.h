// Plans of all policies for arbitrary steps, for tests of what holds of any
// plan.
#ifndef CASTOR_BENCHMARKS_RANDOM_PLANS_H_
#define CASTOR_BENCHMARKS_RANDOM_PLANS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "memory/plan/planner.h"
#include "memory/plan/trace_generator.h"

namespace castor {

inline constexpr uint64_t kSeeds = 300;

// Calls `visit` with a request for each seed and a plan of each policy for it.
template <class Visit>
void ForEachPlan(const Visit& visit) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ArbitraryTraceOptions options;
    options.chunks = 1 + static_cast<int64_t>(seed % 6);
    options.operators = 1 + static_cast<int64_t>(seed % 11);
    options.micro_batches = 1 + static_cast<int64_t>(seed % 4);
    options.activations = seed % 9 == 8 ? 2 : 0;
    StepTrace trace = ArbitraryTrace(options, seed);
    trace.global_norm = seed % 3 == 0;
    PlanRequest request;
    request.trace = &trace;
    request.bus.h2d_bytes_per_s = seed % 5 == 0 ? 1e8 : 1e9;
    request.bus.d2h_bytes_per_s = seed % 7 == 0 ? 1e8 : 1e9;
    request.bus.latency_ns = seed % 2 == 0 ? 100 : 0;
    if (seed % 4 == 1) {
      request.world_size = 2;
      for (ChunkInfo& chunk : trace.chunks) {
        if (chunk.holds_activations()) continue;
        chunk.shard_bytes = (chunk.payload_bytes + 1) / 2;
      }
    }
    for (const PlacementPolicy& policy : Policies()) {
      request.device_budget_bytes = SmallestDeviceBudget(&policy, request) +
                                    static_cast<int64_t>(seed * 977 % 40000);
      const Plan plan = std::get<Plan>(MakePlan(&policy, request));
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", policy ", policy.name));
      visit(request, plan);
    }
  }
}

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_RANDOM_PLANS_H_
