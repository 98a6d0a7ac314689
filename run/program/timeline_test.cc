#include "run/program/timeline.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

CollectiveRecord Collective(int64_t tag, int64_t start_ns, int64_t ready_ns,
                            int64_t bytes) {
  CollectiveRecord record;
  record.tag = tag;
  record.start_ns = start_ns;
  record.ready_ns = ready_ns;
  record.last_rank = 2;
  record.bytes_received = bytes;
  return record;
}

int64_t Tag(int moment) {
  return WorkTag{.kind = WorkKind::kGather, .moment = moment}.Pack();
}

TEST(Timeline, PairsCollectivesThatWereLaunchedAheadWithTheirItems) {
  Timeline timeline;
  timeline.OnCollective(Collective(Tag(1), 10, 20, 100));
  timeline.OnCollective(Collective(Tag(2), 20, 70, 200));
  timeline.OnCollective(Collective(Tag(3), 95, 95, 300));
  timeline.OnWork(StreamId::kNetwork, 1, Tag(1), 40, 50);
  timeline.OnWork(StreamId::kCompute, 1, Tag(2), 40, 50);  // no collective
  timeline.OnWork(StreamId::kNetwork, 2, Tag(2), 60, 90);
  // On the host a collective's own clock begins a little after the item's.
  timeline.OnWork(StreamId::kNetwork, 3, Tag(3), 90, 99);
  const std::vector<TimelineEvent> events = timeline.Take();
  ASSERT_EQ(events.size(), 4);
  int64_t seen = 0;
  for (const TimelineEvent& event : events) {
    if (event.stream() != StreamId::kNetwork) {
      EXPECT_FALSE(event.network.has_value());
      continue;
    }
    ASSERT_TRUE(event.network.has_value());
    EXPECT_EQ(event.network->received_bytes, 100 * event.work.count);
    // The first: all were there before the GPU came to it.
    EXPECT_EQ(event.late_rank, event.work.count == 2 ? 2 : -1);
    if (event.work.count == 1) {
      EXPECT_EQ(event.network->ready_ns, 40);
    }
    if (event.work.count == 2) {
      EXPECT_EQ(event.network->ready_ns, 70);
    }
    ++seen;
  }
  EXPECT_EQ(seen, 3);
}

}  // namespace
}  // namespace castor
