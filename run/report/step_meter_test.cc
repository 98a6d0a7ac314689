#include "run/report/step_meter.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace castor {
namespace {

class StepMeterTest : public ::testing::Test {
 protected:
  void Work(StreamId stream, WorkTag tag, int64_t start_ns, int64_t end_ns) {
    timeline_.OnWork(stream, 1, tag.Pack(), start_ns, end_ns);
  }
  void Wait(StreamId stream, WorkTag tag, int64_t start_ns, int64_t end_ns) {
    timeline_.OnWait(stream, 1, tag.Pack(), Fence(), start_ns, end_ns);
  }
  static WorkTag Op(uint16_t step, int64_t moment) {
    return {.kind = WorkKind::kOperator, .step = step, .moment = moment};
  }
  static constexpr StreamId kCompute = StreamId::kCompute;
  static constexpr StreamId kUp = StreamId::kHostToDevice;
  static constexpr StreamId kDown = StreamId::kDeviceToHost;
  static constexpr StreamId kHost = StreamId::kHostCompute;

  Timeline timeline_;
  StepMeter meter_{&timeline_};
};

TEST_F(StepMeterTest, StepLastsFromTheEndOfTheOneBefore) {
  meter_.Restart(1000);
  meter_.Issued(1, {.step = 1, .loss = 5});
  Work(kCompute, Op(1, 0), 1500, 2000);
  Work(kHost, {.kind = WorkKind::kUpdate, .step = 1}, 2000, 4000);
  meter_.Issued(2, {.step = 2});
  // The next step's first operator ran while the host updated.
  Work(kCompute, Op(2, 0), 2500, 3000);
  Work(kCompute, Op(2, 1), 4000, 5000);
  meter_.FinaliseAll();
  const std::vector<StepReport> reports = meter_.TakeReports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].step, 1);
  EXPECT_EQ(reports[0].loss, 5);
  EXPECT_DOUBLE_EQ(reports[0].seconds, 3000e-9);
  EXPECT_DOUBLE_EQ(reports[1].seconds, 1000e-9);
  EXPECT_TRUE(meter_.TakeReports().empty());
}

TEST_F(StepMeterTest, StallsAreTheComputeStreamsWaitsAlone) {
  meter_.Issued(1, {.step = 1});
  Wait(kCompute, Op(1, 0), 0, 100);
  Work(kCompute, Op(1, 0), 100, 200);
  Wait(kCompute, Op(1, 1), 200, 250);
  Wait(kUp, Op(1, 1), 0, 1000);
  Wait(kHost, Op(1, 1), 0, 1000);
  meter_.FinaliseAll();
  EXPECT_DOUBLE_EQ(meter_.TakeReports()[0].stall_seconds, 150e-9);
}

TEST_F(StepMeterTest, OpenStepsStayOpen) {
  meter_.Issued(7, {.step = 1});
  meter_.Issued(8, {.step = 2});
  Work(kCompute, Op(7, 0), 0, 100);
  meter_.FinaliseBefore(8);
  ASSERT_EQ(meter_.TakeReports().size(), 1u);
  meter_.FinaliseBefore(8);
  EXPECT_TRUE(meter_.TakeReports().empty());
  Work(kCompute, Op(8, 0), 100, 300);
  meter_.FinaliseAll();
  const std::vector<StepReport> reports = meter_.TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].step, 2);
  EXPECT_DOUBLE_EQ(reports[0].seconds, 200e-9);
}

TEST_F(StepMeterTest, RestartLeavesOutWhatCameBefore) {
  meter_.Issued(1, {.step = 1});
  Work(kCompute, Op(1, 0), 0, 100);
  meter_.FinaliseAll();
  // An evaluation's work, step 2 of the tags, belongs to no training step.
  Work(kCompute, Op(2, 0), 100, 900);
  meter_.Restart(1000);
  meter_.Issued(3, {.step = 2});
  Work(kCompute, Op(3, 0), 1000, 1050);
  meter_.FinaliseAll();
  const std::vector<StepReport> reports = meter_.TakeReports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_DOUBLE_EQ(reports[1].seconds, 50e-9);
}

