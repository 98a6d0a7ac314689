// Measures what the arena itself costs an operator.
//
//   bazel run -c opt //benchmarks:arena_bench -- --benchmark_repetitions=9
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "device/host/host_device.h"
#include "memory/exec/arena.h"

namespace castor {
namespace {

std::unique_ptr<HostDevice> MakeDevice(int64_t memory_bytes) {
  auto device = HostDevice::Create({.memory_bytes = memory_bytes});
  CASTOR_CHECK(device.ok());
  return *std::move(device);
}

// An operator's share: an output and a workspace allocated, an input freed,
// with `live` activations and as many chunks in place.
void BM_ArenaPerOperator(benchmark::State& state) {
  const int64_t live = state.range(0);
  auto device = MakeDevice(int64_t{1} << 30);
  auto arena = *Arena::Create(device.get());
  const auto allocate = [&](int64_t bytes, Category category, End end) {
    auto block = arena->Allocate(bytes, category, end, "h.0.mlp/forward");
    CASTOR_CHECK(block.ok());
    return *block;
  };
  for (int64_t i = 0; i < live; ++i) {
    allocate(64 << 10, Category::kParameters, End::kLow);
  }
  std::vector<BlockId> activations;
  for (int64_t i = 0; i < live; ++i) {
    activations.push_back(
        allocate((i % 7 + 1) << 12, Category::kActivations, End::kHigh));
  }
  int64_t step = 0;
  for (auto _ : state) {
    BlockId& old = activations[step % live];
    const BlockId output =
        allocate((step % 7 + 1) << 12, Category::kActivations, End::kHigh);
    const BlockId workspace =
        allocate(32 << 10, Category::kWorkspace, End::kHigh);
    const Fence fence(StreamId::kCompute, 0);
    arena->NoteRead(old, fence);
    arena->NoteWrite(output, fence);
    arena->NoteWrite(workspace, fence);
    arena->Free(workspace);
    arena->Free(old);
    old = output;
    ++step;
  }
}
BENCHMARK(BM_ArenaPerOperator)->Arg(16)->Arg(256)->Arg(2048);

}  // namespace
}  // namespace castor

BENCHMARK_MAIN();
