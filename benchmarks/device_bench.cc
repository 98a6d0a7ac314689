// Measures what the host device itself costs per piece of work, per wait and
// per loop, and how fast its copies are.
//
//   bazel run -c opt //benchmarks:device_bench -- --benchmark_repetitions=9
//
// `per_op` is the whole way of one small operator: queueing, running, reaching
// its fence. The CPU time that Google Benchmark prints is the queueing thread's
// alone.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

std::unique_ptr<HostDevice> MakeDevice(int threads, int64_t memory_bytes = 0,
                                       double bus_bytes_per_s = 0) {
  HostDeviceOptions options;
  options.memory_bytes = memory_bytes;
  options.compute_threads = threads;
  options.host_compute_threads = threads;
  options.bus_bytes_per_s = bus_bytes_per_s;
  auto device = HostDevice::Create(options);
  CASTOR_CHECK(device.ok());
  return *std::move(device);
}

Work Nothing() {
  return [](const ExecContext&) { return absl::OkStatus(); };
}

// Queues work as a step does: thousands of operators ahead, one join.
void BM_OperatorInAStep(benchmark::State& state) {
  constexpr int kOps = 4096;
  auto device = MakeDevice(1);
  for (auto _ : state) {
    for (int i = 0; i < kOps; ++i) {
      device->Enqueue(StreamId::kCompute, i, Nothing());
    }
    CASTOR_CHECK(device->Synchronize(device->NowAll()).ok());
  }
  state.counters["per_op"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kOps,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_OperatorInAStep)->UseRealTime();

// The worst case: each operator waits for a copy on another stream, and the
// next copy for that operator.
void BM_StreamsThatWaitForEachOther(benchmark::State& state) {
  constexpr int kPairs = 2048;
  auto device = MakeDevice(1);
  for (auto _ : state) {
    Fence last;
    for (int i = 0; i < kPairs; ++i) {
      device->Wait(StreamId::kHostToDevice, last, i);
      last = device->Enqueue(StreamId::kHostToDevice, i, Nothing());
      device->Wait(StreamId::kCompute, last, i);
      last = device->Enqueue(StreamId::kCompute, i, Nothing());
    }
    CASTOR_CHECK(device->Synchronize(last).ok());
  }
  state.counters["per_wait"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * 2 * kPairs,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_StreamsThatWaitForEachOther)->UseRealTime();

// Queue, run, join, one at a time.
void BM_RoundTrip(benchmark::State& state) {
  auto device = MakeDevice(1);
  for (auto _ : state) {
    const Fence fence = device->Enqueue(StreamId::kCompute, 0, Nothing());
    CASTOR_CHECK(device->Synchronize(fence).ok());
  }
}
BENCHMARK(BM_RoundTrip)->UseRealTime();

// A data-parallel loop of empty tasks; arguments: threads, tasks.
void BM_ParallelFor(benchmark::State& state) {
  ThreadPool pool(state.range(0));
  for (auto _ : state) {
    pool.ParallelFor(state.range(1),
                     [](int64_t task, int) { benchmark::DoNotOptimize(task); });
  }
}
BENCHMARK(BM_ParallelFor)
    ->Args({1, 16})
    ->Args({2, 2})
    ->Args({2, 16})
    ->Args({2, 256})
    ->UseRealTime();

// Two tasks of about 10 us each: 20000 on one thread, 10000 + hand-off on two.
void BM_ParallelForOfTwoShortTasks(benchmark::State& state) {
  ThreadPool pool(state.range(0));
  std::vector<float> data(2 * 32768, 1.0f);
  for (auto _ : state) {
    pool.ParallelFor(2, [&](int64_t task, int) {
      float sum = 0;
      for (int i = 0; i < 10000; ++i) sum += data[task * 32768 + i];
      benchmark::DoNotOptimize(sum);
    });
  }
}
BENCHMARK(BM_ParallelForOfTwoShortTasks)->Arg(1)->Arg(2)->UseRealTime();

// Arguments: bytes per copy, directions at once, bus limit in MB/s (0: none).
void BM_Copy(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  const bool both = state.range(1) == 2;
  auto device = MakeDevice(1, 2 * bytes, state.range(2) * 1e6);
  std::vector<std::byte> host(2 * bytes);
  std::byte* const memory = device->memory();
  const int64_t copies = std::max<int64_t>(1, (int64_t{64} << 20) / bytes);
  const auto round = [&] {
    for (int64_t i = 0; i < copies; ++i) {
      device->Copy(StreamId::kHostToDevice, 0, memory, host.data(), bytes);
      if (!both) continue;
      device->Copy(StreamId::kDeviceToHost, 0, host.data() + bytes,
                   memory + bytes, bytes);
    }
    CASTOR_CHECK(device->Synchronize(device->NowAll()).ok());
  };
  round();  // takes the pages
  for (auto _ : state) round();
  state.SetBytesProcessed(state.iterations() * copies * bytes * (both ? 2 : 1));
}
BENCHMARK(BM_Copy)
    ->Args({4 << 10, 1, 0})
    ->Args({256 << 10, 1, 0})
    ->Args({16 << 20, 1, 0})
    ->Args({16 << 20, 2, 0})
    ->Args({64 << 10, 1, 1000})
    ->Args({16 << 20, 1, 1000})
    ->Args({16 << 20, 2, 1000})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace castor

BENCHMARK_MAIN();
