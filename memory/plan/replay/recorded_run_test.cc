// Traces of a model with one chunk: upload, forward, backward, reduce, update.
#include "memory/plan/replay/recorded_run.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "memory/plan/planner/planner.h"
#include "memory/plan/replay/recorded_plan.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

enum Stream { kCompute, kToDevice, kFromDevice, kHost };

StepTrace SmallTrace() {
  return TraceBuilder()
      .Chunk(1000, 4096)
      .Read({0}, 0, 7)
      .Write({0}, 0, 7)
      .Reduce(0, 7, 7)
      .Update(0, 7, 7)
      .Build();
}

class Recording {
 public:
  Recording() {
    contents_.run = RunRecord{.policy = "cpu", .tokens_per_step = 512};
    contents_.run->streams = {"compute", "host_to_device", "device_to_host",
                              "host_compute"};
    contents_.step_traces = {SmallTrace()};
    PlanRequest request;
    request.trace = &contents_.step_traces[0];
    request.device_budget_bytes = 8192;
    request.bus = ByteBus();
    plan_ = std::get<Plan>(MakePlan(FindPolicy("cpu"), request));
    const PlanCost cost = SimulatePlan(plan_, request);
    contents_.plans = {RecordPlan(plan_, request, cost, 0, /*warmup=*/true),
                       RecordPlan(plan_, request, cost, 0, /*warmup=*/false)};
  }

  // A step whose forward takes `forward_ns` after a pause of 5, whose backward
  // waits for moves that wait for a copy.
  void Step(int64_t number, int64_t plan, int64_t forward_ns,
            int64_t moves_wait_ns = 0) {
    step_ = static_cast<int64_t>(contents_.steps.size());
    contents_.steps.push_back({.tag = number, .step = number, .plan = plan});
    const int64_t begin = now_ns_;
    Work(kCompute, WorkKind::kInput, -1, 10);
    now_ns_ += 5;
    Work(kCompute, WorkKind::kOperator, 0, forward_ns);
    if (moves_wait_ns > 0) Wait(moves_wait_ns);
    Work(kCompute, WorkKind::kOther, -1, 40);
    Work(kCompute, WorkKind::kOperator, 1, 300);
    Work(kFromDevice, WorkKind::kCopyBack, 2, 500, 0);
    Work(kHost, WorkKind::kReduce, 2, 70, 0);
    Work(kHost, WorkKind::kUpdate, 3, 90, 0);
    Work(kToDevice, WorkKind::kFetch, 4, 250, 0);
    fetch_count_ = count_;
    contents_.issues.push_back(
        {.step = step_, .moment = Moment(1), .used_bytes = 1000 + forward_ns});
    contents_.results.push_back({.step = number,
                                 .end_ns = now_ns_,
                                 .duration_ns = now_ns_ - begin,
                                 .stall_ns = number,
                                 .h2d_bytes = 1000,
                                 .d2h_bytes = 1000});
  }

  TraceContents& contents() { return contents_; }
  const Plan& plan() const { return plan_; }

 private:
  WorkRecord Next(int64_t stream, WorkKind kind, int64_t moment, int64_t ns,
                  int64_t chunk = -1) {
    WorkRecord work{.stream = stream,
                    .count = ++count_,
                    .kind = kind,
                    .step = step_,
                    .moment = Moment(moment),
                    .chunk = ChunkId(chunk),
                    .start_ns = now_ns_,
                    .end_ns = now_ns_ + ns};
    now_ns_ += ns;
    return work;
  }
  void Work(int64_t stream, WorkKind kind, int64_t moment, int64_t ns,
            int64_t chunk = -1) {
    contents_.works.push_back(Next(stream, kind, moment, ns, chunk));
  }
  void Wait(int64_t ns) {
    contents_.waits.push_back(
        {.waiter = Next(kCompute, WorkKind::kOther, -1, ns),
         .until = {{kToDevice, fetch_count_}}});
  }

  TraceContents contents_;
  Plan plan_;
  int64_t step_ = 0;
  int64_t now_ns_ = 0;
  int64_t count_ = 0;
  int64_t fetch_count_ = 0;  // of the last one
};

