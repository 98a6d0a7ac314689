// The optimizer's pass against a memory triad, alternating within one run over
// as many bytes of memory with the same threads.
//
// Bytes are what crosses the memory bus, for both alike. The triad a = b + s c
// on fp32 reads b and c, reads a's lines before it writes them (write-allocate)
// and writes them: 16 bytes per element. Adam reads gradient, master, m and v
// and writes the parameter, master, m and v into lines that it has just read:
// 32 bytes per element with fp32 gradients, 28 with 16 bits. A second triad
// writes past the caches: 12 bytes per element. `share` is Adam's rate over
// that of the better triad, the median over the rounds of one run.
//
//   bazel run //benchmarks:adam_bench
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/median.h"
#include "base/state_format.h"
#include "base/thread_pool.h"
#include "base/with_type.h"
#include "benchmark/benchmark.h"
#include "benchmarks/seconds.h"
#include "device/device.h"
#include "kernels/adam/adam.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/run.h"
#include "kernels/state_update/state_update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmarks/adam_bench.cc"
#include "hwy/foreach_target.h"
// These are included after foreach_target.h, once for each target.
#include "hwy/cache_control.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

void TriadTile(int64_t size, const float* b, const float* c, float* a) {
  const VF32 s = hn::Set(F32(), 0.5f);
  int64_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    const VF32 b0 = Load(b + i), c0 = Load(c + i);
    const VF32 b1 = Load(b + i + kLanes), c1 = Load(c + i + kLanes);
    const VF32 b2 = Load(b + i + 2 * kLanes), c2 = Load(c + i + 2 * kLanes);
    const VF32 b3 = Load(b + i + 3 * kLanes), c3 = Load(c + i + 3 * kLanes);
    Store(Fma(s, c0, b0), a + i);
    Store(Fma(s, c1, b1), a + i + kLanes);
    Store(Fma(s, c2, b2), a + i + 2 * kLanes);
    Store(Fma(s, c3, b3), a + i + 3 * kLanes);
  }
  for (; i < size; i += kLanes) {
    StorePart(Fma(s, LoadPart(c + i, size - i), LoadPart(b + i, size - i)),
              a + i, size - i);
  }
}

// `a` aligned for any vector, `size` a multiple of 16.
void StreamTriadTile(int64_t size, const float* b, const float* c, float* a) {
  const VF32 s = hn::Set(F32(), 0.5f);
  for (int64_t i = 0; i < size; i += kLanes) {
    hn::Stream(Fma(s, Load(c + i), Load(b + i)), F32(), a + i);
  }
  hwy::FlushStream();
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(TriadTile);
HWY_EXPORT(StreamTriadTile);
}  // namespace cpu

