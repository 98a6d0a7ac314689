#include "device/cuda/event_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <utility>

#include "device/cuda/api.h"

namespace castor::cuda {
namespace {

// Events with times that the test gives; everything else does not happen.
class TimesOnly final : public Api {
 public:
  struct Made {
    double ms = 0;
  };
  double gpu_ms = 0;  // what is recorded next gets this time
  int destroyed = 0;

  absl::StatusOr<Event> CreateEvent() override { return new Made(); }
  void DestroyEvent(Event event) override {
    ++destroyed;
    delete static_cast<Made*>(event);
  }
  absl::Status Record(Event event, Stream) override {
    static_cast<Made*>(event)->ms = gpu_ms;
    return absl::OkStatus();
  }
  absl::Status Query(Event, bool* over) override {
    *over = true;
    return absl::OkStatus();
  }
  absl::Status ElapsedMs(Event start, Event end, float* ms) override {
    *ms = static_cast<float>(static_cast<Made*>(end)->ms -
                             static_cast<Made*>(start)->ms);
    return absl::OkStatus();
  }

  absl::StatusOr<int> CountDevices() override { return None(); }
  absl::StatusOr<GpuProperties> Properties(int) override { return None(); }
  absl::Status UseDevice(int) override { return None(); }
  absl::Status MemoryInfo(int64_t*, int64_t*) override { return None(); }
  absl::StatusOr<void*> Allocate(int64_t) override { return None(); }
  void Free(void*) override {}
  absl::StatusOr<int64_t> MappingGranularity(int) override { return None(); }
  absl::StatusOr<void*> ReserveAddresses(int64_t) override { return None(); }
  void FreeAddresses(void*, int64_t) override {}
  absl::Status MapMemory(int, void*, int64_t) override { return None(); }
  void UnmapMemory(void*, int64_t) override {}
  absl::StatusOr<void*> AllocatePinned(int64_t, void**) override {
    return None();
  }
  void FreePinned(void*) override {}
  absl::Status RegisterHost(void*, int64_t) override { return None(); }
  void UnregisterHost(void*) override {}
  absl::StatusOr<Stream> CreateStream(bool) override { return None(); }
  void DestroyStream(Stream) override {}
  absl::Status Synchronize(Event) override { return None(); }
  absl::Status WaitFor(Stream, Event) override { return None(); }
  absl::Status Copy(void*, const void*, int64_t, Stream) override {
    return None();
  }
  absl::Status Move(void*, const void*, int64_t, Stream) override {
    return None();
  }
  absl::Status Fill(void*, uint8_t, int64_t, Stream) override { return None(); }

 private:
  static absl::Status None() { return absl::UnimplementedError("none"); }
};

constexpr int64_t kFar = int64_t{1} << 60;

class EventClockTest : public testing::Test {
 protected:
  // The host's clock stands at `host_ns` while the anchor is taken.
  void Calibrate(int64_t host_ns, double gpu_ms) {
    api_.gpu_ms = gpu_ms;
    ASSERT_TRUE(clock_.Calibrate(nullptr, [host_ns] { return host_ns; }).ok());
    event_.store(*api_.CreateEvent());
  }
  void TearDown() override { api_.DestroyEvent(event_.load()); }
  int64_t At(double gpu_ms, int64_t earliest_ns = 0, int64_t latest_ns = kFar) {
    static_cast<TimesOnly::Made*>(event_.load())->ms = gpu_ms;
    return clock_.TimeOf(event_, earliest_ns, latest_ns);
  }
  TimesOnly api_;
  EventClock clock_{&api_};
  std::atomic<Api::Event> event_{nullptr};
};

TEST_F(EventClockTest, CountsFromItsAnchor) {
  Calibrate(/*host_ns=*/5'000'000, /*gpu_ms=*/100);
  EXPECT_EQ(At(100), 5'000'000);
  EXPECT_EQ(At(100.5), 5'500'000);
  EXPECT_EQ(At(103), 8'000'000);
}

TEST_F(EventClockTest, IsAsExactAfterHoursAsAtFirst) {
  Calibrate(0, 0);
  // Every 0.7 s for 3 hours; a span of 10^7 ms has 1 ms of resolution.
  for (int64_t i = 1; i <= 15'000; ++i) {
    ASSERT_NEAR(At(700.0 * i), 700'000'000 * i, 150 * (i + 1)) << i;
  }
}

TEST_F(EventClockTest, IsCorrectedByWhatCannotBe) {
  Calibrate(0, 0);
  // Seen to be over at 1.9 ms: the GPU's clock is ahead.
  EXPECT_EQ(At(2, 0, 1'900'000), 1'900'000);
  EXPECT_EQ(At(3), 2'900'000);  // and so from here on
  // Launched at 4.2 ms: it is behind.
  EXPECT_EQ(At(4, 4'200'000), 4'200'000);
  EXPECT_EQ(At(5), 5'200'000);
}

TEST_F(EventClockTest, LeavesAnEventForTheOneItKeeps) {
  Calibrate(0, 0);
  const Api::Event before = event_.load();
  At(500);
  EXPECT_EQ(event_.load(), before);
  At(1500);
  EXPECT_NE(event_.load(), before);
  EXPECT_NE(event_.load(), nullptr);
}

}  // namespace
}  // namespace castor::cuda
