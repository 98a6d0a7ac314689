#include "device/testing/device_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "device/gate.h"

namespace castor {
namespace {

constexpr StreamId kStreams[] = {StreamId::kCompute, StreamId::kHostToDevice,
                                 StreamId::kDeviceToHost,
                                 StreamId::kHostCompute, StreamId::kNetwork};

struct Event {
  bool wait;
  StreamId stream;
  int64_t count, tag;
  Fence until;
  int64_t start_ns, end_ns;
};

class Recorder : public DeviceObserver {
 public:
  void OnWork(StreamId stream, int64_t count, int64_t tag, int64_t start_ns,
              int64_t end_ns) override {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.push_back({false, stream, count, tag, {}, start_ns, end_ns});
  }
  void OnWait(StreamId stream, int64_t count, int64_t tag, const Fence& until,
              int64_t start_ns, int64_t end_ns) override {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.push_back({true, stream, count, tag, until, start_ns, end_ns});
  }
  std::vector<Event> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Event> events_;
};

TEST_P(DeviceContract, MemoryIsOneAlignedBlockOfExactlyTheSizeAsked) {
  EXPECT_EQ(device_->memory_bytes(), kContractMemoryBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device_->memory()) % 4096, 0u);
  // Both ends can be written and read back.
  const char sent[2] = {'a', 'z'};
  char got[2] = {0, 0};
  std::byte* const last = device_->memory() + kContractMemoryBytes - 1;
  device_->Copy(StreamId::kHostToDevice, 0, device_->memory(), &sent[0], 1);
  device_->Copy(StreamId::kHostToDevice, 0, last, &sent[1], 1);
  device_->Wait(StreamId::kDeviceToHost, device_->NowAll(), 0);
  device_->Copy(StreamId::kDeviceToHost, 0, &got[0], device_->memory(), 1);
  device_->Copy(StreamId::kDeviceToHost, 0, &got[1], last, 1);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(got[0], 'a');
  EXPECT_EQ(got[1], 'z');
}

TEST_P(DeviceContract, ResizesAtItsEnd) {
  constexpr int64_t kHalf = kContractMemoryBytes / 2;
  std::byte* const memory = device_->memory();
  std::vector<char> sent(kHalf, 'c'), got(kHalf);
  device_->Copy(StreamId::kHostToDevice, 0, memory, sent.data(), kHalf);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  const absl::Status resized = device_->Resize(kHalf);
  if (absl::IsUnimplemented(resized)) {
    GTEST_SKIP() << "SKIPPED: " << resized.message();
  }
  ASSERT_TRUE(resized.ok()) << resized;
  EXPECT_EQ(device_->memory_bytes(), kHalf);
  ASSERT_TRUE(device_->Resize(kContractMemoryBytes).ok());
  EXPECT_EQ(device_->memory(), memory);
  device_->Fill(StreamId::kCompute, 0, memory + kHalf, 1, kHalf);
  device_->Copy(StreamId::kDeviceToHost, 0, got.data(), memory, kHalf);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(got, sent);
}

TEST_P(DeviceContract, StreamRunsItsWorkInOrder) {
  for (StreamId stream : kStreams) {
    std::vector<int> order;  // touched by that one stream alone
    for (int i = 0; i < 3000; ++i) {
      device_->Enqueue(stream, i, [&order, i](const ExecContext& context) {
        EXPECT_NE(context.pool, nullptr);
        order.push_back(i);
        return absl::OkStatus();
      });
    }
    ASSERT_TRUE(device_->Synchronize(device_->Now(stream)).ok());
    ASSERT_EQ(order.size(), 3000u);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_P(DeviceContract, StreamsRunSideBySide) {
  // Each stream's work ends only once all are running.
  std::atomic<int> running{0};
  for (StreamId stream : kStreams) {
    device_->Enqueue(stream, 0, [&running](const ExecContext&) {
      ++running;
      while (running.load() < kNumStreams) std::this_thread::yield();
      return absl::OkStatus();
    });
  }
  EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(running.load(), kNumStreams);
}

TEST_P(DeviceContract, CopiesOfOneDirectionPassAHeldOtherDirection) {
  std::vector<char> host(1 << 20, 'x'), back(1 << 20);
  for (bool held_is_up : {true, false}) {
    const StreamId held =
        held_is_up ? StreamId::kHostToDevice : StreamId::kDeviceToHost;
    const StreamId other =
        held_is_up ? StreamId::kDeviceToHost : StreamId::kHostToDevice;
    Gate gate;
    const Fence held_fence = device_->Enqueue(held, 0, gate.Hold());
    void* const dst =
        held_is_up ? static_cast<void*>(back.data()) : device_->memory();
    const void* const src =
        held_is_up ? static_cast<const void*>(device_->memory()) : host.data();
    const Fence copied = device_->Copy(other, 0, dst, src, host.size());
    EXPECT_TRUE(device_->Synchronize(copied).ok());
    EXPECT_FALSE(device_->Reached(held_fence));
    gate.Open();
    EXPECT_TRUE(device_->Synchronize(held_fence).ok());
  }
}

TEST_P(DeviceContract, EffectsAreVisibleAcrossWaits) {
  // A value goes round the streams, a plain variable on the way: a missing
  // happens-before edge is a wrong sum here and a report under TSan.
  int64_t value = 0;
  Fence last;
  for (int i = 0; i < 2000; ++i) {
    const StreamId stream = kStreams[i % kNumStreams];
    device_->Wait(stream, last, i);
    last = device_->Enqueue(stream, i, [&value, i](const ExecContext&) {
      EXPECT_EQ(value, i);
      value = i + 1;
      return absl::OkStatus();
    });
  }
  ASSERT_TRUE(device_->Synchronize(last).ok());
  EXPECT_EQ(value, 2000);
}

TEST_P(DeviceContract, RandomGraphsRunInTheirOrder) {
  const uint32_t seed = 20260;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr int kNodes = 4000;
  std::vector<int64_t> value(kNodes, -1);  // plain memory
  std::vector<Fence> fence(kNodes);
  std::vector<int64_t> expected(kNodes);
  for (int node = 0; node < kNodes; ++node) {
    const StreamId stream = kStreams[random() % kNumStreams];
    std::vector<int> inputs;
    Fence all;
    expected[node] = node;
    for (int i = 0; i < static_cast<int>(random() % 3) && node > 0; ++i) {
      inputs.push_back(node - 1 - random() % std::min(node, 50));
      all.Add(fence[inputs.back()]);
      expected[node] += expected[inputs.back()] % 1000;
    }
    device_->Wait(stream, all, node);
    fence[node] = device_->Enqueue(stream, node,
                                   [&value, node, inputs](const ExecContext&) {
                                     int64_t sum = node;
                                     for (int input : inputs)
                                       sum += value[input] % 1000;
                                     value[node] = sum;
                                     return absl::OkStatus();
                                   });
    if (random() % 64 == 0) {
      ASSERT_TRUE(device_->Synchronize(fence[random() % (node + 1)]).ok());
    }
  }
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(value, expected);
}

TEST_P(DeviceContract, NowAfterAWaitCoversWhatWasWaitedFor) {
  Gate gate;
  const Fence held = device_->Enqueue(StreamId::kCompute, 0, gate.Hold());
  device_->Wait(StreamId::kHostToDevice, held, 1);
  const Fence now = device_->Now(StreamId::kHostToDevice);
  EXPECT_FALSE(device_->Reached(now));
  gate.Open();
  EXPECT_TRUE(device_->Synchronize(now).ok());
  EXPECT_TRUE(device_->Reached(held));
}

TEST_P(DeviceContract, WaitOnTheStreamItselfIsHarmless) {
  const auto nothing = [](const ExecContext&) { return absl::OkStatus(); };
  for (int i = 0; i < 100; ++i) {
    const Fence fence = device_->Enqueue(StreamId::kCompute, 0, nothing);
    device_->Wait(StreamId::kCompute, fence, 0);
  }
  EXPECT_TRUE(device_->Synchronize(device_->Now(StreamId::kCompute)).ok());
}

TEST_P(DeviceContract, FenceOfManyStreamsIsReachedWithItsLast) {
  Gate gates[kNumStreams];
  Fence all;
  for (int i = 0; i < kNumStreams; ++i) {
    all.Add(device_->Enqueue(kStreams[i], 0, gates[i].Hold()));
  }
  EXPECT_EQ(all, device_->NowAll());
  for (int i = 0; i < kNumStreams; ++i) {
    EXPECT_FALSE(device_->Reached(all));
    gates[i].Open();
    EXPECT_TRUE(
        device_->Synchronize(Fence(kStreams[i], all.count(kStreams[i]))).ok());
  }
  EXPECT_TRUE(device_->Reached(all));
}

TEST_P(DeviceContract, DefaultFenceIsReachedFromTheStart) {
  EXPECT_TRUE(device_->Reached(Fence()));
  EXPECT_TRUE(device_->Synchronize(Fence()).ok());
  EXPECT_EQ(device_->NowAll(), Fence());
  device_->Wait(StreamId::kCompute, Fence(), 0);
  EXPECT_EQ(device_->NowAll(), Fence());
}

TEST_P(DeviceContract, QueueingAndReachedDoNotBlock) {
  Gate gate;
  const Fence held = device_->Enqueue(StreamId::kCompute, 0, gate.Hold());
  int runs = 0;
  Fence last;
  for (int i = 0; i < 1000; ++i) {
    last = device_->Enqueue(StreamId::kCompute, i, [&](const ExecContext&) {
      ++runs;
      return absl::OkStatus();
    });
    device_->Wait(StreamId::kHostToDevice, last, i);
  }
  EXPECT_FALSE(device_->Reached(held));
  EXPECT_FALSE(device_->Reached(last));
  gate.Open();
  EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(runs, 1000);
  EXPECT_TRUE(device_->Reached(last));
}

TEST_P(DeviceContract, CopiesCarryTheirBytes) {
  constexpr int64_t kBytes = 3'000'001;
  std::vector<uint8_t> sent(kBytes), got(kBytes);
  for (int64_t i = 0; i < kBytes; ++i) sent[i] = i * 31 + i / 251;
  std::byte* const memory = device_->memory();
  device_->Copy(StreamId::kHostToDevice, 0, memory + 7, sent.data(), kBytes);
  device_->Wait(StreamId::kCompute, device_->NowAll(), 0);
  // On the device source and destination may overlap, both ways.
  device_->Copy(StreamId::kCompute, 0, memory + 1000, memory + 7, kBytes);
  device_->Copy(StreamId::kCompute, 0, memory + 13, memory + 1000, kBytes);
  device_->Copy(StreamId::kCompute, 0, memory, memory, 0);
  device_->Wait(StreamId::kDeviceToHost, device_->NowAll(), 0);
  device_->Copy(StreamId::kDeviceToHost, 0, got.data(), memory + 13, kBytes);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(sent, got);
}

TEST_P(DeviceContract, FillsSetTheirBytesAndNoOthers) {
  constexpr int64_t kBytes = 1'000'003;
  std::vector<uint8_t> got(kBytes), expected(kBytes, 0x11);
  std::byte* const memory = device_->memory();
  device_->Fill(StreamId::kCompute, 0, memory, 0x11, kBytes);
  device_->Fill(StreamId::kCompute, 0, memory + 77, 0xFF, 123'457);
  device_->Fill(StreamId::kCompute, 0, memory, 0x22, 0);
  std::fill_n(expected.begin() + 77, 123'457, 0xFF);
  device_->Wait(StreamId::kDeviceToHost, device_->NowAll(), 0);
  device_->Copy(StreamId::kDeviceToHost, 0, got.data(), memory, kBytes);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(got, expected);
}

TEST_P(DeviceContract, StreamKeepsItsFirstFailureAndSkipsWhatFollows) {
  for (StreamId stream : kStreams) {
    auto device = GetParam().create(4096, 0);
    int runs = 0;
    const auto count = [&runs](const ExecContext&) {
      ++runs;
      return absl::OkStatus();
    };
    device->Enqueue(stream, 0, count);
    device->Enqueue(stream, 1, [](const ExecContext&) {
      return absl::InternalError("the first");
    });
    device->Enqueue(stream, 2, [&runs](const ExecContext&) {
      ++runs;
      return absl::InternalError("the second");
    });
    char before = 'b', after = 'a';
    device->Copy(stream, 3, &before, &after, 1);
    const Fence last = device->Enqueue(stream, 4, count);
    EXPECT_EQ(device->Synchronize(last).message(), "the first");
    EXPECT_TRUE(device->Reached(last));
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(before, 'b');
    // Each later join says so too, by whatever fence names the stream.
    EXPECT_EQ(device->Synchronize(device->NowAll()).message(), "the first");
    // A stream that waits for the failed one does not hang; other streams go
    // on.
    const StreamId other = stream == StreamId::kCompute
                               ? StreamId::kHostToDevice
                               : StreamId::kCompute;
    device->Wait(other, last, 5);
    const Fence on_other = device->Enqueue(other, 6, count);
    EXPECT_TRUE(device->Synchronize(on_other).ok());
    EXPECT_EQ(runs, 2);
  }
}

TEST_P(DeviceContract, WorkIsDestroyedBeforeItsFenceIsReached) {
  for (int i = 0; i < 500; ++i) {
    auto held = std::make_shared<int>(i);
    const Fence fence = device_->Enqueue(
        StreamId::kCompute, 0,
        [held](const ExecContext&) { return absl::OkStatus(); });
    ASSERT_TRUE(device_->Synchronize(fence).ok());
    ASSERT_EQ(held.use_count(), 1);
  }
}

TEST_P(DeviceContract, DestructorDrainsEveryStream) {
  std::atomic<int> runs{0};
  {
    auto device = GetParam().create(4096, 0);
    for (int i = 0; i < 400; ++i) {
      const StreamId stream = kStreams[i % kNumStreams];
      device->Wait(stream, device->NowAll(), i);
      device->Enqueue(stream, i, [&runs](const ExecContext&) {
        ++runs;
        return absl::OkStatus();
      });
    }
  }
  EXPECT_EQ(runs.load(), 400);
}

TEST_P(DeviceContract, BusLimitIsALowerBoundOnTime) {
  // 4 MiB at 64 MiB/s: a sixteenth of a second, in either direction, however
  // the bytes are cut.
  if (!GetParam().limits_bus) GTEST_SKIP() << "its bus has the speed it has";
  constexpr int64_t kBytes = int64_t{4} << 20;
  auto device = GetParam().create(kBytes, 64.0 * (1 << 20));
  std::vector<std::byte> host(kBytes);
  for (int copies : {1, 3, 64}) {
    for (bool up : {true, false}) {
      const int64_t start_ns = device->NowNs();
      Fence fence;
      for (int i = 0; i < copies; ++i) {
        const int64_t begin = kBytes * i / copies;
        const int64_t bytes = kBytes * (i + 1) / copies - begin;
        std::byte* const on_device = device->memory() + begin;
        fence = up ? device->Copy(StreamId::kHostToDevice, 0, on_device,
                                  host.data() + begin, bytes)
                   : device->Copy(StreamId::kDeviceToHost, 0,
                                  host.data() + begin, on_device, bytes);
      }
      ASSERT_TRUE(device->Synchronize(fence).ok());
      EXPECT_GE(device->NowNs() - start_ns, 1'000'000'000 / 16);
    }
  }
}

TEST_P(DeviceContract, ObserverHearsOfAllWorkInOrder) {
  Recorder recorder;
  device_->SetObserver(&recorder);
  const int64_t start_ns = device_->NowNs();
  char a = 'a', b = 'b';
  const Fence first = device_->NowAll();
  for (int i = 0; i < 100; ++i) {
    for (StreamId stream : kStreams) {
      if (stream != StreamId::kHostCompute && i % 2 == 0) {
        device_->Copy(stream, i, stream == StreamId::kDeviceToHost ? &b : &a,
                      stream == StreamId::kDeviceToHost ? &b : &a, 0);
      } else {
        device_->Enqueue(stream, i,
                         [](const ExecContext&) { return absl::OkStatus(); });
      }
    }
  }
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  const int64_t end_ns = device_->NowNs();
  device_->SetObserver(nullptr);
  const std::vector<Event> events = recorder.Take();
  EXPECT_EQ(events.size(), 100u * kNumStreams);
  for (StreamId stream : kStreams) {
    int64_t tag = 0, last_ns = start_ns;
    for (const Event& event : events) {
      if (event.stream != stream) continue;
      EXPECT_FALSE(event.wait);
      EXPECT_EQ(event.tag, tag++);
      EXPECT_EQ(event.count, first.count(stream) + tag);
      EXPECT_LE(last_ns, event.start_ns);
      EXPECT_LE(event.start_ns, event.end_ns);
      last_ns = event.end_ns;
    }
    EXPECT_EQ(tag, 100);
    EXPECT_LE(last_ns, end_ns);
  }
}

TEST_P(DeviceContract, ObserverHearsOfARealWait) {
  Recorder recorder;
  device_->SetObserver(&recorder);
  // The waiting stream must get to its wait before the gate opens. It may be
  // late, so it is given more time at each attempt.
  bool heard = false;
  for (int64_t hold_us = 100; !heard; hold_us *= 2) {
    Gate gate;
    const Fence held = device_->Enqueue(StreamId::kCompute, 1, gate.Hold());
    device_->Wait(StreamId::kDeviceToHost, held, 77);
    const Fence waited = device_->Now(StreamId::kDeviceToHost);
    std::this_thread::sleep_for(std::chrono::microseconds(hold_us));
    gate.Open();
    ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
    for (const Event& event : recorder.Take()) {
      if (!event.wait) continue;
      heard = true;
      EXPECT_EQ(event.stream, StreamId::kDeviceToHost);
      EXPECT_EQ(event.tag, 77);
      EXPECT_EQ(Fence(event.stream, event.count), waited);
      EXPECT_EQ(event.until, held);
      EXPECT_LT(event.start_ns, event.end_ns);
    }
  }
  device_->SetObserver(nullptr);
}

TEST_P(DeviceContract, ObserverHearsNothingOfAWaitForWhatIsOver) {
  Recorder recorder;
  device_->SetObserver(&recorder);
  const auto nothing = [](const ExecContext&) { return absl::OkStatus(); };
  const Fence over = device_->Enqueue(StreamId::kCompute, 1, nothing);
  ASSERT_TRUE(device_->Synchronize(over).ok());
  recorder.Take();
  device_->Wait(StreamId::kHostToDevice, over, 2);
  const Fence own = device_->Enqueue(StreamId::kHostToDevice, 3, nothing);
  device_->Wait(StreamId::kHostToDevice, own, 4);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  device_->SetObserver(nullptr);
  const std::vector<Event> events = recorder.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_FALSE(events[0].wait);
  EXPECT_EQ(events[0].tag, 3);
}

}  // namespace
}  // namespace castor