TEST(ReadRecordedRun, TakesDurationsOfTheStepsOnTheSettledPlan) {
  Recording recording;
  recording.Step(1, /*plan=*/0, 9000);
  recording.Step(2, /*plan=*/1, 8000);  // the first one on its plan
  recording.Step(3, /*plan=*/1, 100);
  recording.Step(4, /*plan=*/1, 200, /*moves_wait_ns=*/30'000);
  recording.Step(5, /*plan=*/1, 220, /*moves_wait_ns=*/30'000);
  recording.Step(6, /*plan=*/1, 5000, /*moves_wait_ns=*/90'000);
  const auto run = ReadRecordedRun(recording.contents());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->policy, FindPolicy("cpu"));
  EXPECT_EQ(run->tokens_per_step, 512);
  ASSERT_TRUE(run->plan.has_value());
  EXPECT_EQ(run->plan->actions, recording.plan().actions);

  // Steps 3 to 6; step 4 has the median length.
  EXPECT_EQ(run->measured.steps, 4);
  EXPECT_EQ(run->measured.step_ns, recording.contents().results[3].duration_ns);
  EXPECT_EQ(run->measured.stall_ns, 4);
  EXPECT_EQ(run->measured.h2d_bytes, 1000);
  EXPECT_EQ(run->measured.device_peak_bytes, 6000);
  const std::vector<OpRecord>& ops = run->training.trace.ops;
  EXPECT_EQ(ops[0].duration_ns, 5 + 200);
  EXPECT_EQ(ops[1].duration_ns, 300);
  EXPECT_EQ(ops[2].host_duration_ns, 70);
  EXPECT_EQ(ops[2].duration_ns, 7);  // never seen on the device
  EXPECT_EQ(ops[3].host_duration_ns, 90);
  ASSERT_EQ(run->overheads.moves.size(), 4u);
  EXPECT_EQ(run->overheads.moves[0].duration_ns, 0);
  EXPECT_EQ(run->overheads.moves[1].duration_ns, 40);
  EXPECT_TRUE(run->overheads.moves[0].after_fetches.empty());
  EXPECT_EQ(run->overheads.moves[1].after_fetches,
            (std::vector<ChunkId>{ChunkId(0)}));
  EXPECT_TRUE(run->overheads.moves[1].after_copies_back.empty());
  EXPECT_EQ(run->training.request.bus.h2d_bytes_per_s, 4e9);
  EXPECT_EQ(run->training.request.bus.d2h_bytes_per_s, 2e9);
  EXPECT_EQ(run->training.request.device_budget_bytes, 8192);
  EXPECT_EQ(RequestFor(run->training).trace, &run->training.trace);
}

TEST(ReadRecordedRun, AveragesTheMiddleOfManySteps) {
  Recording recording;
  for (const int64_t forward_ns : {900, 100, 210, 230, 100, 190}) {
    recording.Step(static_cast<int64_t>(recording.contents().steps.size()) + 2,
                   /*plan=*/1, forward_ns);
  }
  const auto run = ReadRecordedRun(recording.contents());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->measured.steps, 6);
  // The third of six is the median, 190; beside it 100 and 210.
  EXPECT_EQ(run->training.trace.ops[0].duration_ns, 5 + 167);
}

TEST(ReadRecordedRun, KeepsTheOnlyStepOnAPlan) {
  Recording recording;
  recording.Step(1, 0, 9000);
  recording.Step(2, 1, 8000);
  const auto run = ReadRecordedRun(recording.contents());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->measured.steps, 1);
  EXPECT_EQ(run->training.trace.ops[0].duration_ns, 8005);
}

TEST(ReadRecordedRun, CountsNoStepThatIsNotOver) {
  Recording recording;
  recording.Step(2, 1, 100);
  recording.Step(3, 1, 200);
  recording.Step(4, 1, 400);
  recording.contents().results.pop_back();
  const auto run = ReadRecordedRun(recording.contents());
  ASSERT_TRUE(run.ok()) << run.status();
  // The window begins with step 2: steps before it are not known to differ.
  EXPECT_EQ(run->measured.steps, 2);
}

