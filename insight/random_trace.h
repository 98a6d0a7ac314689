// Traces drawn at random for tests, such as the reader accepts, or wilder ones.
#ifndef CASTOR_INSIGHT_RANDOM_TRACE_H_
#define CASTOR_INSIGHT_RANDOM_TRACE_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tracer/trace_file.h"

namespace castor {

class RandomTrace {
 public:
  // `wild`: also numbers out of range, which no reader would pass on.
  RandomTrace(uint64_t seed, bool wild) : random_(seed), wild_(wild) {}

  TraceContents Make() {
    TraceContents contents;
    if (wild_ && Below(8) == 0) return contents;
    RunRecord& run = contents.run.emplace();
    run.title = Name();
    run.device = "host";
    run.policy = "auto";
    run.device_budget_bytes = Below(2) == 0 ? kUnlimitedBytes : Below(10'000);
    run.tokens_per_step = Below(100);
    run.threads = Below(4);
    run.streams = {"compute", "host_to_device", "device_to_host",
                   "host_compute"};
    if (Below(4) == 0) run.streams.resize(1 + Below(4));
    if (Below(4) == 0) run.streams.push_back(Name());
    if (Below(2) == 0) run.streams.push_back("network");
    run.world_size = 1 + Below(4);
    for (int64_t i = Below(4); i >= 0; --i) run.categories.push_back(Name());
    if (wild_ && Below(8) == 0) contents.run.reset();
    streams_ = static_cast<int64_t>(run.streams.size());

    for (int64_t i = Below(3); i >= 0; --i) AddProgram(contents);
    for (int64_t i = Below(4); i > 0; --i) AddPlan(contents);
    if (!contents.plans.empty()) {
      for (int64_t i = Below(5); i > 0; --i) {
        contents.steps.push_back(
            {static_cast<int64_t>(contents.steps.size()) + 1, Below(4),
             Index(contents.plans.size()), Time()});
      }
    }
    for (int64_t i = Below(3); i > 0; --i) {
      contents.budgets.push_back({.time_ns = Time(),
                                  .step = Below(5),
                                  .from_bytes = Below(10'000),
                                  .to_bytes = Below(10'000),
                                  .asker = static_cast<BudgetAsker>(Below(3))});
    }
    for (int64_t i = Below(40); i > 0; --i) {
      contents.works.push_back(Work(contents));
      contents.works.back().count = i;  // in no order of time
    }
    // Some of the works get a record of the network, and so do some works that
    // are not there.
    for (int64_t i = Below(30); i > 0; --i) {
      contents.networks.push_back({.stream = streams_ - 1,
                                   .count = Below(45),
                                   .sequence = i,
                                   .last_rank = Index(5),
                                   .ready_ns = Time(),
                                   .received_bytes = Below(100)});
    }
    for (int64_t i = Below(30); i > 0; --i) {
      WaitRecord& wait = contents.waits.emplace_back();
      wait.waiter = Work(contents);
      wait.waiter.count = Below(40);
      for (int64_t u = Below(3); u >= 0; --u) {
        wait.until.push_back({Stream(), Below(45)});
      }
    }
    const size_t categories = run.categories.size();
    if (!contents.steps.empty()) {
      for (int64_t i = Below(20); i > 0; --i) AddIssue(contents, categories);
    }
    for (int64_t i = Below(5); i > 0; --i) {
      contents.hosts.push_back({Time(), Bytes(categories)});
    }
    for (int64_t i = Below(4); i > 0; --i) {
      contents.results.push_back({.step = 1 + Below(4),
                                  .end_ns = Time(),
                                  .duration_ns = Time(),
                                  .loss = static_cast<double>(Below(9))});
    }
    if (Below(3) == 0) contents.end = EndRecord{"finished", Name(), Time()};
    if (Below(8) == 0) {
      contents.refusal = RefusalRecord{Name(), "device", Name(), 1, 2, 3, 4};
    }
    contents.truncated = Below(4) == 0;
    return contents;
  }

 private:
  int64_t Below(int64_t limit) {
    return std::uniform_int_distribution<int64_t>(0, limit - 1)(random_);
  }
  // An index into a list of that size, or -1.
  int64_t Index(size_t size, bool or_none = false) {
    if (wild_ && Below(12) == 0) return Below(2) == 0 ? -7 : 1 << 20;
    if (size == 0 || (or_none && Below(3) == 0)) return or_none ? -1 : 0;
    return Below(static_cast<int64_t>(size));
  }
  int64_t Time() {
    if (wild_ && Below(20) == 0) return Below(2) == 0 ? -5 : INT64_MAX;
    if (Below(40) == 0) return kMaxTraceNumber;
    return Below(200);
  }
  int64_t Stream() { return Index(static_cast<size_t>(streams_)); }
  std::string Name() {
    static const std::vector<std::string>& names =
        *new std::vector<std::string>{"",
                                      "a",
                                      "h.0.attn.c_attn.weight",
                                      "</script>",
                                      "\"quoted\"",
                                      "=cmd|' /C calc'!A0",
                                      "a,b\r\nc",
                                      "\xC3\xA9t\xC3\xA9",
                                      "\xFF\xFE broken",
                                      std::string("nul\0l", 5),
                                      std::string(300, 'x')};
    return names[Below(static_cast<int64_t>(names.size()))];
  }
  std::vector<int64_t> Bytes(size_t categories) {
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < categories; ++i) bytes.push_back(Below(1'000));
    if (wild_ && Below(8) == 0) bytes.push_back(1);
    return bytes;
  }

  void AddProgram(TraceContents& contents) {
    StepTrace& trace = contents.step_traces.emplace_back();
    trace.signature = Below(2) == 0 ? "same" : Name();
    trace.training = Below(3) != 0;
    trace.micro_batches = 1 + Below(2);
    for (int64_t i = Below(4); i >= 0; --i) {
      trace.chunks.push_back({Below(1'000), Below(1'000), {Name(), Name()}});
    }
    for (int64_t i = Below(8); i > 0; --i) {
      OpRecord& op = trace.ops.emplace_back();
      op.name = Name();
      op.kind = static_cast<OpKind>(Below(3));
      op.phase = static_cast<Phase>(Below(3));
      for (int64_t u = Below(3); u > 0; --u) {
        op.chunks.push_back(
            {ChunkId(Index(trace.chunks.size())), Below(2) == 0});
      }
    }
    for (int64_t i = Below(3); i > 0; --i) AddBlock(trace);
  }

  void AddBlock(StepTrace& trace) {
    BlockRecord& block = trace.blocks.emplace_back();
    block.block = Below(4);
    block.kept = Below(3) != 0;
    block.forward = Moment(Index(trace.ops.size()));
    block.backward = Moment(Index(trace.ops.size() + 1));
    block.kept_bytes = Time() - 50;
    block.kept_peak_bytes.resize(Below(3));
    if (!block.kept || Below(2) == 0) return;
    block.offloaded = Below(4) != 0;
    block.offload_bytes = Time();
    ChunkInfo& chunk = trace.chunks[Below(trace.chunks.size())];
    chunk.block = block.block;
    chunk.pieces = block.offload_pieces = 1 + Below(3);
  }

  void AddPlan(TraceContents& contents) {
    PlanRecord& plan = contents.plans.emplace_back();
    plan.trace = Index(contents.step_traces.size());
    const int64_t known = std::min<int64_t>(
        std::max<int64_t>(plan.trace, 0),
        static_cast<int64_t>(contents.step_traces.size()) - 1);
    const StepTrace& trace = contents.step_traces[known];
    plan.policy = Below(2) == 0 ? "cpu" : "auto";
    plan.warmup = Below(3) == 0;
    plan.prefetch = Below(3) != 0;
    if (Below(2) == 0) plan.planned_addresses = Below(2) == 0;
    if (Below(2) == 0) {
      plan.predicted.moves = Below(100);
      plan.predicted.moved_bytes = Time();
    }
    plan.h2d_bytes_per_s = static_cast<double>(Below(1'000));
    for (size_t c = 0; c < trace.chunks.size(); ++c) {
      const ChunkId chunk(static_cast<int64_t>(c));
      if (Below(3) == 0) plan.device_side.push_back(chunk);
      if (Below(2) == 0) plan.initial.push_back(chunk);
    }
    for (int64_t i = Below(12); i > 0; --i) {
      plan.actions.push_back({Moment(Index(trace.ops.size() + 1)),
                              static_cast<ActionKind>(Below(kNumActionKinds)),
                              ChunkId(Index(trace.chunks.size())),
                              Moment(Index(trace.ops.size(), true))});
    }
    for (size_t t = 0; t < trace.ops.size(); ++t) {
      plan.predicted.op_start_ns.push_back(Time());
      plan.predicted.device_bytes.push_back(Below(1'000));
    }
  }

  const StepTrace* TraceOf(const TraceContents& contents, int64_t step) {
    if (contents.step_traces.empty()) return nullptr;
    if (step < 0 || step >= static_cast<int64_t>(contents.steps.size())) {
      return &contents.step_traces[0];
    }
    const int64_t plan = contents.steps[step].plan;
    if (plan < 0 || plan >= static_cast<int64_t>(contents.plans.size())) {
      return nullptr;
    }
    const int64_t trace = contents.plans[plan].trace;
    return trace < 0 ||
                   trace >= static_cast<int64_t>(contents.step_traces.size())
               ? nullptr
               : &contents.step_traces[trace];
  }

  WorkRecord Work(const TraceContents& contents) {
    WorkRecord work;
    work.stream = Stream();
    work.kind = static_cast<WorkKind>(Below(wild_ ? 14 : kNumWorkKinds));
    work.step = Index(contents.steps.size(), true);
    const StepTrace* const trace = TraceOf(contents, work.step);
    work.moment =
        Moment(Index(trace == nullptr ? 1 : trace->ops.size() + 1, true));
    work.chunk =
        ChunkId(Index(trace == nullptr ? 1 : trace->chunks.size(), true));
    work.start_ns = Time();
    work.end_ns = work.start_ns;
    if (wild_ && Below(10) == 0) {
      work.end_ns = Time();
    } else if (work.start_ns < kMaxTraceNumber) {
      work.end_ns += Below(60);
    }
    return work;
  }

  void AddIssue(TraceContents& contents, size_t categories) {
    IssueRecord& issue = contents.issues.emplace_back();
    issue.step = Index(contents.steps.size());
    const StepTrace* const trace = TraceOf(contents, issue.step);
    issue.moment = Moment(Index(trace == nullptr ? 1 : trace->ops.size()));
    issue.time_ns = Time();
    issue.bytes = Bytes(categories);
    for (const int64_t bytes : issue.bytes) issue.used_bytes += bytes;
  }

  std::mt19937_64 random_;
  const bool wild_;
  int64_t streams_ = 0;
};

}  // namespace castor

#endif  // CASTOR_INSIGHT_RANDOM_TRACE_H_