TEST_F(StepMeterTest, TagsMayWrapAround) {
  meter_.Issued(65535, {.step = 65535});
  Work(kCompute, Op(65535, 0), 0, 10);
  meter_.Issued(1, {.step = 65536});
  Work(kCompute, Op(1, 0), 10, 30);
  meter_.FinaliseBefore(1);
  EXPECT_EQ(meter_.TakeReports()[0].step, 65535);
  meter_.FinaliseAll();
  EXPECT_DOUBLE_EQ(meter_.TakeReports()[0].seconds, 20e-9);
}

TEST_F(StepMeterTest, KeepsTheDurationsOfStepsThatFollowAPlan) {
  meter_.Issued(1, {.step = 1});
  meter_.Issued(2, {.step = 2}, /*plan=*/7);
  meter_.Issued(3, {.step = 3}, /*plan=*/7);
  Work(kCompute, Op(1, 0), 0, 10);
  Work(kCompute, Op(2, 0), 10, 40);
  Wait(kCompute, Op(2, 1), 40, 60);
  Work(kCompute, Op(2, 1), 61, 65);
  // The third step's work comes between, and does not count for the second.
  Work(kCompute, Op(3, 0), 70, 99);
  Work(kHost, {.kind = WorkKind::kReduce, .step = 2, .moment = 2}, 65, 90);
  meter_.FinaliseBefore(3);
  const std::vector<FinishedStep> finished = meter_.TakeFinished();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_TRUE(meter_.TakeFinished().empty());
  EXPECT_EQ(finished[0].step, 2);
  EXPECT_EQ(finished[0].plan, 7);
  EXPECT_DOUBLE_EQ(finished[0].seconds, 80e-9);
  StepTrace trace;
  trace.measured = true;
  trace.ops.resize(3);
  trace.ops[2].kind = OpKind::kReduce;
  BusModel bus;
  finished[0].durations.Fill(DurationMeter::Statistic::kMedian, &trace, &bus);
  EXPECT_EQ(trace.ops[0].duration_ns, 30);
  EXPECT_EQ(trace.ops[1].duration_ns, 5);  // with the pause behind the wait
  EXPECT_EQ(trace.ops[2].host_duration_ns, 25);
  meter_.FinaliseAll();
  EXPECT_EQ(meter_.TakeFinished().size(), 1u);
}

