// Computes what the order of a step's micro batches costs, by the simulator:
// one after the other, as the runtime runs them, against all of a block's
// before the next block's. A chunk's gradients are added up in the same order
// in both.
//
//   bazel run -c opt //research:micro_batch_order -- [--layers N]
//       [--channels N] [--vocabulary N] [--batch N] [--length N]
//
// In the second order a block's parameters cross the bus once for the forward
// and once for the backward of all micro batches, and its sums need room only
// while backward is at it; but the inputs of all blocks, from which they are
// made again, are there for all micro batches at once. The head's forward,
// loss and backward run together, for a micro batch after the other, so that
// logits are there once. Embeddings are not tied, and no chunk has parameters
// of two layers.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "benchmarks/synthetic.h"
#include "memory/plan/check/trace_check.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

// Operators of a micro batch that stay together: of a block's forward, its
// backward, an embedding's, or the head's.
struct Part {
  std::string name;
  std::vector<OpRecord> ops;
  // Rows (inputs of blocks or their gradients) that a micro batch has before it
  // and after it, and that are in its own peaks either way.
  int64_t rows_before = 0;
  int64_t rows_after = 0;
};

std::string PartOf(const OpRecord& op, bool in_backward) {
  if (op.name.rfind("embed/", 0) == 0) return op.name;
  if (op.name.rfind("h.", 0) != 0) return "head";
  return op.name.substr(0, op.name.find('.', 2)) +
         (in_backward ? "/backward" : "/forward");
}

// The parts of the trace's micro batches, in order, with the step's updates
// left in `updates`.
std::vector<std::vector<Part>> PartsOf(const StepTrace& trace, int64_t layers,
                                       std::vector<OpRecord>* updates) {
  std::vector<std::vector<Part>> parts;
  bool in_backward = false;
  for (const OpRecord& op : trace.ops) {
    if (op.kind == OpKind::kUpdate) {
      updates->push_back(op);
      continue;
    }
    if (op.name == "embed/forward") {
      parts.emplace_back();
      in_backward = false;
    }
    in_backward |= op.name == "head/backward";
    std::vector<Part>& mine = parts.back();
    // A reduce belongs to the operator before it.
    const std::string name =
        op.kind == OpKind::kReduce ? mine.back().name : PartOf(op, in_backward);
    if (mine.empty() || mine.back().name != name) {
      mine.push_back({name, {}, 0, 0});
    }
    mine.back().ops.push_back(op);
  }
  for (std::vector<Part>& mine : parts) {
    CASTOR_CHECK(static_cast<int64_t>(mine.size()) == 2 * layers + 3);
    int64_t rows = 0;
    for (size_t p = 0; p < mine.size(); ++p) {
      mine[p].rows_before = rows;
      const bool forward = static_cast<int64_t>(p) <= layers;
      const bool head = static_cast<int64_t>(p) == layers + 1;
      rows += forward ? 1 : head ? 0 : -1;
      mine[p].rows_after = rows;
    }
  }
  return parts;
}

// The same step with all micro batches of a part before the next part.
StepTrace BlockByBlock(const StepTrace& trace, int64_t layers,
                       int64_t row_bytes) {
  std::vector<OpRecord> updates;
  const std::vector<std::vector<Part>> parts = PartsOf(trace, layers, &updates);
  StepTrace ordered = trace;
  ordered.signature += " block by block";
  ordered.ops.clear();
  for (size_t p = 0; p < parts[0].size(); ++p) {
    for (size_t a = 0; a < parts.size(); ++a) {
      int64_t others = 0;  // of the other micro batches
      for (size_t b = 0; b < parts.size(); ++b) {
        if (b < a) others += parts[b][p].rows_after;
        if (b > a) others += parts[b][p].rows_before;
      }
      for (OpRecord op : parts[a][p].ops) {
        op.non_model_peak_bytes += others * row_bytes;
        ordered.ops.push_back(std::move(op));
      }
    }
  }
  ordered.ops.insert(ordered.ops.end(), updates.begin(), updates.end());
  CASTOR_CHECK(CheckTrace(ordered).ok());
  return ordered;
}

struct Outcome {
  PlanCost cost;
  bool fits = false;
};

