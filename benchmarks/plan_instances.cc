#include "benchmarks/plan_instances.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

struct Instance {
  std::string name;
  StepTrace trace;
  int world_size = 1;
};

GptTraceOptions Gpt(int64_t layers, int64_t channels, int64_t batch) {
  GptTraceOptions options;
  options.layers = layers;
  options.channels = channels;
  options.batch = batch;
  // Some three chunks a block.
  options.chunk_elements = std::max<int64_t>(1 << 20, 4 * channels * channels);
  return options;
}

// All but the last `trainable` of its chunks.
void Freeze(int64_t trainable, StepTrace* trace) {
  const int64_t frozen = static_cast<int64_t>(trace->chunks.size()) - trainable;
  for (int64_t c = 0; c < frozen; ++c) {
    trace->chunks[c].optimizer_bytes = trace->chunks[c].sum_bytes = 0;
  }
  std::vector<OpRecord> ops;
  for (OpRecord& op : trace->ops) {
    if (op.kind != OpKind::kCompute && op.chunks[0].chunk.value < frozen) {
      continue;
    }
    for (ChunkUse& use : op.chunks) use.writes &= use.chunk.value >= frozen;
    ops.push_back(std::move(op));
  }
  trace->ops = std::move(ops);
}

// Each rank has its share of every chunk.
void Shard(int world_size, StepTrace* trace) {
  for (ChunkInfo& chunk : trace->chunks) {
    chunk.shard_bytes = (chunk.payload_bytes + world_size - 1) / world_size;
    chunk.optimizer_bytes /= world_size;
    chunk.sum_bytes /= world_size;
  }
  for (OpRecord& op : trace->ops) {
    if (op.kind == OpKind::kCompute) continue;
    op.duration_ns /= world_size;
    op.host_duration_ns /= world_size;
  }
}

std::vector<Instance> Instances() {
  std::vector<Instance> all;
  const auto add = [&](const char* name, const GptTraceOptions& options) {
    all.push_back({name, GptTrace(options)});
    all.back().trace.global_norm = true;
  };
  add("GPT-2 124M", Gpt(12, 768, 4));
  GptTraceOptions untied = Gpt(12, 768, 4);
  untied.tied_embeddings = false;
  add("GPT-2 124M, untied", untied);
  GptTraceOptions many = Gpt(12, 768, 1);
  many.micro_batches = 8;
  add("GPT-2 124M, A = 8", many);
  add("GPT-2 355M", Gpt(24, 1024, 4));
  add("GPT-2 1.5B", Gpt(48, 1600, 4));
  add("GPT-2 1.5B, last 12 chunks trained", Gpt(48, 1600, 4));
  Freeze(12, &all.back().trace);
  GptTraceOptions two = Gpt(48, 1600, 2);
  two.micro_batches = 2;
  add("GPT-2 1.5B, A = 2, two ranks", two);
  Shard(2, &all.back().trace);
  all.back().world_size = 2;
  add("6.7B", Gpt(32, 4096, 4));
  add("13B", Gpt(40, 5120, 4));
  add("GPT-3 175B", Gpt(96, 12288, 2));
  add("wide, shallow: 4 x 8192", Gpt(4, 8192, 4));
  add("narrow, deep: 96 x 512", Gpt(96, 512, 4));
  return all;
}

double Ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

int Write(const std::string& folder, const std::vector<std::string>& budgets,
          const std::string& only,
          const std::vector<const PlacementPolicy*>& policies,
          const ProgramOf& program_of) {
  const std::string table = absl::StrCat(folder, "/plans.tsv");
  std::FILE* const rows = std::fopen(table.c_str(), "w");
  if (rows == nullptr) {
    std::fprintf(stderr, "plan_instances: cannot write %s\n", table.c_str());
    return 2;
  }
  std::fprintf(rows, "step\tbudget\tprogram");
  for (const PlacementPolicy* policy : policies) {
    std::fprintf(rows, "\t%s", std::string(policy->name).c_str());
  }
  std::fprintf(rows, "\n");
  int number = 0;
  for (const Instance& instance : Instances()) {
    if (!only.empty() && instance.name != only) continue;
    PlanRequest request;
    request.trace = &instance.trace;
    request.world_size = instance.world_size;
    request.bus = {20e9, 20e9, 10000, 10e9};
    const int64_t least = SmallestDeviceBudget(FindPolicy("auto"), request);
    const int64_t most = SmallestDeviceBudget(FindPolicy("cuda"), request);
    std::vector<int64_t> blocks;
    for (const ChunkInfo& chunk : instance.trace.chunks) {
      blocks.push_back(PayloadBlock(chunk));
    }
    std::sort(blocks.rbegin(), blocks.rend());
    for (const std::string& budget : budgets) {
      request.device_budget_bytes =
          budget == "smallest" ? least
          : budget == "two"
              ? least + blocks[0] + blocks[1]
              : least + (most - least) / 100 * std::atoi(budget.c_str());
      const std::string program = absl::StrCat(folder, "/", number, ".mps");
      std::fprintf(rows, "%s\t%s\t%d.mps", instance.name.c_str(),
                   budget.c_str(), number++);
      for (const PlacementPolicy* policy : policies) {
        const Plan plan = std::get<Plan>(MakePlan(policy, request));
        CASTOR_CHECK(plan.instead_of_unproven.empty());
        std::fprintf(rows, "\t%.6f", Ms(SimulatePlan(plan, request).step_ns));
      }
      std::fprintf(rows, "\n");
      std::FILE* const out = std::fopen(program.c_str(), "w");
      CASTOR_CHECK(out != nullptr);
      std::fputs(program_of(request).ToMps().c_str(), out);
      CASTOR_CHECK(std::fclose(out) == 0);
    }
  }
  return std::fclose(rows) == 0 ? 0 : 2;
}

}  // namespace

std::vector<const PlacementPolicy*> PoliciesThatMove() {
  std::vector<const PlacementPolicy*> policies;
  for (const PlacementPolicy& policy : Policies()) {
    if (!policy.admission.keeps_all_payloads) policies.push_back(&policy);
  }
  return policies;
}

int WritePlanInstances(int argc, char** argv,
                       const std::vector<const PlacementPolicy*>& policies,
                       const ProgramOf& program_of) {
  std::string folder, only;
  std::string budgets = "smallest,two,10,20,30,40,50,60,70,80,90";
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--budgets") == 0 && i + 1 < argc) {
      budgets = argv[++i];
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else if (folder.empty() && argv[i][0] != '-') {
      folder = argv[i];
    } else {
      std::fprintf(stderr, "plan_instances: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (folder.empty()) {
    std::fprintf(stderr, "plan_instances: which folder?\n");
    return 2;
  }
  return Write(folder, absl::StrSplit(budgets, ','), only, policies,
               program_of);
}

}  // namespace castor
