// A trace that a test draws by hand, event by event, with round numbers.
#ifndef CASTOR_INSIGHT_TRACE_SKETCH_H_
#define CASTOR_INSIGHT_TRACE_SKETCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tracer/trace_file.h"

namespace castor {

// Streams by number: 0 compute, 1 to the device, 2 to the host, 3 the host's.
// Counts are given in the order of calls.
//
// The program has two chunks of 1000 and 2000 payload bytes, with 3000 and 6000
// bytes of optimizer states, and these operators:
//   0 a/forward(c0)   1 b/forward(c1)
//   2 b/backward(c1, writes)   3 reduce(c1)
//   4 a/backward(c0, writes)   5 reduce(c0)
//   6 update(c0)   7 update(c1)
class TraceSketch {
 public:
  TraceSketch() {
    contents.run = RunRecord{.title = "sketch",
                             .device = "host",
                             .policy = "auto",
                             .device_budget_bytes = 10'000,
                             .host_budget_bytes = kUnlimitedBytes,
                             .steps = 3,
                             .tokens_per_step = 100,
                             .threads = 2,
                             .categories = {"parameters", "activations"},
                             .streams = {"compute", "host_to_device",
                                         "device_to_host", "host_compute"}};
    StepTrace& trace = contents.step_traces.emplace_back();
    trace.signature = "two chunks";
    trace.chunks = {{1'000, 3'000, {"a.weight"}},
                    {2'000, 6'000, {"b.weight", "b.bias", "c.weight"}}};
    using enum OpKind;
    using enum Phase;
    const ChunkUse read0 = {ChunkId(0)}, read1 = {ChunkId(1)};
    const ChunkUse write0 = {ChunkId(0), true}, write1 = {ChunkId(1), true};
    AddOp(trace, "a/forward", kCompute, kForward, {read0});
    AddOp(trace, "b/forward", kCompute, kForward, {read1});
    AddOp(trace, "b/backward", kCompute, kBackward, {write1});
    AddOp(trace, "reduce/chunk 1", kReduce, kBackward, {write1});
    AddOp(trace, "a/backward", kCompute, kBackward, {write0});
    AddOp(trace, "reduce/chunk 0", kReduce, kBackward, {write0});
    AddOp(trace, "update/chunk 0", kUpdate, kOptimizer, {write0});
    AddOp(trace, "update/chunk 1", kUpdate, kOptimizer, {write1});
  }

  // Chunk 0 stays on the device up to its reduce and comes back for the next
  // step; chunk 1 is fetched for operator 1, when operator 0 is about to begin.
  int64_t AddPlan() {
    PlanRecord& plan = contents.plans.emplace_back();
    plan.policy = "auto";
    plan.device_budget_bytes = 10'000;
    plan.h2d_bytes_per_s = plan.d2h_bytes_per_s = 1e9;
    plan.initial = {ChunkId(0)};
    Act(plan, 0, ActionKind::kFetch, 1, 1);
    Act(plan, 3, ActionKind::kCopyBack, 1, 3);
    Act(plan, 3, ActionKind::kDrop, 1, 3);
    Act(plan, 5, ActionKind::kCopyBack, 0, 5);
    Act(plan, 5, ActionKind::kDrop, 0, 5);
    Act(plan, 8, ActionKind::kFetch, 0, 0);
    plan.predicted = {.step_ns = 1'000,
                      .h2d_bytes = 3'000,
                      .d2h_bytes = 3'000,
                      .device_peak_bytes = 5'000,
                      .least_h2d_bytes = 3'000,
                      .op_start_ns = {0, 100, 200, 300, 400, 500, 600, 700},
                      .device_bytes = {5'000, 4'000, 4'000, 3'000, 3'000, 2'000,
                                       2'000, 2'000}};
    return static_cast<int64_t>(contents.plans.size()) - 1;
  }

  static void Act(PlanRecord& plan, int64_t moment, ActionKind kind,
                  int64_t chunk, int64_t because) {
    plan.actions.push_back(
        {Moment(moment), kind, ChunkId(chunk), Moment(because)});
  }

  // Block 0 is operator 0, whose activations, 200 bytes in two tensors, are
  // chunk 2 from operator 1 on, until operator 4 reads them; 50 bytes more stay
  // on the device. Block 1 is operator 1, and keeps 300 bytes; block 2 is
  // operator 2, and is made again in place of keeping 400.
  void AddActivations() {
    StepTrace& trace = contents.step_traces[0];
    ChunkInfo& chunk = trace.chunks.emplace_back();
    chunk.payload_bytes = 200;
    chunk.parameters = {"activations of block 0"};
    chunk.block = 0;
    chunk.pieces = 2;
    trace.ops[1].chunks.push_back({ChunkId(2), true});
    trace.ops[4].chunks.push_back({ChunkId(2), false});
    const auto block = [](int64_t number, bool kept, int64_t forward,
                          int64_t backward, int64_t bytes) {
      BlockRecord record;
      record.block = number;
      record.kept = kept;
      record.forward = Moment(forward);
      record.backward = Moment(backward);
      record.kept_bytes = bytes;
      record.kept_peak_bytes = {0};
      return record;
    };
    trace.blocks = {block(0, true, 0, 4, 250), block(1, true, 1, 3, 300),
                    block(2, false, 2, 4, 400)};
    trace.blocks[0].offload_pieces = 2;
    trace.blocks[0].offload_bytes = 200;
    trace.blocks[0].offloaded = true;
  }