TEST(ReadRecordedRun, KnowsOnlyWhatWasAskedOfAStoppedWarmup) {
  Recording recording;
  recording.contents().plans.pop_back();
  recording.contents().run->policy = "auto";
  recording.Step(1, 0, 100);
  const auto run = ReadRecordedRun(recording.contents());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->policy, FindPolicy("auto"));
  EXPECT_FALSE(run->plan.has_value());
  EXPECT_EQ(run->measured.steps, 0);
  EXPECT_EQ(run->training.trace.ops[0].duration_ns, 7);
}

TEST(ReadRecordedRun, TakesWhatARefusedRunAsked) {
  Recording recording;
  PlanRequest request;
  request.trace = &recording.contents().step_traces[0];
  request.device_budget_bytes = 12;
  recording.contents().plans = {RecordRequest(FindPolicy("auto"), request, 0)};
  const auto run = ReadRecordedRun(recording.contents());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->policy, FindPolicy("auto"));
  EXPECT_FALSE(run->plan.has_value());
  EXPECT_EQ(run->training.request.device_budget_bytes, 12);
}

TEST(ReadRecordedRun, KeepsEvaluationsThatHaveToFitToo) {
  Recording recording;
  TraceContents& contents = recording.contents();
  contents.step_traces.push_back(
      TraceBuilder().Evaluation().Chunk(1000, 4096).Read({0}, 64, 9).Build());
  contents.step_traces[1].signature = "evaluation";
  PlanRecord plan = contents.plans[1];
  plan.trace = 1;
  plan.actions.clear();
  contents.plans.push_back(plan);
  const auto run = ReadRecordedRun(contents);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->training.trace.training);
  ASSERT_EQ(run->evaluations.size(), 1u);
  EXPECT_EQ(run->evaluations[0].trace.signature, "evaluation");
}

TEST(ReadRecordedRun, RefusesWhatNothingCanBePlannedWith) {
  TraceContents nothing;
  EXPECT_EQ(ReadRecordedRun(nothing).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto with = [](auto change) {
    Recording recording;
    recording.contents().plans.pop_back();
    recording.contents().plans[0].warmup = false;
    change(recording.contents());
    return ReadRecordedRun(recording.contents()).status();
  };
  EXPECT_TRUE(with([](TraceContents&) {}).ok());
  const absl::StatusCode bad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(with([](TraceContents& c) { c.plans[0].policy = "?"; }).code(),
            bad);
  EXPECT_EQ(
      with([](TraceContents& c) { c.plans[0].h2d_bytes_per_s = 0; }).code(),
      bad);
  EXPECT_EQ(with([](TraceContents& c) {
              c.plans[0].d2h_bytes_per_s = 1e-300;
            }).code(),
            bad);
  EXPECT_EQ(with([](TraceContents& c) { c.plans[0].latency_ns = -1; }).code(),
            bad);
  EXPECT_EQ(with([](TraceContents& c) {
              c.plans[0].gpu_margin_mem_ratio = 2;
            }).code(),
            bad);
  EXPECT_EQ(with([](TraceContents& c) {
              c.step_traces[0].ops[0].duration_ns = -1;
            }).code(),
            bad);
}

TEST(ReadRecordedRun, TakesNothingFromAFileThatThePlannerCannotBear) {
  Recording recording;
  TraceContents& contents = recording.contents();
  contents.plans[1].policy = "cuda";
  contents.plans[1].fixed_sides = true;  // and all of them on the host
  contents.step_traces[0].ops[0].name = "a\x1b[2J\x7f";
  recording.Step(2, /*plan=*/1, 100);
  contents.works[2].end_ns += int64_t{1} << 59;  // moves
  const auto run = ReadRecordedRun(contents);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->training.request.fixed_side.empty());
  EXPECT_EQ(run->training.trace.ops[0].name, "a?[2J?");
  EXPECT_TRUE(run->overheads.moves.empty());
}

TEST(CheckRequest, RefusesStepsOfYears) {
  const StepTrace trace = SmallTrace();
  PlanRequest request;
  request.trace = &trace;
  EXPECT_TRUE(CheckRequest(request).ok());
  request.bus.h2d_bytes_per_s = 1e-5;
  EXPECT_EQ(CheckRequest(request).code(), absl::StatusCode::kInvalidArgument);
  request.bus = ByteBus();
  request.bus.latency_ns = int64_t{1} << 60;
  EXPECT_EQ(CheckRequest(request).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor
