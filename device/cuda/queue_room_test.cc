// Tests how much the CUDA device's streams have in a driver's queues, over a
// fake whose driver holds a thread that queues more than it takes, and all
// other calls.
#include "device/cuda/queue_room.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "device/cuda/fake_api.h"
#include "device/gate.h"

namespace castor::cuda {
namespace {

class QueueRoomTest : public testing::Test {
 protected:
  void Open(int64_t memory_bytes, int64_t queue_limit) {
    api_ =
        std::make_unique<FakeApi>(FakeApiOptions{.queue_limit = queue_limit});
    auto device =
        CudaDevice::Create(api_.get(), {.memory_bytes = memory_bytes});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  // A work whose kernel stands at the gate.
  Work Stands(Gate& gate) {
    return [this, &gate](const ExecContext& context) {
      context.gpu->BeforeLaunches(1);
      api_->Launch(context.gpu->stream,
                   [&gate] { (void)gate.Hold()(ExecContext{}); });
      return absl::OkStatus();
    };
  }
  std::unique_ptr<FakeApi> api_;
  std::unique_ptr<CudaDevice> device_;
};

// One item of many launches, as the loss over a large vocabulary is. A driver
// takes 1,024, and a thread that queues one more stands still there with all
// others.
TEST_F(QueueRoomTest, AnItemOfManyLaunchesDoesNotFillTheDriversQueue) {
  constexpr int kLaunches = 3000;
  Open(4096, 1024);
  Gate gate;
  std::atomic<int> launched{0}, ran{0};
  device_->Enqueue(StreamId::kCompute, 0, [&](const ExecContext& context) {
    for (int i = 0; i < kLaunches; ++i) {
      context.gpu->BeforeLaunches(1);
      api_->Launch(context.gpu->stream, [&, i] {
        if (i == 0) (void)gate.Hold()(ExecContext{});
        ++ran;
      });
      ++launched;
    }
    return absl::OkStatus();
  });
  while (launched.load() < 200) std::this_thread::yield();
  // Copies go on while compute stands at the gate with a full queue.
  std::vector<uint8_t> host(4096, 7);
  for (int i = 0; i < 300; ++i) {
    device_->Copy(StreamId::kHostToDevice, 0, device_->memory(), host.data(),
                  4096);
    ASSERT_TRUE(
        device_->Synchronize(device_->Now(StreamId::kHostToDevice)).ok());
  }
  EXPECT_EQ(ran.load(), 0);
  EXPECT_LT(launched.load(), 256);
  gate.Open();
  EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(ran.load(), kLaunches);
  EXPECT_LE(api_->most_queued(), QueueRoom::kMostQueued);
  EXPECT_FALSE(api_->stood_still());
}

// Many items do not fill it either, with the waits and events that belong to
// them.
TEST_F(QueueRoomTest, ManyItemsDoNotFillTheDriversQueue) {
  Open(1 << 20, 257);
  Gate gate;
  device_->Enqueue(StreamId::kCompute, 0, Stands(gate));
  const std::vector<uint8_t> input(100, 3);
  for (int i = 0; i < 2000; ++i) {
    device_->Wait(StreamId::kHostToDevice, device_->Now(StreamId::kCompute), i);
    device_->Fill(StreamId::kHostToDevice, i, device_->memory(), 0, 16);
    device_->Wait(StreamId::kCompute, device_->Now(StreamId::kHostToDevice), i);
    device_->Copy(StreamId::kCompute, i, device_->memory(), input.data(), 100);
    // A move of 20 copies.
    device_->Copy(StreamId::kCompute, i, device_->memory(),
                  device_->memory() + 1000, 20'000);
    if (i == 300) gate.Open();
  }
  EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_LE(api_->most_queued(), QueueRoom::kMostQueued);
  EXPECT_FALSE(api_->stood_still());
}

// A launcher that waits for room hears of it.
TEST_F(QueueRoomTest, AFailureOfTheGpuEndsTheWaitForRoom) {
  Open(4096, 0);
  Gate gate;
  device_->Enqueue(StreamId::kCompute, 0, Stands(gate));
  for (int i = 0; i < 1000; ++i) {
    device_->Fill(StreamId::kCompute, i, device_->memory(), 0, 16);
  }
  while (api_->most_queued() < 200) std::this_thread::yield();
  api_->Break();
  EXPECT_TRUE(absl::IsInternal(device_->Synchronize(device_->NowAll())));
  gate.Open();
  device_.reset();  // whose fake GPU still looks at the gate
}

}  // namespace
}  // namespace castor::cuda
