// Measures what the CUDA device costs the host per operator, and per wait
// across streams.
//
//   bazel run -c opt //benchmarks:gpu_bench -- --benchmark_repetitions=9
//
// An operator here is a fill of 16 bytes: a launch like any other. `per_op` is
// the whole way: queueing, launching, one event, the end. `push` is what the
// trainer's thread pays of it. Goal: at most 5 us per operator. It also shows
// how many launches a driver takes before it holds the thread that makes them.
// Without a GPU the program says so.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "base/check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/runtime_api.h"

namespace castor {
namespace {

cuda::Api* api = nullptr;

std::unique_ptr<CudaDevice> MakeDevice() {
  auto device = CudaDevice::Create(api, {.memory_bytes = 1 << 20});
  CASTOR_CHECK(device.ok());
  return *std::move(device);
}

// Told of everything, as a training run's timeline is.
class Listener : public DeviceObserver {
 public:
  void OnWork(StreamId, int64_t, int64_t, int64_t, int64_t end_ns) override {
    last_ns = end_ns;
  }
  void OnWait(StreamId, int64_t, int64_t, const Fence&, int64_t,
              int64_t end_ns) override {
    last_ns = end_ns;
  }
  int64_t last_ns = 0;
};

benchmark::Counter PerItem(double items) {
  return {items, benchmark::Counter::kIsRate | benchmark::Counter::kInvert};
}

void BM_OperatorInAStep(benchmark::State& state) {
  constexpr int kOps = 4096;
  auto device = MakeDevice();
  Listener listener;
  device->SetObserver(&listener);
  int64_t push_ns = 0;
  for (auto _ : state) {
    const int64_t start_ns = device->NowNs();
    for (int i = 0; i < kOps; ++i) {
      device->Fill(StreamId::kCompute, i, device->memory(), 0, 16);
    }
    push_ns += device->NowNs() - start_ns;
    CASTOR_CHECK(device->Synchronize(device->NowAll()).ok());
  }
  device->SetObserver(nullptr);
  const double ops = static_cast<double>(state.iterations()) * kOps;
  state.counters["per_op"] = PerItem(ops);
  state.counters["push"] = 1e-9 * static_cast<double>(push_ns) / ops;
}
BENCHMARK(BM_OperatorInAStep)->UseRealTime();

// Each operator waits for the other stream's last one: the worst case.
void BM_StreamsThatWaitForEachOther(benchmark::State& state) {
  constexpr int kPairs = 2048;
  auto device = MakeDevice();
  for (auto _ : state) {
    Fence last;
    for (int i = 0; i < kPairs; ++i) {
      device->Wait(StreamId::kHostToDevice, last, i);
      last = device->Fill(StreamId::kHostToDevice, i, device->memory(), 0, 16);
      device->Wait(StreamId::kCompute, last, i);
      last = device->Fill(StreamId::kCompute, i, device->memory(), 0, 16);
    }
    CASTOR_CHECK(device->Synchronize(last).ok());
  }
  state.counters["per_wait"] =
      PerItem(static_cast<double>(state.iterations()) * 2 * kPairs);
}
BENCHMARK(BM_StreamsThatWaitForEachOther)->UseRealTime();

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Queues a fill of 16 bytes. Returns how long the call took.
int64_t TimeFill(cuda::Api::Stream stream, void* to) {
  const int64_t start_ns = NowNs();
  CASTOR_CHECK(api->Fill(to, 0, 16, stream).ok());
  return NowNs() - start_ns;
}

// Shows whether the driver holds a thread that queues so many launches behind
// work that lasts, and with it the calls of another thread for another stream.
// device/cuda/queue_room.h keeps the launches below that number. `launch` and
// `other` are the longest calls of the two threads, some microseconds unless
// one was held.
void BM_LaunchesBehindALongKernel(benchmark::State& state) {
  // One block of threads moves these bytes, in some milliseconds.
  constexpr int64_t kBytes = int64_t{64} << 20;
  constexpr int kMoves = 16;
  CASTOR_CHECK(api->UseDevice(0).ok());
  const auto memory = api->Allocate(kBytes + 4096);
  const auto stream = api->CreateStream(false);
  const auto other = api->CreateStream(true);
  const auto event = api->CreateEvent();
  CASTOR_CHECK(memory.ok() && stream.ok() && other.ok() && event.ok());
  auto* const at = static_cast<std::byte*>(*memory);
  int64_t longest_ns = 0, others_longest_ns = 0;
  for (auto _ : state) {
    for (int i = 0; i < kMoves; ++i) {
      CASTOR_CHECK(api->Move(at, at + 16, kBytes, *stream).ok());
    }
    std::atomic<bool> stop{false};
    std::thread caller([&] {
      CASTOR_CHECK(api->UseDevice(0).ok());
      while (!stop.load()) {
        others_longest_ns =
            std::max(others_longest_ns, TimeFill(*other, at + kBytes + 2048));
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
    for (int64_t i = 0; i < state.range(0); ++i) {
      longest_ns = std::max(longest_ns, TimeFill(*stream, at));
    }
    stop = true;
    caller.join();
    CASTOR_CHECK(api->Record(*event, *stream).ok());
    CASTOR_CHECK(api->Synchronize(*event).ok());
  }
  state.counters["launch"] = 1e-9 * static_cast<double>(longest_ns);
  state.counters["other"] = 1e-9 * static_cast<double>(others_longest_ns);
  api->DestroyEvent(*event);
  api->DestroyStream(*other);
  api->DestroyStream(*stream);
  api->Free(*memory);
}
BENCHMARK(BM_LaunchesBehindALongKernel)
    ->Arg(240)
    ->Arg(1000)
    ->Arg(4000)
    ->Iterations(3)
    ->UseRealTime();

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  const auto found = castor::cuda::RuntimeApi();
  const absl::Status status =
      found.ok() ? (*found)->CountDevices().status() : found.status();
  if (!status.ok()) {
    std::printf("not measured: %s\n", std::string(status.message()).c_str());
    return 77;
  }
  castor::api = *found;
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