  int64_t AddStep(int64_t step, int64_t plan, int64_t time_ns) {
    const int64_t index = static_cast<int64_t>(contents.steps.size());
    contents.steps.push_back({index + 1, step, plan, time_ns});
    return index;
  }

  // Returns its count.
  int64_t Work(int64_t stream, WorkKind kind, int64_t step, int64_t moment,
               int64_t chunk, int64_t start_ns, int64_t end_ns) {
    contents.works.push_back({stream, ++counts_[stream], kind, step,
                              Moment(moment), ChunkId(chunk), start_ns,
                              end_ns});
    return counts_[stream];
  }
  int64_t Op(int64_t step, int64_t moment, int64_t start_ns, int64_t end_ns) {
    return Work(0, WorkKind::kOperator, step, moment, -1, start_ns, end_ns);
  }

  // The kind is that of the work that waits.
  int64_t Wait(int64_t stream, WorkKind kind, int64_t step, int64_t moment,
               int64_t chunk, int64_t start_ns, int64_t end_ns,
               WaitRecord::Untils until) {
    contents.waits.push_back(
        {{stream, ++counts_[stream], kind, step, Moment(moment), ChunkId(chunk),
          start_ns, end_ns},
         std::move(until)});
    return counts_[stream];
  }

  void Issue(int64_t step, int64_t moment, int64_t time_ns,
             std::vector<int64_t> bytes) {
    int64_t used = 0;
    for (const int64_t value : bytes) used += value;
    contents.issues.push_back(
        {step, Moment(moment), time_ns, used, std::move(bytes)});
  }

  void Result(int64_t step, int64_t start_ns, int64_t end_ns) {
    contents.results.push_back({.step = step,
                                .end_ns = end_ns,
                                .duration_ns = end_ns - start_ns,
                                .h2d_bytes = 3'000,
                                .d2h_bytes = 3'000,
                                .loss = 2.5});
  }

  TraceContents contents;

 private:
  static void AddOp(StepTrace& trace, std::string name, OpKind kind,
                    Phase phase, std::vector<ChunkUse> chunks) {
    trace.ops.push_back({.name = std::move(name),
                         .kind = kind,
                         .phase = phase,
                         .chunks = std::move(chunks),
                         .non_model_peak_bytes = 100,
                         .duration_ns = 100,
                         .host_duration_ns = 100,
                         .shapes = "[2] -> [2]"});
  }

  std::map<int64_t, int64_t> counts_;
};

// One step on AddPlan's plan, from 0 to 1000:
//
//   compute    |a/fwd 0-100|wait 100-300|b/fwd 300-400|b/bwd 400-500|
//              |a/bwd 500-600|
//   to device  |fetch c1 50-300|        ...   |wait 800-900|fetch c0 900-1000|
//   to host    |wait 0-500|copy back c1 500-600|copy back c0 600-700|
//   CPU        reduce c1 600-650, reduce c0 700-800, update c0 800-900,
//              update c1 900-950
inline TraceSketch OneStep() {
  TraceSketch sketch;
  const int64_t plan = sketch.AddPlan();
  const int64_t s = sketch.AddStep(1, plan, 0);
  using enum WorkKind;
  sketch.Op(s, 0, 0, 100);
  const int64_t c1 = sketch.Work(1, kFetch, s, 0, 1, 50, 300);
  sketch.Wait(0, kOperator, s, 1, 1, 100, 300, {{1, c1}});
  sketch.Op(s, 1, 300, 400);
  const int64_t b = sketch.Op(s, 2, 400, 500);
  sketch.Wait(2, kCopyBack, s, 3, 1, 0, 500, {{0, b}});
  const int64_t back1 = sketch.Work(2, kCopyBack, s, 3, 1, 500, 600);
  sketch.Wait(3, kReduce, s, 3, 1, 0, 600, {{2, back1}});
  sketch.Work(3, kReduce, s, 3, 1, 600, 650);
  sketch.Op(s, 4, 500, 600);
  const int64_t back0 = sketch.Work(2, kCopyBack, s, 5, 0, 600, 700);
  sketch.Wait(3, kReduce, s, 5, 0, 650, 700, {{2, back0}});
  sketch.Work(3, kReduce, s, 5, 0, 700, 800);
  const int64_t update = sketch.Work(3, kUpdate, s, 6, 0, 800, 900);
  sketch.Work(3, kUpdate, s, 7, 1, 900, 950);
  sketch.Wait(1, kFetch, s, 8, 0, 800, 900, {{3, update}});
  sketch.Work(1, kFetch, s, 8, 0, 900, 1'000);
  sketch.Issue(s, 0, 0, {3'000, 100});
  sketch.Issue(s, 1, 1, {3'000, 200});
  sketch.Issue(s, 2, 2, {3'000, 300});
  sketch.Issue(s, 3, 3, {1'000, 300});
  sketch.Issue(s, 4, 4, {1'000, 100});
  sketch.Result(1, 0, 1'000);
  sketch.contents.end = EndRecord{"finished", "", 1'000};
  return sketch;
}

}  // namespace castor

#endif  // CASTOR_INSIGHT_TRACE_SKETCH_H_
