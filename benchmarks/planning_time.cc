// Measures how long a plan takes: processor time of one thread for GPT-2 shapes
// of about 1,000, 10,000 and 100,000 operators, at three budgets; and what it
// takes more where gradients are clipped and updates may run before their norm
// is known. Goal: at most a second for 100,000 operators.
//
// Then for small models in many chunks, whose steps are over in milliseconds:
// how many of these steps a plan takes, or the choice of which blocks keep
// their activations.
//
//   bazel run -c opt //benchmarks:planning_time
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <variant>
#include <vector>

#include "base/check.h"
#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/block_chain.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

constexpr int kRepeats = 3;

double ProcessorSeconds() {
  timespec now;
  CASTOR_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// A step of GPT-2's shape: 32 operators and about one chunk a layer.
StepTrace TraceOf(int64_t operators, int64_t micro_batches) {
  GptTraceOptions options;
  options.layers = std::max<int64_t>(1, operators / 32 / micro_batches);
  options.channels = 256;
  options.vocabulary = 1000;
  options.batch = 2;
  options.sequence = 64;
  options.chunk_elements = 1 << 20;
  options.micro_batches = micro_batches;
  return GptTrace(options);
}

// The median of the processor's seconds that a plan takes.
double PlanSeconds(const PlanRequest& request) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const double start = ProcessorSeconds();
    const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
    seconds.push_back(ProcessorSeconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kRepeats / 2];
}

void Row(int64_t operators, int64_t micro_batches) {
  const StepTrace trace = TraceOf(operators, micro_batches);
  PlanRequest request;
  request.trace = &trace;
  request.bus = BusForShare(trace, 1.0);
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  for (const int64_t tenths : {0, 2, 6}) {
    request.device_budget_bytes = least + (most - least) * tenths / 10;
    const double seconds = PlanSeconds(request);
    StepTrace clipped = trace;
    clipped.global_norm = true;
    PlanRequest ahead = request;
    ahead.trace = &clipped;
    const double clipped_seconds = PlanSeconds(ahead);
    ahead.speculation.host_bytes = kUnlimitedBytes;
    std::printf("%9zu %7zu %6ld %7ld %% %9.3f %9.3f %9.3f\n", trace.ops.size(),
                trace.chunks.size(), static_cast<long>(micro_batches),
                static_cast<long>(10 * tenths), seconds, clipped_seconds,
                PlanSeconds(ahead));
  }
}

// 6 layers in some 38 chunks. Operators take 3 us and more, as they do on the
// host.
StepTrace SmallTrace(int64_t channels) {
  GptTraceOptions options;
  options.layers = 6;
  options.channels = channels;
  options.vocabulary = 256;
  options.batch = 2;
  options.sequence = 16;
  options.micro_batches = 4;
  options.chunk_elements = channels * channels;
  options.flops_per_s = 2e10;
  options.device_bytes_per_s = options.host_bytes_per_s = 1e10;
  StepTrace trace = GptTrace(options);
  trace.global_norm = true;
  for (OpRecord& op : trace.ops) {
    op.duration_ns += 3000;
    if (op.kind != OpKind::kCompute) op.host_duration_ns += 2000;
  }
  return trace;
}

void SmallRow(int64_t channels, double bus_share) {
  const StepTrace trace = SmallTrace(channels);
  PlanRequest request;
  request.trace = &trace;
  request.bus = BusForShare(trace, bus_share);
  request.bus.latency_ns = 1000;
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  for (const int64_t percent : {0, 2, 10, 30}) {
    request.device_budget_bytes = least + (most - least) * percent / 100;
    const double seconds = PlanSeconds(request);
    const Plan plan = std::get<Plan>(MakePlan(FindPolicy("auto"), request));
    const double step_seconds =
        1e-9 * static_cast<double>(SimulatePlan(plan, request).step_ns);
    std::printf("%9zu %7zu %8ld %6.1f %7ld %% %9.3f %9.3f %9.1f\n",
                trace.ops.size(), trace.chunks.size(),
                static_cast<long>(channels), bus_share,
                static_cast<long>(percent), 1e3 * step_seconds, seconds,
                seconds / step_seconds);
  }
}

// Blocks of three operators on a chunk of their own, which take the bus as long
// as four operators.
void BlocksRow(int64_t blocks, int64_t operator_ns) {
  const StepTrace trace = ChainOf(std::vector<BlockSizes>(
      blocks, {.payload_bytes = 16 * kChainUnit,
               .made_bytes = {8 * kChainUnit, 8 * kChainUnit},
               .operator_ns = operator_ns}));
  PlanRequest request;
  request.trace = &trace;
  const double bytes_per_s =
      16e9 * kChainUnit / (4 * static_cast<double>(operator_ns));
  request.bus = {bytes_per_s, bytes_per_s, /*latency_ns=*/500};
  const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
  const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
  for (const int64_t percent : {5, 30}) {
    request.device_budget_bytes = least + (most - least) * percent / 100;
    const double start = ProcessorSeconds();
    const BlockChoice choice = std::get<BlockChoice>(ChooseKeptBlocks(
        FindPolicy("auto"), trace, [&](const StepTrace& other) {
          PlanRequest with = request;
          with.trace = &other;
          return with;
        }));
    const double seconds = ProcessorSeconds() - start;
    const double step_seconds = 1e-9 * static_cast<double>(choice.cost.step_ns);
    std::printf("%9zu %7ld %8ld %6s %7ld %% %9.3f %9.3f %9.1f\n",
                trace.ops.size(), static_cast<long>(blocks),
                static_cast<long>(operator_ns), "", static_cast<long>(percent),
                1e3 * step_seconds, seconds, seconds / step_seconds);
  }
}

}  // namespace
}  // namespace castor

int main() {
  std::printf(
      "processor time of MakePlan(auto), bus for 1.0 of compute; budget: of "
      "the way from the smallest to everything\n%9s %7s %6s %9s %9s %9s %9s\n",
      "operators", "chunks", "A", "budget", "plan s", "clipped", "ahead");
  for (const int64_t operators : {1000, 10000, 100000}) {
    for (const int64_t micro_batches : {1, 8}) {
      castor::Row(operators, micro_batches);
    }
  }
  std::printf("\n%9s %7s %8s %6s %9s %9s %9s %9s\n", "operators", "chunks",
              "channels", "bus", "budget", "step ms", "plan s", "steps");
  for (const int64_t channels : {16, 32, 64}) {
    for (const double bus_share : {0.2, 1.0}) {
      castor::SmallRow(channels, bus_share);
    }
  }
  std::printf("\n%9s %7s %8s %6s %9s %9s %9s %9s\n", "operators", "blocks",
              "ns", "", "budget", "step ms", "choice s", "steps");
  for (const int64_t blocks : {12, 30, 57}) {
    for (const int64_t operator_ns : {2000, 5000, 20000}) {
      castor::BlocksRow(blocks, operator_ns);
    }
  }
  return 0;
}
