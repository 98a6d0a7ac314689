#include "run/program/overhead_meter.h"

#include <gtest/gtest.h>

#include "tracer/work_tag.h"

namespace castor {
namespace {

constexpr StreamId kCompute = StreamId::kCompute;
constexpr StreamId kUp = StreamId::kHostToDevice;

TimelineEvent Work(StreamId stream, int64_t count, WorkKind kind,
                   int64_t moment, int64_t start_ns, int64_t end_ns) {
  return {.work = {.stream = static_cast<int64_t>(stream),
                   .count = count,
                   .kind = kind,
                   .moment = Moment(moment),
                   .start_ns = start_ns,
                   .end_ns = end_ns}};
}

TimelineEvent Wait(StreamId stream, WorkKind kind, StreamId until,
                   int64_t until_count, int64_t start_ns, int64_t end_ns) {
  TimelineEvent event = Work(stream, 0, kind, -1, start_ns, end_ns);
  event.wait = true;
  event.until = {{static_cast<int64_t>(until), until_count}};
  return event;
}

TEST(RecentEnds, FindTheLastWorkUpToACount) {
  RecentEnds ends;
  ends.Add(Work(kUp, 1, WorkKind::kFetch, 0, 0, 100));
  ends.Add(Work(kUp, 4, WorkKind::kFetch, 0, 100, 250));
  const auto over = [&](int64_t count) {
    return ends.OverNs(Wait(kCompute, WorkKind::kOperator, kUp, count, 0, 300));
  };
  EXPECT_EQ(over(0), -1);
  EXPECT_EQ(over(1), 100);
  EXPECT_EQ(over(3), 100);  // 2 and 3 were waits
  EXPECT_EQ(over(9), 250);
}

TEST(OverheadMeter, CountsMovesForTheOperatorThatTheyMakeRoomFor) {
  OverheadMeter meter;
  meter.Add(Work(kCompute, 1, WorkKind::kOperator, 0, 0, 100), -1);
  // A move waits for a copy, then moves; two moves before operator 2.
  meter.Add(Wait(kCompute, WorkKind::kOther, kUp, 1, 100, 130), -1);
  meter.Add(Work(kCompute, 3, WorkKind::kOther, -1, 130, 150), -1);
  meter.Add(Work(kCompute, 4, WorkKind::kOther, -1, 150, 160), -1);
  meter.Add(Work(kCompute, 5, WorkKind::kOperator, 2, 160, 200), -1);
  OverheadMeter other;
  other.Add(Work(kCompute, 5, WorkKind::kOperator, 2, 160, 200), -1);
  meter.Merge(other);
  const Overheads overheads = meter.Take(4);
  ASSERT_EQ(overheads.moves.size(), 4u);
  EXPECT_EQ(overheads.moves[0].duration_ns, 0);
  EXPECT_EQ(overheads.moves[2].duration_ns, 30);  // 60 in one step of two
  EXPECT_EQ(overheads.compute_handoff_ns, 0);
}

TEST(OverheadMeter, TakesHandoffsOfEachStreamButTheLongest) {
  OverheadMeter meter;
  for (int i = 0; i < 10; ++i) {
    const int64_t late_ns = i == 4 ? 5000 : 20;
    meter.Add(Wait(kUp, WorkKind::kFetch, kCompute, i, 1000 * i,
                   1000 * i + 500 + late_ns),
              1000 * i + 500);
    // Work that was over before the wait began makes no handoff.
    meter.Add(Wait(kCompute, WorkKind::kOperator, kUp, i, 700, 900), 600);
  }
  const Overheads overheads = meter.Take(1);
  EXPECT_EQ(overheads.h2d_handoff_ns, 20);
  EXPECT_EQ(overheads.compute_handoff_ns, 0);
}

}  // namespace
}  // namespace castor