TEST_F(StepMeterTest, MeasuresTheLeastOfEachOperatorAndTheBus) {
  StepTrace trace;
  trace.chunks.resize(2);
  trace.chunks[0].payload_bytes = 4000;
  trace.chunks[1].payload_bytes = 1000;
  trace.ops.resize(4);
  trace.ops[2].kind = OpKind::kReduce;
  trace.ops[3].kind = OpKind::kUpdate;
  for (OpRecord& op : trace.ops) op.duration_ns = 77;
  Work(kCompute, Op(0, 0), 0, 1);  // before the measurement
  meter_.StartMeasuring();
  Work(kCompute, Op(1, 0), 0, 1);  // before it begins
  meter_.StartMeasuring();
  meter_.Issued(1, {.step = 1});
  Work(kCompute, Op(1, 0), 0, 500);
  Work(kCompute, Op(2, 0), 500, 800);
  Wait(kCompute, Op(1, 1), 0, 5);  // no measurement of operator 1
  auto chunk_work = [](WorkKind kind, int64_t moment, int64_t chunk) {
    return WorkTag{.kind = kind, .step = 1, .moment = moment, .chunk = chunk};
  };
  Work(kHost, chunk_work(WorkKind::kReduce, 2, 0), 0, 40);
  Work(kHost, chunk_work(WorkKind::kUpdate, 3, 0), 0, 60);
  Work(kCompute, chunk_work(WorkKind::kUpdate, 3, 0), 0, 20);
  // 5000 bytes in 2500 ns up, 1000 in 250 down.
  Work(kUp, chunk_work(WorkKind::kFetch, 0, 0), 0, 2000);
  Work(kUp, chunk_work(WorkKind::kFetch, 0, 1), 2000, 2500);
  Work(kDown, chunk_work(WorkKind::kCopyBack, 1, 1), 0, 250);
  Work(kUp, {.kind = WorkKind::kInput, .step = 1}, 0, 100000);
  meter_.FinaliseAll();
  BusModel bus;
  meter_.Measure(&trace, &bus);
  EXPECT_TRUE(trace.measured);
  EXPECT_EQ(trace.ops[0].duration_ns, 300);
  EXPECT_EQ(trace.ops[1].duration_ns, 77);
  EXPECT_EQ(trace.ops[2].duration_ns, 40);  // seen on the host alone
  EXPECT_EQ(trace.ops[2].host_duration_ns, 40);
  EXPECT_EQ(trace.ops[3].duration_ns, 20);
  EXPECT_EQ(trace.ops[3].host_duration_ns, 60);
  EXPECT_DOUBLE_EQ(bus.h2d_bytes_per_s, 2e9);
  EXPECT_DOUBLE_EQ(bus.d2h_bytes_per_s, 4e9);

  // A second step that was measured only makes durations less.
  meter_.StartMeasuring();
  Work(kCompute, Op(3, 0), 0, 200);
  Work(kCompute, Op(3, 1), 200, 230);
  Work(kHost, chunk_work(WorkKind::kReduce, 2, 0), 0, 90);
  meter_.Measure(&trace, &bus);
  EXPECT_EQ(trace.ops[0].duration_ns, 200);
  EXPECT_EQ(trace.ops[1].duration_ns, 30);
  EXPECT_EQ(trace.ops[2].host_duration_ns, 40);
  EXPECT_EQ(trace.ops[3].duration_ns, 20);
}

TEST_F(StepMeterTest, SecondMeasurementKeepsWhatWasLess) {
  StepTrace trace;
  trace.ops.resize(2);
  BusModel bus;
  for (int64_t ns : {100, 300}) {
    meter_.StartMeasuring();
    Work(kCompute, Op(1, 0), 0, ns);
    Work(kCompute, Op(1, 1), 0, 400 - ns);
    meter_.Measure(&trace, &bus);
  }
  EXPECT_EQ(trace.ops[0].duration_ns, 100);
  EXPECT_EQ(trace.ops[1].duration_ns, 100);
}

TEST_F(StepMeterTest, MeasuresTheNetworkByTheExchangeThatWaitedLeast) {
  StepTrace trace;
  trace.chunks = {{4096, 0, {}, 1024}};
  trace.ops.resize(1);
  meter_.StartMeasuring();
  const WorkTag fetch = {
      .kind = WorkKind::kFetch, .step = 1, .moment = 0, .chunk = 0};
  Work(kUp, fetch, 0, 1024);
  // 3072 bytes of other ranks, of which one came late.
  Work(StreamId::kNetwork, fetch, 1024, 9000);
  Work(StreamId::kNetwork, fetch, 9000, 10536);
  BusModel bus;
  meter_.Measure(&trace, &bus);
  EXPECT_DOUBLE_EQ(bus.h2d_bytes_per_s, 1e9);
  EXPECT_DOUBLE_EQ(bus.network_bytes_per_s, 2e9);
  EXPECT_EQ(trace.ops[0].duration_ns, 0);  // no operator's
}

TEST_F(StepMeterTest, BusThatWasNotUsedKeepsItsSpeed) {
  StepTrace trace;
  meter_.StartMeasuring();
  BusModel bus = {.h2d_bytes_per_s = 3, .d2h_bytes_per_s = 4};
  meter_.Measure(&trace, &bus);
  EXPECT_EQ(bus.h2d_bytes_per_s, 3);
  EXPECT_EQ(bus.d2h_bytes_per_s, 4);
}

}  // namespace
}  // namespace castor
