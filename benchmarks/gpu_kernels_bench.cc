// The operators on a GPU, in bf16 at the sizes of GPT-2 124M with 16 x 1024
// tokens, against what the machine can do: the first two rows are its ceilings,
// a large matrix product and a copy by the driver.
//
//   bazel run -c opt //benchmarks:gpu_kernels_bench --
//   --benchmark_repetitions=5
//
// FLOP/s: two for each multiplication and addition that the result needs;
// attention counts the pairs that causality leaves, recomputation does not
// count. bytes/s: each operand read or written once. A row is a hundred calls
// of its operator, from an event before the first to one behind the last, so
// that neither launches nor the host's waits are in it. Operands of LayerNorm's
// and the larger rows do not fit into an H200's cache; the embedding's do.
// Without a GPU the program says so.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "benchmark/benchmark.h"
#include "kernels/cuda/device_seconds.h"
#include "kernels/cuda/test_device.h"
#include "kernels/run.h"

namespace castor::kernels {
namespace {

using cuda::TestDevice;

constexpr DType kType = DType::kBFloat16;
constexpr RandomKey kKey = {1, 2};

// The sizes that are measured. Where kernels are emulated, SizesHere gives
// sizes so small that the benchmark ends.
struct Sizes {
  int64_t batch = 16, positions = 1024, heads = 12, channels = 768;
  int64_t vocabulary = 50257;
  int64_t keys = 16384;    // that one query looks at
  int64_t product = 8192;  // of the ceiling: n x n x n
  int64_t parameters = 1 << 27;

  int64_t tokens() const { return batch * positions; }
};

Sizes SizesHere() {
  if (!TestDevice::Get()->emulated()) return Sizes();
  return {.batch = 1,
          .positions = 16,
          .heads = 1,
          .channels = 64,
          .vocabulary = 100,
          .keys = 300,
          .product = 32,
          .parameters = 5000};
}

// Operands on the device, freed with it. Random: what matrix units do depends
// on the data, by the power that it takes.
class Operands {
 public:
  ~Operands() {
    for (void* block : blocks_) TestDevice::Get()->Free(block);
  }
  void* Bytes(int64_t bytes) {
    blocks_.push_back(TestDevice::Get()->Allocate(std::max<int64_t>(bytes, 1)));
    return blocks_.back();
  }
  // `size` elements.
  void* Normal(int64_t size, float scale = 1) {
    return Fill<BFloat16>(size, scale);
  }
  float* Floats(int64_t size, float scale = 1) {
    return static_cast<float*>(Fill<float>(size, scale));
  }
  float* ZeroFloats(int64_t size) {
    const std::vector<float> zeros(size);
    void* const to = Bytes(size * 4);
    TestDevice::Get()->ToDevice(to, zeros.data(), size * 4);
    return static_cast<float*>(to);
  }
  int32_t* Indices(int64_t size, int64_t below) {
    std::vector<int32_t> values(size);
    std::mt19937_64 random(3);
    for (int32_t& v : values) v = static_cast<int32_t>(random() % below);
    void* const to = Bytes(size * 4);
    TestDevice::Get()->ToDevice(to, values.data(), size * 4);
    return static_cast<int32_t*>(to);
  }

 private:
  template <class T>
  void* Fill(int64_t size, float scale) {
    // The same numbers again and again: drawing them takes longer.
    constexpr int64_t kDrawn = 1 << 20;
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, scale);
    std::vector<T> values(std::min(size, kDrawn));
    for (T& v : values) v = T(normal(random));
    char* const to = static_cast<char*>(Bytes(size * sizeof(T)));
    for (int64_t i = 0; i < size; i += kDrawn) {
      TestDevice::Get()->ToDevice(to + i * sizeof(T), values.data(),
                                  std::min(kDrawn, size - i) * sizeof(T));
    }
    return to;
  }

