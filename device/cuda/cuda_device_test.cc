// The CUDA device over a GPU made of threads: its own logic, on any machine.
// The same contract over a real GPU: gpu_device_test.cc.
#include "device/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/sanitizers.h"
#include "base/test_threads.h"
#include "base/units.h"
#include "device/cuda/fake_api.h"
#include "device/forwarding_device.h"
#include "device/gate.h"
#include "device/testing/device_contract.h"

namespace castor {
namespace {

using cuda::FakeApi;

// A device with the GPU that it runs on.
class OwningDevice final : public ForwardingDevice {
 public:
  OwningDevice(std::unique_ptr<FakeApi> api, std::unique_ptr<CudaDevice> device)
      : ForwardingDevice(device.get()),
        api_(std::move(api)),
        device_(std::move(device)) {}

 private:
  const std::unique_ptr<FakeApi> api_;  // outlives the device
  const std::unique_ptr<CudaDevice> device_;
};

DeviceFactory Factory(const char* name, cuda::FakeApiOptions fake) {
  return {name,
          [fake](int64_t memory_bytes, double) -> std::unique_ptr<Device> {
            auto api = std::make_unique<FakeApi>(fake);
            auto device = CudaDevice::Create(
                api.get(),
                {.memory_bytes = memory_bytes, .host_compute_threads = 2});
            EXPECT_TRUE(device.ok()) << device.status();
            if (!device.ok()) return nullptr;
            return std::make_unique<OwningDevice>(std::move(api),
                                                  *std::move(device));
          },
          /*limits_bus=*/false};
}

INSTANTIATE_TEST_SUITE_P(
    Devices, DeviceContract,
    testing::Values(Factory("cuda_over_a_fake", {}),
                    Factory("cuda_with_another_clock", {.clock_drift = 1e-3}),
                    Factory("cuda_with_late_work", {.jitter_ns = 20'000}),
                    Factory("cuda_with_a_queue_of_64", {.queue_limit = 64}),
                    Factory("cuda_with_a_queue_of_256", {.queue_limit = 256}),
                    Factory("cuda_with_a_queue_of_1024", {.queue_limit = 1024}),
                    // No memory can be locked: not even the rings.
                    Factory("cuda_without_rings", {.pinned_bytes = 132 << 10})),
    DeviceContractName);

class CudaDeviceTest : public testing::Test {
 protected:
  void Open(CudaDeviceOptions options, cuda::FakeApiOptions fake = {}) {
    api_ = std::make_unique<FakeApi>(fake);
    auto device = CudaDevice::Create(api_.get(), options);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  // A work that launches `kernel`.
  Work Launches(std::function<void()> kernel) {
    return [api = api_.get(),
            kernel = std::move(kernel)](const ExecContext& context) {
      api->Launch(context.gpu->stream, kernel);
      return absl::OkStatus();
    };
  }
  std::unique_ptr<FakeApi> api_;
  std::unique_ptr<CudaDevice> device_;
};

TEST_F(CudaDeviceTest, RefusesWhatCannotBe) {
  FakeApi api({.memory_bytes = 64 << 20});
  const auto status = [&](CudaDeviceOptions options) {
    return CudaDevice::Create(&api, options).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(status({.memory_bytes = -1})));
  EXPECT_TRUE(
      absl::IsInvalidArgument(status({.memory_bytes = kUnlimitedBytes})));
  EXPECT_TRUE(absl::IsInvalidArgument(status({.host_compute_threads = 0})));
  EXPECT_TRUE(absl::IsInvalidArgument(status({.ordinal = 1})));
  const absl::Status large = status({.memory_bytes = 65 << 20});
  EXPECT_TRUE(absl::IsResourceExhausted(large)) << large;
  EXPECT_TRUE(absl::StrContains(large.message(), "free 64.0 MiB")) << large;
  EXPECT_EQ(api.live_objects(), 0);
}

TEST_F(CudaDeviceTest, SaysThatThereIsNoGpu) {
  FakeApi api({.devices = 0});
  const absl::Status status = CudaDevice::Create(&api, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

#if !CASTOR_THREAD_SANITIZER  // guarded_memory.h
TEST(FakeApiDeathTest, HostCodeCannotReadDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        FakeApi api;
        auto device = *CudaDevice::Create(
            &api, {.memory_bytes = 4096, .host_compute_threads = 2});
        CASTOR_CHECK(device
                         ->Synchronize(device->Fill(StreamId::kHostToDevice, 0,
                                                    device->memory(), 7, 4096))
                         .ok());
        // The filled bytes are there to be copied, not to be read.
        const volatile std::byte* const first = device->memory();
        std::exit(static_cast<int>(*first));
      },
      "host code touched device memory of the fake GPU");
}
#endif

TEST_F(CudaDeviceTest, TooFewThreadsAreAnErrorAndNothingStaysTaken) {
  // One for each stream, one for each of two pools, the finisher.
  constexpr int kThreads = kNumStreams + 3;
  FakeApi api;
  const CudaDeviceOptions options = {.memory_bytes = 4096,
                                     .host_compute_threads = 2};
  for (int more = 0; more < kThreads; ++more) {
    const FewThreads few(more);
    const absl::Status status = CudaDevice::Create(&api, options).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "thread")) << status;
    EXPECT_EQ(api.live_objects(), 0) << more;
  }
  const FewThreads enough(kThreads);
  EXPECT_TRUE(CudaDevice::Create(&api, options).ok());
}

TEST_F(CudaDeviceTest, GivesBackAllThatItTook) {
  Open({.memory_bytes = 1 << 20});
  device_->Fill(StreamId::kCompute, 0, device_->memory(), 1, 1 << 20);
  EXPECT_GT(api_->live_objects(), 0);
  device_.reset();
  EXPECT_EQ(api_->live_objects(), 0);
}

TEST_F(CudaDeviceTest, MakesNoEventsWhileItRuns) {
  Open({.memory_bytes = 4096});
  const int64_t made = api_->events_made();
  // Several times around the ring of each stream.
  for (int i = 0; i < 5000; ++i) {
    device_->Fill(StreamId::kCompute, i, device_->memory(), 0, 16);
    device_->Wait(StreamId::kDeviceToHost, device_->Now(StreamId::kCompute), i);
  }
  EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(api_->events_made(), made);
}

TEST_F(CudaDeviceTest, GivesWorksTheStreamAndWhatTheyNeed) {
  Open({.memory_bytes = 4096});
  const void* streams[kNumStreams] = {};
  for (int i = 0; i < kNumStreams; ++i) {
    const StreamId id = static_cast<StreamId>(i);
    device_->Enqueue(id, 0, [&streams, i, id](const ExecContext& context) {
      EXPECT_EQ(context.gpu == nullptr, id == StreamId::kHostCompute);
      if (context.gpu == nullptr) return absl::OkStatus();
      streams[i] = context.gpu->stream;
      EXPECT_EQ(context.gpu->multiprocessors, 4);
      EXPECT_EQ(context.gpu->compute_capability, 80);
      EXPECT_NE(context.gpu->fault, nullptr);
      // Kept for the stream's next work.
      if (*context.gpu->library_state == nullptr) {
        *context.gpu->library_state = std::make_shared<int>(i);
      }
      return absl::OkStatus();
    });
    device_->Enqueue(id, 0, [i](const ExecContext& context) {
      if (context.gpu == nullptr) return absl::OkStatus();
      EXPECT_EQ(*std::static_pointer_cast<int>(*context.gpu->library_state), i);
      return absl::OkStatus();
    });
  }
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  for (int i = 0; i < kNumStreams; ++i) {
    for (int j = 0; j < i; ++j) EXPECT_NE(streams[i], streams[j]);
  }
}

TEST_F(CudaDeviceTest, FenceIsReachedWhenTheGpuIsThroughNotWhenItIsLaunched) {
  Open({.memory_bytes = 4096});
  Gate gate;
  auto held = std::make_shared<int>(1);
  const Fence fence = device_->Enqueue(
      StreamId::kCompute, 0,
      [held, launch = Launches([&gate] { (void)gate.Hold()(ExecContext{}); })](
          const ExecContext& context) mutable { return launch(context); });
  // The launcher is through with it and with a copy behind it, on a stream that
  // does not wait.
  std::atomic<bool> launched{false};
  device_->Enqueue(StreamId::kCompute, 0, [&](const ExecContext&) {
    launched = true;
    return absl::OkStatus();
  });
  while (!launched.load()) std::this_thread::yield();
  EXPECT_FALSE(device_->Reached(fence));
  EXPECT_EQ(held.use_count(), 2);  // the kernel may be reading what it owns
  gate.Open();
  EXPECT_TRUE(device_->Synchronize(fence).ok());
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(CudaDeviceTest, GpuOrdersWhatWaitsForAnotherStream) {
  // A value goes round the streams, changed by kernels, not by launches; the
  // host's stream takes its part.
  Open({.memory_bytes = 4096}, {.jitter_ns = 30'000});
  constexpr StreamId kRound[] = {StreamId::kCompute, StreamId::kDeviceToHost,
                                 StreamId::kHostCompute,
                                 StreamId::kHostToDevice, StreamId::kNetwork};
  int64_t value = 0;
  Fence last;
  for (int i = 0; i < 1000; ++i) {
    const StreamId stream = kRound[i % kNumStreams];
    device_->Wait(stream, last, i);
    const auto step = [&value, i] {
      EXPECT_EQ(value, i);
      value = i + 1;
    };
    last = stream == StreamId::kHostCompute
               ? device_->Enqueue(stream, i,
                                  [step](const ExecContext&) {
                                    step();
                                    return absl::OkStatus();
                                  })
               : device_->Enqueue(stream, i, Launches(step));
  }
  ASSERT_TRUE(device_->Synchronize(last).ok());
  EXPECT_EQ(value, 1000);
}

TEST_F(CudaDeviceTest, LauncherDoesNotWaitForTheGpu) {
  Open({.memory_bytes = 4096});
  Gate gate;
  device_->Enqueue(StreamId::kCompute, 0,
                   Launches([&gate] { (void)gate.Hold()(ExecContext{}); }));
  // The copy stream waits for compute, compute for the copy: the launches of
  // both go on while the GPU stands at the gate.
  std::atomic<bool> launched{false};
  device_->Wait(StreamId::kHostToDevice, device_->NowAll(), 0);
  const Fence filled =
      device_->Fill(StreamId::kHostToDevice, 0, device_->memory(), 1, 4096);
  device_->Wait(StreamId::kCompute, filled, 0);
  // An operator's input out of pageable memory does not wait either.
  const std::vector<uint8_t> input(100, 3);
  device_->Copy(StreamId::kCompute, 0, device_->memory(), input.data(), 100);
  device_->Enqueue(StreamId::kCompute, 0, [&](const ExecContext&) {
    launched = true;
    return absl::OkStatus();
  });
  while (!launched.load()) std::this_thread::yield();
  EXPECT_FALSE(device_->Reached(filled));
  gate.Open();
  EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
}

TEST_F(CudaDeviceTest, MovesOverlappingBlocksByCopiesOrByTheKernel) {
  constexpr int64_t kBytes = 1 << 20;
  Open({.memory_bytes = 3 * kBytes});
  std::vector<uint8_t> sent(kBytes), got(kBytes);
  for (int64_t i = 0; i < kBytes; ++i) sent[i] = i * 131 + i / 253;
  // FakeApi refuses copies that overlap.
  for (int64_t distance :
       {int64_t{64}, kBytes / 16, kBytes / 3, kBytes - 1, kBytes, kBytes + 1}) {
    for (bool up : {true, false}) {
      SCOPED_TRACE(testing::Message() << distance << (up ? " up" : " down"));
      std::byte* const low = device_->memory();
      std::byte* const from = up ? low : low + distance;
      std::byte* const to = up ? low + distance : low;
      const int64_t moves = api_->moves();
      device_->Copy(StreamId::kCompute, 0, from, sent.data(), kBytes);
      device_->Copy(StreamId::kCompute, 0, to, from, kBytes);
      device_->Wait(StreamId::kDeviceToHost, device_->NowAll(), 0);
      device_->Copy(StreamId::kDeviceToHost, 0, got.data(), to, kBytes);
      ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
      EXPECT_EQ(got, sent);
      EXPECT_EQ(api_->moves() - moves, distance == 64 ? 1 : 0);
    }
  }
}

TEST_F(CudaDeviceTest, ReadsPageableMemoryOnlyOnceWhatItWaitsForIsOver) {
  // Down into pageable memory, a change there by the host, and up again: the
  // launcher of the way up must not read early.
  constexpr int64_t kBytes = 5 << 20;  // more than the ring holds
  Open({.memory_bytes = 2 * kBytes}, {.jitter_ns = 100'000});
  std::vector<uint8_t> host(kBytes), got(kBytes);
  std::byte* const memory = device_->memory();
  for (int round = 1; round <= 3; ++round) {
    device_->Fill(StreamId::kCompute, 0, memory, round, kBytes);
    device_->Wait(StreamId::kDeviceToHost, device_->NowAll(), 0);
    device_->Copy(StreamId::kDeviceToHost, 0, host.data(), memory, kBytes);
    device_->Wait(StreamId::kHostToDevice, device_->NowAll(), 0);
    device_->Copy(StreamId::kHostToDevice, 0, memory + kBytes, host.data(),
                  kBytes);
    device_->Wait(StreamId::kDeviceToHost, device_->NowAll(), 0);
    device_->Copy(StreamId::kDeviceToHost, 0, got.data(), memory + kBytes,
                  kBytes);
    ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
    EXPECT_EQ(got, std::vector<uint8_t>(kBytes, round));
  }
}

TEST_F(CudaDeviceTest, CopiesPinnedMemoryInOnePiece) {
  constexpr int64_t kBytes = 6 << 20;
  Open({.memory_bytes = kBytes});
  std::vector<uint8_t> host(kBytes, 7), got(kBytes);
  HostPinner* const pinner = device_->host_pinner();
  ASSERT_NE(pinner, nullptr);
  ASSERT_TRUE(pinner->PinHost(host.data(), kBytes).ok());
  device_->Copy(StreamId::kHostToDevice, 0, device_->memory(), host.data(),
                kBytes);
  device_->Wait(StreamId::kDeviceToHost, device_->NowAll(), 0);
  device_->Copy(StreamId::kDeviceToHost, 0, got.data(), device_->memory(),
                kBytes);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(got, host);
  pinner->UnpinHost(host.data());
}

TEST_F(CudaDeviceTest, SaysWhenMemoryCannotBeLocked) {
  Open({.memory_bytes = 4096}, {.pinned_bytes = 32 << 20});
  std::vector<uint8_t> host(40 << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(
      device_->host_pinner()->PinHost(host.data(), host.size())));
}

TEST_F(CudaDeviceTest, RefusesACopyThatTouchesNoDeviceMemory) {
  Open({.memory_bytes = 4096});
  char a = 'a', b = 'b';
  const Fence fence = device_->Copy(StreamId::kHostToDevice, 0, &a, &b, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(device_->Synchronize(fence)));
}

absl::Status DescribeFault(const GpuFault& fault) {
  return absl::InvalidArgumentError(
      absl::StrCat("fault ", fault.code, " at row ", fault.detail[0]));
}

TEST_F(CudaDeviceTest, KernelsFaultIsTheFailureOfItsStreamAndNamesTheWork) {
  Open({.memory_bytes = 4096, .describe_fault = DescribeFault});
  const auto named = [&](const char* name, uint32_t code) {
    return [api = api_.get(), name, code](const ExecContext& context) {
      context.gpu->SetName(name);
      api->Launch(context.gpu->stream, [fault = context.gpu->fault, code] {
        if (code == 0) return;
        fault->detail[0] = 12;
        __atomic_store_n(&fault->code, code, __ATOMIC_RELEASE);
      });
      return absl::OkStatus();
    };
  };
  device_->Enqueue(StreamId::kCompute, 0, named("before", 0));
  EXPECT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  const Fence wrong =
      device_->Enqueue(StreamId::kCompute, 1, named("wte/forward", 3));
  EXPECT_EQ(device_->Synchronize(wrong).message(),
            "wte/forward: fault 3 at row 12");
  // Work that comes after is skipped, and other streams go on.
  bool ran = false;
  device_->Enqueue(StreamId::kCompute, 2, [&](const ExecContext&) {
    ran = true;
    return absl::OkStatus();
  });
  EXPECT_FALSE(device_->Synchronize(device_->Now(StreamId::kCompute)).ok());
  EXPECT_FALSE(ran);
  const Fence other =
      device_->Fill(StreamId::kHostToDevice, 0, device_->memory(), 1, 8);
  EXPECT_TRUE(device_->Synchronize(other).ok());
}

TEST_F(CudaDeviceTest, SpoiltContextFailsEveryStreamAndNobodyHangs) {
  Open({.memory_bytes = 4096});
  // The fake's thread may come to it when this test has ended.
  const auto gate = std::make_shared<Gate>();
  device_->Enqueue(
      StreamId::kCompute, 0, [&, gate](const ExecContext& context) {
        context.gpu->SetName("h.3.mlp/backward");
        api_->Launch(context.gpu->stream,
                     [gate] { (void)gate->Hold()(ExecContext{}); });
        return absl::OkStatus();
      });
  bool host_ran = false;
  device_->Wait(StreamId::kHostToDevice, device_->NowAll(), 0);
  device_->Fill(StreamId::kHostToDevice, 0, device_->memory(), 1, 8);
  device_->Wait(StreamId::kHostCompute, device_->NowAll(), 0);
  device_->Enqueue(StreamId::kHostCompute, 0, [&](const ExecContext&) {
    host_ran = true;
    return absl::OkStatus();
  });
  api_->Break();
  const absl::Status status = device_->Synchronize(device_->NowAll());
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "illegal memory access"))
      << status;
  EXPECT_TRUE(host_ran);
  for (StreamId id : {StreamId::kCompute, StreamId::kHostToDevice,
                      StreamId::kDeviceToHost, StreamId::kNetwork}) {
    const Fence fence = device_->Fill(id, 0, device_->memory(), 0, 8);
    EXPECT_FALSE(device_->Synchronize(fence).ok());
  }
  gate->Open();  // the fake's thread
}

// Times as the GPU had them, though its clock runs 0.1 % fast.
TEST_F(CudaDeviceTest, TellsTimesOfTheGpuOnTheHostsClock) {
  struct Told : DeviceObserver {
    void OnWork(StreamId stream, int64_t, int64_t, int64_t start_ns,
                int64_t end_ns) override {
      if (stream == StreamId::kCompute) works.push_back({start_ns, end_ns});
    }
    void OnWait(StreamId, int64_t, int64_t, const Fence&, int64_t,
                int64_t) override {}
    std::vector<std::pair<int64_t, int64_t>> works;
  } told;
  Open({.memory_bytes = 4096}, {.clock_drift = 1e-3});
  device_->SetObserver(&told);
  // Each kernel's own view. Its event lies after its end, and before the next
  // kernel's beginning.
  constexpr int kKernels = 50;
  std::vector<int64_t> began_ns(kKernels), ended_ns(kKernels);
  for (int i = 0; i < kKernels; ++i) {
    device_->Enqueue(
        StreamId::kCompute, 0, Launches([&, i] {
          began_ns[i] = device_->NowNs();
          std::this_thread::sleep_for(std::chrono::microseconds(500));
          ended_ns[i] = device_->NowNs();
        }));
  }
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  device_->SetObserver(nullptr);
  ASSERT_EQ(told.works.size(), began_ns.size());
  // The error of the anchor where the machine is busy, and the drift.
  constexpr int64_t kOffNs = 5'000'000;
  for (int i = 0; i < kKernels; ++i) {
    const auto [begin, end] = told.works[i];
    EXPECT_GE(end, ended_ns[i] - kOffNs) << i;
    if (i + 1 < kKernels) {
      EXPECT_LE(end, began_ns[i + 1] + kOffNs) << i;
      EXPECT_LE(end, told.works[i + 1].first) << i;
    }
  }
}

TEST_F(CudaDeviceTest, ResizesByPiecesOfVirtualMemory) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  Open({.memory_bytes = 40 * kMiB}, {.memory_bytes = 64 * kMiB});
  std::byte* const memory = device_->memory();
  const auto free_bytes = [&] {
    const absl::StatusOr<DeviceRoom> room = device_->Room();
    EXPECT_TRUE(room.ok()) << room.status();
    EXPECT_EQ(room->total_bytes, 64 * kMiB);
    return room->free_bytes;
  };
  EXPECT_EQ(free_bytes(), 24 * kMiB);
  std::vector<char> sent(20 * kMiB), got(20 * kMiB);
  for (size_t i = 0; i < sent.size(); ++i) {
    sent[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  device_->Copy(StreamId::kHostToDevice, 0, memory, sent.data(), 20 * kMiB);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  // The piece in which the new end lies stays.
  ASSERT_TRUE(device_->Resize(20 * kMiB).ok());
  EXPECT_EQ(device_->memory_bytes(), 20 * kMiB);
  EXPECT_EQ(free_bytes(), 32 * kMiB);
  // The GPU has not as much, and nothing has changed.
  EXPECT_TRUE(absl::IsResourceExhausted(device_->Resize(65 * kMiB)));
  EXPECT_EQ(device_->memory_bytes(), 20 * kMiB);
  EXPECT_EQ(free_bytes(), 32 * kMiB);
  ASSERT_TRUE(device_->Resize(60 * kMiB + 1).ok());
  EXPECT_EQ(device_->memory(), memory);
  device_->Fill(StreamId::kCompute, 0, memory + 60 * kMiB, 7, 1);
  device_->Copy(StreamId::kDeviceToHost, 0, got.data(), memory, 20 * kMiB);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(got, sent);
}

TEST_F(CudaDeviceTest, KeepsItsSizeWhereTheGpuHasNoVirtualMemory) {
  Open({.memory_bytes = 1 << 20}, {.mapping_granularity = 0});
  EXPECT_TRUE(absl::IsUnimplemented(device_->Resize(1 << 19)));
  EXPECT_EQ(device_->memory_bytes(), 1 << 20);
}

}  // namespace
}  // namespace castor
