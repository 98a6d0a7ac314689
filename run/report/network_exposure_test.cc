#include "run/report/network_exposure.h"

#include <gtest/gtest.h>

#include <vector>

namespace castor {
namespace {

constexpr StreamId kCompute = StreamId::kCompute;
constexpr StreamId kUp = StreamId::kHostToDevice;
constexpr StreamId kNetwork = StreamId::kNetwork;

TimelineEvent Work(StreamId stream, int64_t count, int64_t start_ns,
                   int64_t end_ns) {
  return {.work = {.stream = static_cast<int64_t>(stream),
                   .count = count,
                   .start_ns = start_ns,
                   .end_ns = end_ns}};
}

TimelineEvent Collective(int64_t count, int64_t start_ns, int64_t ready_ns,
                         int64_t end_ns, int late_rank) {
  TimelineEvent event = Work(kNetwork, count, start_ns, end_ns);
  event.network = {.stream = event.work.stream,
                   .count = count,
                   .last_rank = late_rank,
                   .ready_ns = ready_ns};
  event.late_rank = late_rank;
  return event;
}

TimelineEvent Wait(StreamId stream, int64_t count, int64_t start_ns,
                   int64_t end_ns, Fence until) {
  TimelineEvent event = Work(stream, count, start_ns, end_ns);
  event.wait = true;
  for (int s = 0; s < kNumStreams; ++s) {
    const int64_t part = until.count(static_cast<StreamId>(s));
    if (part > 0) event.until.push_back({s, part});
  }
  return event;
}

NetworkExposure::Division Divide(const NetworkExposure& exposure,
                                 const TimelineEvent& wait) {
  NetworkExposure::Division division;
  exposure.Divide(wait, &division);
  return division;
}

TEST(NetworkExposure, TellsLateRanksFromTheTransfer) {
  NetworkExposure exposure;
  exposure.Add(Collective(1, 0, 40, 60, 2));
  exposure.Add(Collective(2, 60, 60, 100, -1));
  // From 20 on: 20 for rank 2, 20 for its parts, 40 for the next's.
  const auto division =
      Divide(exposure, Wait(kCompute, 1, 20, 100, Fence(kNetwork, 2)));
  EXPECT_EQ(division.network_ns, 80);
  EXPECT_EQ(division.late_ns, (std::vector<int64_t>{0, 0, 20}));
}

TEST(NetworkExposure, FollowsAWaitToWhatHeldItsStreamUp) {
  NetworkExposure exposure;
  // The copy to the device had to wait for a gather, and that for a copy.
  exposure.Add(Work(kUp, 1, 0, 30));
  exposure.Add(Wait(kNetwork, 1, 0, 30, Fence(kUp, 1)));
  exposure.Add(Collective(2, 30, 45, 50, 0));
  exposure.Add(Wait(kUp, 2, 30, 50, Fence(kNetwork, 2)));
  exposure.Add(Work(kUp, 3, 50, 80));
  const auto division =
      Divide(exposure, Wait(kCompute, 1, 10, 80, Fence(kUp, 3)));
  EXPECT_EQ(division.network_ns, 20);
  EXPECT_EQ(division.late_ns, std::vector<int64_t>{15});
}

TEST(NetworkExposure, CountsWhatEndedLastAmongWhatAWaitNames) {
  NetworkExposure exposure;
  exposure.Add(Collective(1, 0, 0, 30, -1));
  exposure.Add(Work(kUp, 1, 20, 60));
  Fence both(kNetwork, 1);
  both.Add(kUp, 1);
  EXPECT_EQ(Divide(exposure, Wait(kCompute, 1, 0, 60, both)).network_ns, 0);
}

TEST(NetworkExposure, KnowsNothingOfWhatWasNotRecorded) {
  NetworkExposure exposure;
  const TimelineEvent wait = Wait(kCompute, 1, 0, 60, Fence(kNetwork, 7));
  EXPECT_EQ(Divide(exposure, wait).network_ns, 0);
  exposure.Add(Collective(9, 0, 0, 30, -1));  // later than what is waited for
  EXPECT_EQ(Divide(exposure, wait).network_ns, 0);
}

}  // namespace
}  // namespace castor
