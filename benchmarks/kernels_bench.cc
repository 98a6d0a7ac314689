// The large operators at the sizes of GPT-2 124M, in floating-point operations
// per second (two for each multiplication and addition; recomputation and
// exponentials do not count). `type`: 0 fp32, 1 bf16, 2 fp16.
//
//   bazel run -c opt //benchmarks:kernels_bench
//
// Threads: CASTOR_THREADS, or all processors this process may use.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/with_type.h"
#include "benchmark/benchmark.h"
#include "kernels/attention/attention.h"
#include "kernels/head_loss/head_loss.h"
#include "kernels/matmul/matmul.h"
#include "kernels/run.h"

namespace castor::kernels {
namespace {

constexpr int64_t kChannels = 768;
constexpr int64_t kHeads = 12;
constexpr int64_t kVocabulary = 50257;

ThreadPool& Pool() {
  static ThreadPool* const pool = [] {
    const char* threads = std::getenv("CASTOR_THREADS");
    return new ThreadPool(threads == nullptr ? AvailableProcessors()
                                             : std::atoi(threads));
  }();
  return *pool;
}

// `size` elements of `dtype`, normally distributed.
std::vector<unsigned char> Random(DType dtype, int64_t size, float scale = 1) {
  std::vector<unsigned char> bytes(size * SizeOf(dtype));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, scale);
  WithType(dtype, [&]<class T>(T) {
    T* const values = reinterpret_cast<T*>(bytes.data());
    for (int64_t i = 0; i < size; ++i) values[i] = T(normal(random));
  });
  return bytes;
}

void Report(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
  state.counters["threads"] = Pool().num_threads();
}

DType TypeOf(const benchmark::State& state) {
  return kAllTypes[state.range(0)];
}

enum Pass { kForward, kInputGradient, kWeightGradient };

// One of the three products of a linear layer [tokens, in] -> [tokens, out],
// its weight stored [in, out].
void LinearLayer(benchmark::State& state, Pass pass) {
  const DType dtype = TypeOf(state);
  const int64_t tokens = state.range(1), in = state.range(2),
                out = state.range(3);
  MatmulArgs args;
  args.dtype = dtype;
  switch (pass) {
    case kForward:  // x w
      args.m = tokens, args.n = out, args.k = in;
      break;
    case kInputGradient:  // dy w^T
      args.m = tokens, args.n = in, args.k = out;
      args.transpose_b = true;
      break;
    case kWeightGradient:  // x^T dy
      args.m = in, args.n = out, args.k = tokens;
      args.transpose_a = true;
      break;
  }
  args.lda = args.transpose_a ? args.m : args.k;
  args.ldb = args.transpose_b ? args.k : args.n;
  args.ldc = args.n;
  const auto a = Random(dtype, args.m * args.k);
  const auto b = Random(dtype, args.k * args.n);
  std::vector<unsigned char> c(args.m * args.n * SizeOf(dtype));
  std::vector<unsigned char> workspace(args.CpuWorkspaceBytes());
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  args.workspace = workspace.data();
  for (auto _ : state) {
    CASTOR_CHECK(Run(ExecContext{&Pool()}, args).ok());
  }
  Report(state, 2.0 * static_cast<double>(args.m * args.n * args.k));
}

void Layers(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"type", "tokens", "in", "out"});
  for (int64_t type : {0, 1, 2}) {
    for (int64_t tokens : {256, 1024}) {
      for (const auto& [in, out] :
           {std::pair<int64_t, int64_t>{1, 3}, {1, 1}, {1, 4}, {4, 1}}) {
        benchmark->Args({type, tokens, in * kChannels, out * kChannels});
      }
    }
  }
  // A small model.
  benchmark->Args({0, 64, 64, 256})->Args({0, 256, 128, 512});
  benchmark->Args({0, 512, 384, 1536});
  benchmark->UseRealTime();
}
BENCHMARK_CAPTURE(LinearLayer, forward, kForward)->Apply(Layers);
BENCHMARK_CAPTURE(LinearLayer, dx, kInputGradient)->Apply(Layers);
BENCHMARK_CAPTURE(LinearLayer, dw, kWeightGradient)->Apply(Layers);

AttentionShape ShapeOf(const benchmark::State& state) {
  AttentionShape shape;
  shape.dtype = TypeOf(state);
  shape.batch = state.range(1);
  shape.positions = state.range(2);
  shape.heads = kHeads;
  shape.head_size = kChannels / kHeads;
  shape.q_stride = shape.kv_stride = 3 * kChannels;
  shape.dropout = static_cast<float>(state.range(3)) / 100;
  shape.key = {1, 2};
  return shape;
}

// Products of all pairs that causality leaves.
double AttentionFlops(const AttentionShape& shape, int products) {
  return static_cast<double>(products * shape.batch * shape.heads *
                             shape.positions * (shape.positions + 1) *
                             shape.head_size);
}