Outcome PlanOf(const StepTrace& trace, int64_t budget, const BusModel& bus) {
  PlanRequest request;
  request.trace = &trace;
  request.bus = bus;
  request.device_budget_bytes = budget;
  const PlanOrRefusal plan = MakePlan(FindPolicy("auto"), request);
  if (!std::holds_alternative<Plan>(plan)) return {};
  return {SimulatePlan(std::get<Plan>(plan), request), true};
}

int64_t SmallestBudget(const StepTrace& trace, const char* policy) {
  PlanRequest request;
  request.trace = &trace;
  return SmallestDeviceBudget(FindPolicy(policy), request);
}

void Measure(GptTraceOptions options) {
  const int64_t row_bytes = options.batch * options.sequence *
                            options.channels * options.bytes_per_element;
  std::printf(
      "GPT-2 %ld x %ld, V %ld, %ld x %ld tokens a micro batch, bf16, untied, "
      "blocks made again, clipped\n",
      static_cast<long>(options.layers), static_cast<long>(options.channels),
      static_cast<long>(options.vocabulary), static_cast<long>(options.batch),
      static_cast<long>(options.sequence));
  std::printf("%3s %-12s %10s %10s %10s %8s %8s %8s %8s %8s\n", "A", "budget",
              "bytes", "bus GB/s", "in turn", "by block", "ratio", "compute",
              "MiB then", "MiB now");
  for (const int64_t micro_batches : {2, 4, 8}) {
    options.micro_batches = micro_batches;
    StepTrace in_turn = GptTrace(options);
    in_turn.global_norm = true;
    const StepTrace by_block = BlockByBlock(in_turn, options.layers, row_bytes);
    const int64_t least = SmallestBudget(in_turn, "auto");
    const int64_t most = SmallestBudget(in_turn, "cuda");
    const std::pair<const char*, int64_t> budgets[] = {
        {"smallest", least},
        {"its smallest", SmallestBudget(by_block, "auto")},
        {"5 %", least + (most - least) / 20},
        {"10 %", least + (most - least) / 10},
        {"20 %", least + (most - least) / 5},
        {"50 %", least + (most - least) / 2}};
    for (const auto& [name, budget] : budgets) {
      for (const double gb_per_s : {2.0, 8.0, 32.0}) {
        const BusModel bus = {1e9 * gb_per_s, 1e9 * gb_per_s, 10000};
        const Outcome then = PlanOf(in_turn, budget, bus);
        const Outcome now = PlanOf(by_block, budget, bus);
        const double then_ms = 1e-6 * static_cast<double>(then.cost.step_ns);
        const double compute_ms =
            1e-6 * static_cast<double>(
                       then.cost.busy_ns[static_cast<int>(Resource::kCompute)]);
        const auto mib = [](const PlanCost& cost) {
          return static_cast<double>(cost.h2d_bytes + cost.d2h_bytes) /
                 (1 << 20);
        };
        std::printf("%3ld %-12s %10s %10g %10.2f",
                    static_cast<long>(micro_batches), name,
                    FormatBytes(budget).c_str(), gb_per_s, then_ms);
        if (!now.fits) {
          std::printf(" %8s %8s %8.2f %8.0f %8s\n", "no room", "", compute_ms,
                      mib(then.cost), "");
          continue;
        }
        const double now_ms = 1e-6 * static_cast<double>(now.cost.step_ns);
        std::printf(" %8.2f %8.3f %8.2f %8.0f %8.0f\n", now_ms,
                    now_ms / then_ms, compute_ms, mib(then.cost),
                    mib(now.cost));
      }
    }
  }
  std::printf(
      "in turn, by block: ms of a step in the two orders; ratio: of the second "
      "over the first; compute: ms of the operators; MiB: over the bus, both "
      "ways\n");
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  castor::GptTraceOptions options;
  options.vocabulary = 8192;
  options.batch = 1;
  options.tied_embeddings = false;
  options.chunks_of_one_layer = true;
  const auto take = [&](int* at) {
    return castor::TakeNumber("--layers", argc, argv, at, &options.layers) ||
           castor::TakeNumber("--channels", argc, argv, at,
                              &options.channels) ||
           castor::TakeNumber("--vocabulary", argc, argv, at,
                              &options.vocabulary) ||
           castor::TakeNumber("--batch", argc, argv, at, &options.batch) ||
           castor::TakeNumber("--length", argc, argv, at, &options.sequence);
  };
  if (!castor::TakeArguments("micro_batch_order", argc, argv, take)) return 2;
  castor::Measure(options);
}
