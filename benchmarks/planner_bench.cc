// Measures how good plans are and how long they take: GPT-2 shapes over
// budgets, against a step without a memory limit and against the bytes no plan
// can do without.
//
//   bazel run -c opt //benchmarks:planner_bench
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "base/units.h"
#include "memory/plan/bounds/lower_bound.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

constexpr int kRepeats = 5;

double MedianMs(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

void Row(const std::string& budget_name, const PlacementPolicy* policy,
         const PlanRequest& request, int64_t unlimited_ns) {
  std::vector<double> ms;
  Plan plan;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    PlanOrRefusal result = MakePlan(policy, request);
    const auto end = std::chrono::steady_clock::now();
    ms.push_back(
        std::chrono::duration<double, std::milli>(end - start).count());
    if (!std::holds_alternative<Plan>(result)) return;
    plan = std::get<Plan>(std::move(result));
  }
  const PlanCost cost = SimulatePlan(plan, request);
  const int64_t bound = LeastFetchedBytes(request, plan.side);
  int device_side = 0;
  for (const Side side : plan.side) device_side += side == Side::kDevice;
  std::printf(
      "%-18s %-5s %10s %6.3f %6.3f %10s %7.3f %10s %5d %9.2f\n",
      budget_name.c_str(), std::string(policy->name).c_str(),
      FormatBytes(request.device_budget_bytes).c_str(),
      static_cast<double>(cost.step_ns) / static_cast<double>(unlimited_ns),
      static_cast<double>(cost.stall_ns) / static_cast<double>(unlimited_ns),
      FormatBytes(cost.h2d_bytes).c_str(),
      bound == 0
          ? 1.0
          : static_cast<double>(cost.h2d_bytes) / static_cast<double>(bound),
      FormatBytes(cost.d2h_bytes).c_str(), device_side, MedianMs(ms));
}

void Table(const std::string& name, const GptTraceOptions& options,
           double share) {
  const StepTrace trace = GptTrace(options);
  PlanRequest request;
  request.trace = &trace;
  request.bus = BusForShare(trace, share);
  int64_t compute_ns = 0;
  int64_t host_ns = 0;
  for (const OpRecord& op : trace.ops) {
    if (op.kind == OpKind::kCompute) compute_ns += op.duration_ns;
    host_ns += op.host_duration_ns;
  }
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  std::vector<int64_t> blocks;
  int64_t payloads = 0;
  for (const ChunkInfo& chunk : trace.chunks) {
    blocks.push_back(PayloadBlock(chunk));
    payloads += chunk.payload_bytes;
  }
  std::sort(blocks.rbegin(), blocks.rend());
  std::printf(
      "\n%s: %zu operators, %zu chunks, payload %s, compute %.1f ms, "
      "host %.1f ms, bus %.1f GB/s (%.2f of compute)\n"
      "%-18s %-5s %10s %6s %6s %10s %7s %10s %5s %9s\n",
      name.c_str(), trace.ops.size(), trace.chunks.size(),
      FormatBytes(payloads).c_str(), compute_ns / 1e6, host_ns / 1e6,
      request.bus.h2d_bytes_per_s / 1e9, share, "budget", "", "bytes", "step",
      "stall", "h2d", "/bound", "d2h", "opt", "plan ms");
  // Relative to everything on the device.
  const auto unlimited = [&](const PlacementPolicy* policy, double ratio) {
    PlanRequest free = request;
    free.gpu_margin_mem_ratio = ratio;
    const Plan plan = std::get<Plan>(MakePlan(policy, free));
    return SimulatePlan(plan, free).step_ns;
  };
  const int64_t unlimited_ns = unlimited(FindPolicy("cuda"), 1);
  std::printf("%-18s %-5s %10s %6.3f\n", "optimizer on host", "auto",
              "unlimited",
              static_cast<double>(unlimited(FindPolicy("auto"), 0)) /
                  static_cast<double>(unlimited_ns));
  const std::vector<std::pair<std::string, int64_t>> budgets = {
      {"smallest", least},
      {"+ largest/2", least + blocks[0] / 2},
      {"+ largest", least + blocks[0]},
      {"+ 2 largest",
       least + blocks[0] + blocks[std::min<size_t>(1, blocks.size() - 1)]},
      {"+ payload/4", least + payloads / 4},
      {"+ payload/2", least + payloads / 2},
      {"+ payload", least + payloads},
      {"+ 2 payload", least + 2 * payloads},
      {"half way to all", least + (most - least) / 2},
      {"all less one block", most - kBlockAlignment},
      {"all", most},
  };
  for (const auto& [budget_name, bytes] : budgets) {
    request.device_budget_bytes = bytes;
    for (const PlacementPolicy& policy : Policies()) {
      Row(budget_name, &policy, request, unlimited_ns);
    }
  }
}

}  // namespace
}  // namespace castor

int main() {
  using castor::GptTraceOptions;
#if defined(__clang__)
  std::printf("clang %s", __clang_version__);
#else
  std::printf("gcc %s", __VERSION__);
#endif
  std::printf(
      ", %d plans per row, median. step and stall: simulated, relative to a "
      "step with everything on the device.\n/bound: fetched bytes over "
      "LeastFetchedBytes. opt: chunks whose optimizer states are on the "
      "device.\n",
      castor::kRepeats);
  // Updates for nothing: what the copies alone cost.
  GptTraceOptions fast_host;
  fast_host.host_bytes_per_s = 1e15;
  castor::Table("GPT-2 124M, fast host", fast_host, 0.5);
  GptTraceOptions large;
  large.layers = 48;
  large.channels = 1600;
  large.chunk_elements = 16 << 20;
  large.host_bytes_per_s = 1e15;
  castor::Table("GPT-2 1.5B, fast host", large, 0.5);
  large.host_bytes_per_s = 1e11;
  castor::Table("GPT-2 1.5B", large, 0.5);
  GptTraceOptions small;
  castor::Table("GPT-2 124M", small, 0.5);
  castor::Table("GPT-2 124M, bus-bound", small, 2.0);
  small.chunk_elements = 1 << 20;
  castor::Table("GPT-2 124M, chunks of 1 Mi", small, 0.5);
  small.tied_embeddings = false;
  small.chunk_elements = 4 << 20;
  castor::Table("GPT-2 124M, untied", small, 0.5);
  small.tied_embeddings = true;
  small.micro_batches = 4;
  castor::Table("GPT-2 124M, 4 micro batches", small, 0.5);
  small.micro_batches = 64;
  castor::Table("GPT-2 124M, 64 micro batches", small, 0.5);
  return 0;
}
