// What the CUDA device costs the host: per operator, and per wait across
// streams.
//
//   bazel run -c opt //benchmarks:gpu_bench -- --benchmark_repetitions=9
//
// An operator here is a fill of 16 bytes: a launch like any other. `per_op` is
// the whole way: queueing, launching, one event, the end. `push` is what the
// trainer's thread pays of it. Goal: at most 5 us per operator. Without a GPU
// the program says so.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

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

// Each waits for the other stream's last: the worst case.
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