struct AttentionMemory {
  explicit AttentionMemory(const AttentionShape& shape)
      : qkv(Random(shape.dtype, shape.batch * shape.positions * 3 * kChannels)),
        out(qkv.size() / 3),
        dout(Random(shape.dtype, shape.batch * shape.positions * kChannels)),
        dqkv(qkv.size()),
        lse(shape.batch * shape.heads * shape.positions) {
    const auto part = [&](std::vector<unsigned char>& x, int i) {
      return x.data() + i * kChannels * SizeOf(shape.dtype);
    };
    forward.shape = shape;
    forward.q = part(qkv, 0);
    forward.k = part(qkv, 1);
    forward.v = part(qkv, 2);
    forward.out = out.data();
    forward.lse = lse.data();
    workspace.resize(
        std::max(AttentionForwardArgs{.shape = shape}.CpuWorkspaceBytes(),
                 AttentionBackwardArgs{.shape = shape}.CpuWorkspaceBytes()));
    forward.workspace = workspace.data();
    backward.shape = shape;
    backward.q = forward.q;
    backward.k = forward.k;
    backward.v = forward.v;
    backward.out = out.data();
    backward.lse = lse.data();
    backward.dout = dout.data();
    backward.dq = part(dqkv, 0);
    backward.dk = part(dqkv, 1);
    backward.dv = part(dqkv, 2);
    backward.workspace = workspace.data();
  }

  std::vector<unsigned char> qkv, out, dout, dqkv, workspace;
  std::vector<float> lse;
  AttentionForwardArgs forward;
  AttentionBackwardArgs backward;
};

void AttentionForwardPass(benchmark::State& state) {
  AttentionMemory memory(ShapeOf(state));
  for (auto _ : state) {
    CASTOR_CHECK(Run(ExecContext{&Pool()}, memory.forward).ok());
  }
  Report(state, AttentionFlops(memory.forward.shape, 2));
}

void AttentionBackwardPass(benchmark::State& state) {
  AttentionMemory memory(ShapeOf(state));
  CASTOR_CHECK(Run(ExecContext{&Pool()}, memory.forward).ok());
  for (auto _ : state) {
    CASTOR_CHECK(Run(ExecContext{&Pool()}, memory.backward).ok());
  }
  Report(state, AttentionFlops(memory.forward.shape, 4));
}

void Attentions(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"type", "batch", "positions", "dropout_percent"})
      ->ArgsProduct({{0, 1, 2}, {4}, {64}, {0, 10}})
      ->ArgsProduct({{0, 1, 2}, {1}, {1024}, {0, 10}})
      ->UseRealTime();
}
BENCHMARK(AttentionForwardPass)->Apply(Attentions);
BENCHMARK(AttentionBackwardPass)->Apply(Attentions);

struct HeadMemory {
  explicit HeadMemory(const HeadLossShape& shape)
      : x(Random(shape.dtype, shape.rows * shape.channels)),
        w(Random(shape.dtype, shape.vocabulary * shape.channels, 0.02f)),
        dx(x.size()),
        dw(w.size()),
        lse(shape.rows),
        targets(shape.rows) {
    for (int64_t n = 0; n < shape.rows; ++n) {
      targets[n] = static_cast<int32_t>(n * 48271 % shape.vocabulary);
    }
    workspace.resize(
        std::max(HeadLossForwardArgs{.shape = shape}.CpuWorkspaceBytes(),
                 HeadLossBackwardArgs{.shape = shape}.CpuWorkspaceBytes()));
    forward.shape = shape;
    forward.x = x.data();
    forward.w = w.data();
    forward.targets = targets.data();
    forward.loss = &loss;
    forward.lse = lse.data();
    forward.workspace = workspace.data();
    backward.shape = shape;
    backward.x = x.data();
    backward.w = w.data();
    backward.targets = targets.data();
    backward.lse = lse.data();
    backward.dx = dx.data();
    backward.dw = dw.data();
    backward.workspace = workspace.data();
  }

  std::vector<unsigned char> x, w, dx, dw, workspace;
  std::vector<float> lse;
  std::vector<int32_t> targets;
  float loss = 0;
  HeadLossForwardArgs forward;
  HeadLossBackwardArgs backward;
};

HeadLossShape HeadOf(const benchmark::State& state) {
  return {state.range(1), kChannels, kVocabulary, TypeOf(state)};
}

double HeadFlops(const HeadLossShape& shape, int products) {
  return 2.0 * products * static_cast<double>(shape.rows) *
         static_cast<double>(shape.channels * shape.vocabulary);
}

void HeadForwardPass(benchmark::State& state) {
  HeadMemory memory(HeadOf(state));
  for (auto _ : state) {
    CASTOR_CHECK(Run(ExecContext{&Pool()}, memory.forward).ok());
  }
  Report(state, HeadFlops(memory.forward.shape, 1));
}

// Three products are run, that of the logits for the second time.
void HeadBackwardPass(benchmark::State& state) {
  HeadMemory memory(HeadOf(state));
  CASTOR_CHECK(Run(ExecContext{&Pool()}, memory.forward).ok());
  for (auto _ : state) {
    CASTOR_CHECK(Run(ExecContext{&Pool()}, memory.backward).ok());
  }
  Report(state, HeadFlops(memory.forward.shape, 3));
}

void Heads(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"type", "tokens"})
      ->ArgsProduct({{0, 1, 2}, {256, 1024}})
      ->UseRealTime();
}
BENCHMARK(HeadForwardPass)->Apply(Heads);
BENCHMARK(HeadBackwardPass)->Apply(Heads);

}  // namespace
}  // namespace castor::kernels

BENCHMARK_MAIN();
