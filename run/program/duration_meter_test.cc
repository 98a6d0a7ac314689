#include "run/program/duration_meter.h"

#include <gtest/gtest.h>

#include "tracer/work_tag.h"

namespace castor {
namespace {

constexpr StreamId kCompute = StreamId::kCompute;
constexpr StreamId kHost = StreamId::kHostCompute;

StepTrace OperatorAndUpdate() {
  StepTrace trace;
  trace.chunks.resize(1);
  trace.chunks[0].payload_bytes = 1000;
  trace.chunks[0].optimizer_bytes = 3000;
  trace.ops.resize(2);
  trace.ops[0].name = "op";
  trace.ops[1].name = "update";
  trace.ops[1].kind = OpKind::kUpdate;
  trace.ops[1].chunks = {{ChunkId(0), true}};
  return trace;
}

class DurationMeterTest : public testing::Test {
 protected:
  void Add(StreamId stream, WorkKind kind, int64_t moment, uint16_t tag,
           int64_t duration_ns, int64_t chunk = 0) {
    now_ += 1000;
    meter_.Add({.stream = static_cast<int64_t>(stream),
                .kind = kind,
                .moment = Moment(moment),
                .chunk = ChunkId(kind == WorkKind::kOperator ? -1 : chunk),
                .start_ns = now_,
                .end_ns = now_ + duration_ns,
                .tag = tag});
  }
  void Fill(DurationMeter::Statistic statistic) {
    meter_.Fill(statistic, &trace_, &bus_);
  }