namespace {

constexpr int64_t kElements = int64_t{32} << 20;
constexpr int64_t kCachedElements = int64_t{32} << 10;

using Floats = std::unique_ptr<float, decltype(&std::free)>;

Floats Allocate(int64_t size) {
  Floats memory(static_cast<float*>(std::aligned_alloc(4096, size * 4)),
                &std::free);
  CASTOR_CHECK(memory != nullptr);
  std::fill(memory.get(), memory.get() + size, 1e-3f);
  return memory;
}

// Per byte.
double TriadSeconds(ThreadPool& pool, float* memory, int64_t size,
                    bool stream) {
  const int64_t n = size / 3 / 16 * 16;
  const double start = Seconds();
  cpu::ParallelTiles(ExecContext{&pool}, n, cpu::kElementTile,
                     [&](int64_t begin, int64_t end) {
                       const float* b = memory + n + begin;
                       const float* c = memory + 2 * n + begin;
                       if (stream) {
                         HWY_DYNAMIC_DISPATCH(cpu::StreamTriadTile)
                         (end - begin, b, c, memory + begin);
                       } else {
                         HWY_DYNAMIC_DISPATCH(cpu::TriadTile)
                         (end - begin, b, c, memory + begin);
                       }
                     });
  return (Seconds() - start) / static_cast<double>(n) / (stream ? 12 : 16);
}

void BM_AdamAgainstTriad(benchmark::State& state, DType dtype) {
  const int threads = static_cast<int>(state.range(0));
  ThreadPool pool(threads);
  const int64_t payload = kElements * SizeOf(dtype) / 4;  // in floats
  const int64_t floats = payload + 3 * kElements;
  const Floats triad_memory = Allocate(floats);
  const Floats memory = Allocate(floats);
  WithType(dtype, [&]<class T>(T) {
    T* const gradient = reinterpret_cast<T*>(memory.get());
    std::fill(gradient, gradient + kElements, T(1e-3f));
  });
  const float scale = 0.5f;
  AdamHyper hyper;
  hyper.weight_decay = 0.1;
  const AdamRange range{0, kElements, hyper};
  AdamArgs args;
  args.payload = memory.get();
  args.dtype = dtype;
  args.master = memory.get() + payload;
  args.m = args.master + kElements;
  args.v = args.m + kElements;
  args.grad_scale = &scale;
  args.ranges = &range;
  args.num_ranges = 1;
  const double bytes_per_element =
      24 + 2.0 * static_cast<double>(SizeOf(dtype));

  std::vector<double> adam, triad, stream, share;
  // The first pair warms up.
  TriadSeconds(pool, triad_memory.get(), floats, false);
  CASTOR_CHECK(Run(ExecContext{&pool}, args).ok());
  for (auto _ : state) {
    const double t = TriadSeconds(pool, triad_memory.get(), floats, false);
    const double n = TriadSeconds(pool, triad_memory.get(), floats, true);
    const double start = Seconds();
    CASTOR_CHECK(Run(ExecContext{&pool}, args).ok());
    const double elapsed = Seconds() - start;
    const double a =
        elapsed / static_cast<double>(kElements) / bytes_per_element;
    triad.push_back(1e-9 / t);
    adam.push_back(1e-9 / a);
    stream.push_back(1e-9 / n);
    share.push_back(std::min(t, n) / a);
    state.SetIterationTime(elapsed);
  }
  state.counters["adam_GB/s"] = Median(adam);
  state.counters["triad_GB/s"] = Median(triad);
  state.counters["stream_triad_GB/s"] = Median(stream);
  state.counters["share"] = Median(share);
  state.counters["share_min"] = *std::min_element(share.begin(), share.end());
  state.counters["share_max"] = *std::max_element(share.begin(), share.end());
  state.counters["Gelem/s"] = Median(adam) / bytes_per_element;
}

// Adam with moments of 16 or 8 bits against Adam in fp32, of as many elements,
// in turns. `speedup` is the median over the rounds of elements a second. A
// round updates kElements elements in all: at once, or the same few, which the
// second-level cache holds, again and again, so that the processor is the limit
// and not the memory.
void BM_PackedAdamAgainstAdam(benchmark::State& state, int bits) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const ExecContext context{&pool};
  const int64_t elements = state.range(1);
  const int64_t repeats = kElements / elements;
  const int64_t payload = elements / 2;  // in floats, of bf16
  const Floats wide = Allocate(payload + 3 * elements);
  const StateFormat m_format = FormatOfState(bits, 0);
  const StateFormat v_format = FormatOfState(bits, 1);
  const int64_t m_bytes = StateBytes(m_format, elements);
  const int64_t v_bytes = StateBytes(v_format, elements);
  const Floats narrow = Allocate(payload + elements + (m_bytes + v_bytes) / 4);
  std::vector<float> values(elements, 1e-3f);
  const float scale = 0.5f;
  StateArrays arrays = {.payload = narrow.get(),
                        .dtype = DType::kBFloat16,
                        .master = narrow.get() + payload,
                        .bits = bits,
                        .elements = elements,
                        .grad_scale = &scale};
  auto* const m =
      reinterpret_cast<std::byte*>(narrow.get() + payload + elements);
  arrays.states = {m, m + m_bytes};
  EncodeStates(m_format, values.data(), m, elements, 0, elements);
  EncodeStates(v_format, values.data(), m + m_bytes, elements, 0, elements);
  for (const Floats* memory : {&wide, &narrow}) {
    auto* const gradient = reinterpret_cast<BFloat16*>(memory->get());
    std::fill(gradient, gradient + elements, BFloat16(1e-3f));
  }
  const AdamHyper hyper = {.weight_decay = 0.1};
  const AdamRange range{0, elements, hyper};
  const PackedAdamRange packed_range = {
      .begin = 0, .end = elements, .hyper = hyper, .key = {1, 2}};
  const PackedAdamArgs packed = {
      .arrays = arrays, .ranges = &packed_range, .num_ranges = 1};
  const AdamArgs args = {.payload = wide.get(),
                         .dtype = DType::kBFloat16,
                         .master = wide.get() + payload,
                         .m = wide.get() + payload + elements,
                         .v = wide.get() + payload + 2 * elements,
                         .grad_scale = &scale,
                         .ranges = &range,
                         .num_ranges = 1};
  std::vector<double> speedup, rate;
  const auto seconds = [&](const auto& update) {
    const double start = Seconds();
    for (int64_t i = 0; i < repeats; ++i) {
      CASTOR_CHECK(Run(context, update).ok());
    }
    return Seconds() - start;
  };
  seconds(args);
  seconds(packed);
  for (auto _ : state) {
    const double wide_seconds = seconds(args);
    const double elapsed = seconds(packed);
    speedup.push_back(wide_seconds / elapsed);
    rate.push_back(static_cast<double>(kElements) * 1e-9 / elapsed);
    state.SetIterationTime(elapsed);
  }
  state.counters["speedup"] = Median(speedup);
  state.counters["speedup_min"] =
      *std::min_element(speedup.begin(), speedup.end());
  state.counters["speedup_max"] =
      *std::max_element(speedup.begin(), speedup.end());
  state.counters["Gelem/s"] = Median(rate);
}

BENCHMARK_CAPTURE(BM_PackedAdamAgainstAdam, fp32, 32)
    ->ArgNames({"threads", "elements"})
    ->ArgsProduct({{1, 2}, {kElements, kCachedElements}})
    ->UseManualTime()
    ->Iterations(21)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_PackedAdamAgainstAdam, int8, 8)
    ->ArgNames({"threads", "elements"})
    ->ArgsProduct({{1, 2}, {kElements, kCachedElements}})
    ->UseManualTime()
    ->Iterations(21)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_PackedAdamAgainstAdam, bf16, 16)
    ->ArgNames({"threads", "elements"})
    ->ArgsProduct({{1, 2}, {kElements, kCachedElements}})
    ->UseManualTime()
    ->Iterations(21)
    ->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(BM_AdamAgainstTriad, fp32, DType::kFloat32)
    ->Arg(1)
    ->Arg(2)
    ->UseManualTime()
    ->Iterations(21)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AdamAgainstTriad, bf16, DType::kBFloat16)
    ->Arg(1)
    ->Arg(2)
    ->UseManualTime()
    ->Iterations(21)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AdamAgainstTriad, fp16, DType::kFloat16)
    ->Arg(1)
    ->Arg(2)
    ->UseManualTime()
    ->Iterations(21)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace castor::kernels

BENCHMARK_MAIN();
#endif  // HWY_ONCE