  std::vector<void*> blocks_;
};

// The work that a row queues, and the operations and bytes of that work.
struct Row {
  std::function<absl::Status(const ExecContext&)> run;
  double flops = 0;
  double bytes = 0;
};

void Measure(benchmark::State& state,
             const std::function<Row(Operands&)>& make) {
  Operands operands;
  const Row row = make(operands);
  TestDevice* const device = TestDevice::Get();
  // Seconds of so many calls.
  const auto run = [&](int calls) {
    const absl::StatusOr<double> seconds =
        cuda::DeviceSeconds([&]() -> absl::Status {
          for (int i = 0; i < calls; ++i) {
            CASTOR_RETURN_IF_ERROR(row.run(device->context()));
          }
          return absl::OkStatus();
        });
    if (!seconds.ok()) {
      std::fprintf(stderr, "%s\n",
                   std::string(seconds.status().message()).c_str());
      std::exit(1);
    }
    return *seconds;
  };
  run(1);  // loads code, chooses algorithms
  const int calls = device->emulated() ? 2 : 100;
  for (auto _ : state) state.SetIterationTime(run(calls));
  const double times = static_cast<double>(state.iterations()) * calls;
  using benchmark::Counter;
  state.counters["each"] = Counter(times, Counter::kIsRate | Counter::kInvert);
  if (row.flops > 0) {
    state.counters["FLOP/s"] = Counter(row.flops * times, Counter::kIsRate);
  }
  if (row.bytes > 0) {
    state.counters["bytes/s"] = Counter(row.bytes * times, Counter::kIsRate);
  }
}

void Add(const std::string& name, std::function<Row(Operands&)> make) {
  benchmark::RegisterBenchmark(name.c_str(), [make](benchmark::State& state) {
    Measure(state, make);
  })->UseManualTime();
}

// c [m, n] = a [m, k] b [k, n], either stored transposed.
Row Product(Operands& on, int64_t m, int64_t n, int64_t k, bool transpose_a,
            bool transpose_b) {
  MatmulArgs args = {.m = m,
                     .n = n,
                     .k = k,
                     .a = on.Normal(m * k),
                     .lda = transpose_a ? m : k,
                     .transpose_a = transpose_a,
                     .b = on.Normal(k * n, 0.02f),
                     .ldb = transpose_b ? k : n,
                     .transpose_b = transpose_b,
                     .c = on.Bytes(m * n * SizeOf(kType)),
                     .ldc = n,
                     .dtype = kType};
  args.workspace = on.Bytes(args.GpuWorkspaceBytes());
  return {[args](const ExecContext& gpu) { return Run(gpu, args); },
          2.0 * static_cast<double>(m * n * k)};
}

void AddCeilings(const Sizes& s) {
  Add("ceiling/product", [s](Operands& on) {
    return Product(on, s.product, s.product, s.product, false, false);
  });
  Add("ceiling/copy", [s](Operands& on) -> Row {
    const int64_t bytes = s.parameters * 2;
    void* const from = on.Normal(s.parameters);
    void* const to = on.Bytes(bytes);
    return {[=](const ExecContext&) {
              TestDevice::Get()->CopyOnDevice(to, from, bytes);
              return absl::OkStatus();
            },
            0, 2.0 * static_cast<double>(bytes)};
  });
}

void AddProducts(const Sizes& s) {
  const int64_t n = s.tokens(), c = s.channels;
  Add("linear/forward",
      [=](Operands& on) { return Product(on, n, 4 * c, c, false, false); });
  Add("linear/input_gradient",
      [=](Operands& on) { return Product(on, n, c, 4 * c, false, true); });
  Add("linear/weight_gradient",
      [=](Operands& on) { return Product(on, c, 4 * c, n, true, false); });
}

void AddAttention(const Sizes& s, int64_t heads, int dropout_percent) {
  // q, k and v side by side, as GPT-2 has them.
  const AttentionShape shape = {
      .batch = s.batch,
      .positions = s.positions,
      .heads = heads,
      .head_size = s.channels / heads,
      .dtype = kType,
      .dropout = static_cast<float>(dropout_percent) / 100,
      .key = kKey,
      .q_stride = 3 * s.channels,
      .kv_stride = 3 * s.channels};
  const int64_t part = s.channels * SizeOf(kType);
  const int64_t size = s.tokens() * s.channels;
  const double pairs = static_cast<double>(shape.batch * heads) *
                       static_cast<double>(s.positions) *
                       static_cast<double>(s.positions + 1) / 2;
  const double flops = 2 * pairs * static_cast<double>(shape.head_size);
  const std::string name = "/heads_of_" + std::to_string(shape.head_size) +
                           "/dropout_" + std::to_string(dropout_percent);
  const auto forward = [=](Operands& on) -> AttentionForwardArgs {
    char* const qkv = static_cast<char*>(on.Normal(3 * size));
    return {.shape = shape,
            .q = qkv,
            .k = qkv + part,
            .v = qkv + 2 * part,
            .out = on.Bytes(size * 2),
            .lse = static_cast<float*>(on.Bytes(s.tokens() * heads * 4))};
  };
  Add("attention/forward" + name, [=](Operands& on) -> Row {
    const AttentionForwardArgs args = forward(on);
    return {[=](const ExecContext& gpu) { return Run(gpu, args); }, 2 * flops};
  });
  Add("attention/backward" + name, [=](Operands& on) -> Row {
    const AttentionForwardArgs first = forward(on);
    CASTOR_CHECK(Run(TestDevice::Get()->context(), first).ok());
    char* const dqkv = static_cast<char*>(on.Bytes(3 * size * 2));
    const AttentionBackwardArgs args = {
        .shape = shape,
        .q = first.q,
        .k = first.k,
        .v = first.v,
        .out = first.out,
        .lse = first.lse,
        .dout = on.Normal(size),
        .dq = dqkv,
        .dk = dqkv + part,
        .dv = dqkv + 2 * part,
        .workspace = on.Bytes(
            AttentionBackwardArgs{.shape = shape}.GpuWorkspaceBytes())};
    return {[=](const ExecContext& gpu) { return Run(gpu, args); }, 4 * flops};
  });
}

// One query, as in a pass of a model that generates: all keys and values are
// read once.
void AddOneQuery(const Sizes& s) {
  const AttentionShape shape = {.batch = 1,
                                .positions = 1,
                                .keys = s.keys,
                                .heads = s.heads,
                                .head_size = s.channels / s.heads,
                                .dtype = kType,
                                .key = kKey};
  const double bytes = 2.0 * static_cast<double>(s.keys * s.channels) * 2;
  Add("attention/one_query/keys_" + std::to_string(s.keys),
      [=](Operands& on) -> Row {
        const AttentionForwardArgs args = {
            .shape = shape,
            .q = on.Normal(s.channels),
            .k = on.Normal(s.keys * s.channels),
            .v = on.Normal(s.keys * s.channels),
            .out = on.Bytes(s.channels * 2),
            .lse = on.Floats(s.heads),
            .workspace = on.Bytes(
                AttentionForwardArgs{.shape = shape}.GpuWorkspaceBytes())};
        return {[=](const ExecContext& gpu) { return Run(gpu, args); }, 0,
                bytes};
      });
}

void AddLayerNorm(const Sizes& s) {
  const LayerNormShape shape = {4 * s.tokens(), s.channels, kType};
  const int64_t size = shape.rows * s.channels;
  const double bytes = 2.0 * static_cast<double>(size);
  struct Rows {
    const void *x, *dy, *gamma;
    void *y, *dgamma, *dbeta;
    float *mean, *rstd;
  };
  const auto make = [=](Operands& on) -> Rows {
    return {on.Normal(size),          on.Normal(size),
            on.Normal(s.channels),    on.Bytes(size * 2),
            on.Bytes(s.channels * 2), on.Bytes(s.channels * 2),
            on.Floats(shape.rows),    on.Floats(shape.rows)};
  };
  Add("layer_norm/forward", [=](Operands& on) -> Row {
    const Rows r = make(on);
    return {[=](const ExecContext& gpu) {
              return Run(gpu, LayerNormForwardArgs{.shape = shape,
                                                   .epsilon = 1e-5f,
                                                   .x = r.x,
                                                   .gamma = r.gamma,
                                                   .beta = r.gamma,
                                                   .y = r.y,
                                                   .mean = r.mean,
                                                   .rstd = r.rstd});
            },
            0, 2 * bytes};
  });
  Add("layer_norm/input_gradient", [=](Operands& on) -> Row {
    const Rows r = make(on);
    return {[=](const ExecContext& gpu) {
              return Run(gpu, LayerNormBackwardInputArgs{.shape = shape,
                                                         .dy = r.dy,
                                                         .x = r.x,
                                                         .gamma = r.gamma,
                                                         .mean = r.mean,
                                                         .rstd = r.rstd,
                                                         .dx = r.y});
            },
            0, 3 * bytes};
  });
  Add("layer_norm/parameter_gradients", [=](Operands& on) -> Row {
    const Rows r = make(on);
    return {[=](const ExecContext& gpu) {
              return Run(gpu,
                         LayerNormBackwardParametersArgs{.shape = shape,
                                                         .dy = r.dy,
                                                         .x = r.x,
                                                         .mean = r.mean,
                                                         .rstd = r.rstd,
                                                         .dgamma = r.dgamma,
                                                         .dbeta = r.dbeta});
            },
            0, 2 * bytes};
  });
}

void AddElementwise(const Sizes& s) {
  const int64_t n = s.tokens(), c = s.channels;
  const int64_t size = n * 4 * c;
  const double bytes = 2.0 * static_cast<double>(size);
  Add("bias_gradient", [=](Operands& on) -> Row {
    const void* const dy = on.Normal(size);
    void* const db = on.Bytes(4 * c * 2);
    return {[=](const ExecContext& gpu) {
              return Run(gpu, BiasGradientArgs{.dtype = kType,
                                               .rows = n,
                                               .channels = 4 * c,
                                               .dy = dy,
                                               .db = db});
            },
            0, bytes};
  });
  Add("activation/forward", [=](Operands& on) -> Row {
    const void* const x = on.Normal(size);
    void* const y = on.Bytes(size * 2);
    return {[=](const ExecContext& gpu) {
              return Run(gpu,
                         ActivationForwardArgs{.kind = Activation::kGeluTanh,
                                               .dtype = kType,
                                               .size = size,
                                               .x = x,
                                               .y = y});
            },
            0, 2 * bytes};
  });
  Add("activation/backward", [=](Operands& on) -> Row {
    const void* const x = on.Normal(size);
    const void* const dy = on.Normal(size);
    void* const dx = on.Bytes(size * 2);
    return {[=](const ExecContext& gpu) {
              return Run(gpu,
                         ActivationBackwardArgs{.kind = Activation::kGeluTanh,
                                                .dtype = kType,
                                                .size = size,
                                                .x = x,
                                                .dy = dy,
                                                .dx = dx});
            },
            0, 3 * bytes};
  });
  Add("dropout_and_residual", [=](Operands& on) -> Row {
    const void* const x = on.Normal(size);
    const void* const residual = on.Normal(size);
    void* const y = on.Bytes(size * 2);
    return {[=](const ExecContext& gpu) {
              return Run(gpu, DropoutArgs{.dtype = kType,
                                          .size = size,
                                          .probability = 0.1f,
                                          .key = kKey,
                                          .x = x,
                                          .residual = residual,
                                          .y = y});
            },
            0, 3 * bytes};
  });
}

void AddEnds(const Sizes& s) {
  const int64_t n = s.tokens(), c = s.channels, v = s.vocabulary;
  Add("embedding/forward", [=](Operands& on) -> Row {
    const void* const table = on.Normal(v * c);
    const int32_t* const indices = on.Indices(n, v);
    void* const y = on.Bytes(n * c * 2);
    return {[=](const ExecContext& gpu) {
              return Run(gpu, EmbeddingForwardArgs{.dtype = kType,
                                                   .rows = n,
                                                   .channels = c,
                                                   .vocabulary = v,
                                                   .indices = indices,
                                                   .table = table,
                                                   .y = y});
            },
            0, 4.0 * static_cast<double>(n * c)};
  });
  Add("embedding/backward", [=](Operands& on) -> Row {
    const void* const dy = on.Normal(n * c);
    const int32_t* const indices = on.Indices(n, v);
    void* const dtable = on.Normal(v * c);
    void* const workspace =
        on.Bytes(EmbeddingBackwardArgs{.rows = n}.GpuWorkspaceBytes());
    return {[=](const ExecContext& gpu) {
              return Run(gpu, EmbeddingBackwardArgs{.dtype = kType,
                                                    .rows = n,
                                                    .channels = c,
                                                    .vocabulary = v,
                                                    .indices = indices,
                                                    .dy = dy,
                                                    .dtable = dtable,
                                                    .accumulate = true,
                                                    .workspace = workspace});
            },
            0, 6.0 * static_cast<double>(n * c)};
  });
  const HeadLossShape shape = {n, c, v, kType};
  const double product = 2.0 * static_cast<double>(n) * static_cast<double>(c) *
                         static_cast<double>(v);
  const auto forward = [=](Operands& on) -> HeadLossForwardArgs {
    return {.shape = shape,
            .x = on.Normal(n * c),
            .w = on.Normal(v * c, 0.02f),
            .targets = on.Indices(n, v),
            .loss = on.Floats(1),
            .lse = on.Floats(n),
            .workspace = on.Bytes(
                HeadLossForwardArgs{.shape = shape}.GpuWorkspaceBytes())};
  };
  Add("head_loss/forward", [=](Operands& on) -> Row {
    const HeadLossForwardArgs args = forward(on);
    return {[=](const ExecContext& gpu) { return Run(gpu, args); }, product};
  });
  Add("head_loss/backward", [=](Operands& on) -> Row {
    const HeadLossForwardArgs first = forward(on);
    CASTOR_CHECK(Run(TestDevice::Get()->context(), first).ok());
    const HeadLossBackwardArgs args = {
        .shape = shape,
        .x = first.x,
        .w = first.w,
        .targets = first.targets,
        .lse = first.lse,
        .dx = on.Bytes(n * c * 2),
        .dw = on.Bytes(v * c * 2),
        .workspace =
            on.Bytes(HeadLossBackwardArgs{.shape = shape}.GpuWorkspaceBytes())};
    return {[=](const ExecContext& gpu) { return Run(gpu, args); },
            2 * product};
  });
}

void AddOptimizer(const Sizes& s) {
  const int64_t size = s.parameters;
  Add("adam", [=](Operands& on) -> Row {
    static const AdamRange kRange = {0, size, {.weight_decay = 0.1}};
    const AdamArgs args = {.payload = on.Normal(size),
                           .dtype = kType,
                           .master = on.Floats(size, 0.02f),
                           .m = on.Floats(size, 0.01f),
                           .v = on.ZeroFloats(size),
                           .grad_scale = on.Floats(1),
                           .ranges = &kRange,
                           .num_ranges = 1};
    // Payload twice; master, m and v twice.
    return {[=](const ExecContext& gpu) { return Run(gpu, args); }, 0,
            28.0 * static_cast<double>(size)};
  });
  Add("gradient_norm", [=](Operands& on) -> Row {
    const void* const x = on.Normal(size);
    const ExactSum zero;
    auto* const sum = static_cast<ExactSum*>(on.Bytes(sizeof(ExactSum)));
    TestDevice::Get()->ToDevice(sum, &zero, sizeof(zero));
    return {[=](const ExecContext& gpu) {
              return Run(gpu,
                         AddSquaresArgs{
                             .size = size, .dtype = kType, .x = x, .sum = sum});
            },
            0, 2.0 * static_cast<double>(size)};
  });
}

}  // namespace
}  // namespace castor::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (castor::kernels::cuda::TestDevice::Get() == nullptr) return 77;
  const auto sizes = castor::kernels::SizesHere();
  castor::kernels::AddCeilings(sizes);
  castor::kernels::AddProducts(sizes);
  for (int dropout_percent : {0, 10}) {
    for (int64_t heads : {sizes.heads, std::max<int64_t>(sizes.heads / 2, 1)}) {
      castor::kernels::AddAttention(sizes, heads, dropout_percent);
    }
  }
  castor::kernels::AddOneQuery(sizes);
  castor::kernels::AddLayerNorm(sizes);
  castor::kernels::AddElementwise(sizes);
  castor::kernels::AddEnds(sizes);
  castor::kernels::AddOptimizer(sizes);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