  DurationMeter meter_;
  StepTrace trace_ = OperatorAndUpdate();
  BusModel bus_;
  int64_t now_ = 0;
};

TEST_F(DurationMeterTest, AddsUpTheWorksOfAnUpdateOfOneStep) {
  for (const int64_t rest : {0, 7, 2}) {
    const auto tag = static_cast<uint16_t>(rest + 1);
    Add(kCompute, WorkKind::kOperator, 0, tag, 50 + rest);
    // Two phases, and the sums over ranks between them.
    Add(kHost, WorkKind::kUpdate, 1, tag, 100 + rest);
    Add(StreamId::kNetwork, WorkKind::kUpdate, 1, tag, 900, /*chunk=*/-1);
    Add(kHost, WorkKind::kUpdate, 1, tag, 30);
  }
  Fill(DurationMeter::Statistic::kMedian);
  EXPECT_EQ(trace_.ops[0].duration_ns, 52);
  EXPECT_EQ(trace_.ops[1].host_duration_ns, 132);
  EXPECT_TRUE(trace_.measured);
}

TEST_F(DurationMeterTest, TakesTheNetworksUpdatesForTheDevices) {
  for (const uint16_t tag : {1, 2, 3}) {
    Add(kCompute, WorkKind::kOperator, 0, tag, 50);
    Add(StreamId::kNetwork, WorkKind::kExchange, 1, tag, 500);
    Add(StreamId::kNetwork, WorkKind::kUpdate, 1, tag, 70);
  }
  trace_.chunks[0].shard_bytes = 500;
  Fill(DurationMeter::Statistic::kMedian);
  EXPECT_EQ(trace_.ops[0].duration_ns, 50);
  EXPECT_EQ(trace_.ops[1].duration_ns, 70);
  // Updates on the network's stream move no bytes over the network.
  EXPECT_EQ(bus_.network_bytes_per_s, 1e9);
}

TEST_F(DurationMeterTest, TakesTheLeastButNeverMoreThanBefore) {
  for (const uint16_t tag : {1, 2}) {
    Add(kCompute, WorkKind::kOperator, 0, tag, 60 - tag);
    Add(kCompute, WorkKind::kUpdate, 1, tag, 200 + tag);
  }
  Fill(DurationMeter::Statistic::kLeast);
  EXPECT_EQ(trace_.ops[0].duration_ns, 58);
  // Not seen on the host: as long as on the device, for the first time.
  EXPECT_EQ(trace_.ops[1].duration_ns, 201);
  EXPECT_EQ(trace_.ops[1].host_duration_ns, 201);
  meter_ = DurationMeter();
  Add(kCompute, WorkKind::kOperator, 0, 3, 90);
  Add(kHost, WorkKind::kUpdate, 1, 3, 400);
  Fill(DurationMeter::Statistic::kLeast);
  EXPECT_EQ(trace_.ops[0].duration_ns, 58);
  EXPECT_EQ(trace_.ops[1].duration_ns, 201);
}

TEST_F(DurationMeterTest, CountsPausesThatNoWaitExplains) {
  for (const uint16_t tag : {1, 2, 3}) {
    Add(kCompute, WorkKind::kOperator, 0, tag, 100);
    // 900 after it; the pause of the last step ends with a wait.
    if (tag == 3) {
      meter_.AddWait({.stream = static_cast<int64_t>(kCompute),
                      .start_ns = now_ + 100,
                      .end_ns = now_ + 1000,
                      .tag = tag});
    }
    Add(kCompute, WorkKind::kUpdate, 1, tag, 200);
  }
  DurationMeter merged;
  merged.Merge(meter_);
  meter_ = merged;
  Fill(DurationMeter::Statistic::kMedian);
  EXPECT_EQ(trace_.ops[0].duration_ns, 100);
  EXPECT_EQ(trace_.ops[1].duration_ns, 1100);
  trace_ = OperatorAndUpdate();
  Fill(DurationMeter::Statistic::kLeast);
  EXPECT_EQ(trace_.ops[1].duration_ns, 200);
}

TEST_F(DurationMeterTest, SumsUpToATypicalStep) {
  // Another program takes 300 of each step, not always from the same operator.
  for (const uint16_t tag : {1, 2, 3, 4, 5}) {
    meter_.AddWait({.stream = static_cast<int64_t>(kCompute),
                    .end_ns = now_ + 1000,
                    .tag = tag});
    Add(kCompute, WorkKind::kOperator, 0, tag, tag == 1 ? 400 : 100);
    meter_.AddWait({.stream = static_cast<int64_t>(kCompute),
                    .end_ns = now_ + 1000,
                    .tag = tag});
    Add(kCompute, WorkKind::kUpdate, 1, tag,
        tag == 1  ? 200
        : tag < 4 ? 500
                  : 200);
  }
  Fill(DurationMeter::Statistic::kMedian);
  // Medians are 100 and 200, those of the sums 600, 600, 600, 300, 300 are 600.
  EXPECT_EQ(trace_.ops[0].duration_ns, 200);
  EXPECT_EQ(trace_.ops[1].duration_ns, 400);
}

TEST_F(DurationMeterTest, MeasuresTheBusByWhatCrossedIt) {
  Add(StreamId::kHostToDevice, WorkKind::kFetch, 0, 1, 1000);
  Add(StreamId::kDeviceToHost, WorkKind::kCopyBack, 0, 1, 500);
  Add(kCompute, WorkKind::kOperator, 0, 1, 10);
  bus_.h2d_bytes_per_s = bus_.d2h_bytes_per_s = 1;
  Fill(DurationMeter::Statistic::kMedian);
  EXPECT_DOUBLE_EQ(bus_.h2d_bytes_per_s, 1e9);
  EXPECT_DOUBLE_EQ(bus_.d2h_bytes_per_s, 2e9);
}

// A copy back right after a chunk's reduce may be of the sum of its gradients.
TEST_F(DurationMeterTest, MeasuresTheBusByNoSum) {
  trace_.ops[0].kind = OpKind::kReduce;
  trace_.ops[0].chunks = {{ChunkId(0), false}};
  trace_.chunks[0].sum_bytes = 2 * trace_.chunks[0].payload_bytes;
  trace_.chunks[0].optimizer_bytes = 16 * trace_.chunks[0].payload_bytes;
  Add(StreamId::kDeviceToHost, WorkKind::kCopyBack, 1, 1, 5000);
  Add(StreamId::kDeviceToHost, WorkKind::kCopyBack, 0, 1, 500);
  Add(kCompute, WorkKind::kReduce, 0, 1, 10);
  Fill(DurationMeter::Statistic::kMedian);
  EXPECT_DOUBLE_EQ(bus_.d2h_bytes_per_s, 2e9);
}

}  // namespace
}  // namespace castor
