#include "cli/machine/measured_rates.h"

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/median.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "base/with_type.h"
#include "kernels/adam/adam.h"
#include "kernels/add/add.h"
#include "kernels/attention/attention.h"
#include "kernels/matmul/matmul.h"
#include "kernels/run.h"

namespace castor::cli {
namespace {

constexpr int kRounds = 9;
// Shorter work is repeated within a round, for the clock's sake.
constexpr double kLeastSeconds = 0.01;
constexpr double kMostRepeats = 1000;
// The bytes of random operands that are repeated through a device's memory.
constexpr int64_t kPatternBytes = int64_t{4} << 20;

// What is measured. A GPU has thousands of threads to keep at work.
struct Sizes {
  int64_t bytes;  // of the device's memory
  // Inputs of linear layers, from the smallest models' to those of large ones.
  std::vector<int64_t> sides;
  // Bytes of three arrays, from what the first cache holds to what none does.
  std::vector<int64_t> array_bytes;
  int64_t batch, positions, heads;  // of attention
};

Sizes SizesOf(const kernels::KernelSizes* gpu_sizes) {
  const int64_t bytes = RatesBytes(gpu_sizes);
  if (gpu_sizes != nullptr) {
    return {.bytes = bytes,
            .sides = {1024, 2048, 4096},
            .array_bytes = {int64_t{24} << 20, bytes},
            .batch = 8,
            .positions = 1024,
            .heads = 16};
  }
  return {.bytes = bytes,
          .sides = {64, 128, 256, 512, 1024},
          .array_bytes = {int64_t{48} << 10, int64_t{384} << 10,
                          int64_t{3} << 20, int64_t{24} << 20, bytes},
          .batch = 2,
          .positions = 256,
          .heads = 8};
}

using Operator = std::function<absl::Status(const ExecContext&)>;

int64_t Aligned(int64_t bytes) { return RoundUp(bytes, 256); }

// Places in the device's memory for operands of so many bytes, one behind the
// other through all of it. In a step an operator's weights and gradients, and
// activations that backward reads, are not in a cache when it begins; nor is
// what lies at a place that was last used a hundred MiB ago.
class Places {
 public:
  Places(std::byte* memory, const Sizes& sizes, int64_t bytes)
      : memory_(memory), all_bytes_(sizes.bytes), bytes_(Aligned(bytes)) {
    CASTOR_CHECK(bytes_ <= all_bytes_);
  }

  std::byte* Next() {
    if (at_ + bytes_ > all_bytes_) at_ = 0;
    return memory_ + std::exchange(at_, at_ + bytes_);
  }

 private:
  std::byte* const memory_;
  const int64_t all_bytes_;
  const int64_t bytes_;
  int64_t at_ = 0;
};

absl::StatusOr<double> SecondsOf(Device& device, StreamId stream,
                                 const std::vector<Operator>& operators,
                                 int64_t repeats) {
  const int64_t start_ns = device.NowNs();
  Fence done;
  for (int64_t i = 0; i < repeats; ++i) {
    for (const Operator& each : operators) {
      done = device.Enqueue(stream, 0, each);
    }
  }
  CASTOR_RETURN_IF_ERROR(device.Synchronize(done));
  return 1e-9 * static_cast<double>(device.NowNs() - start_ns) /
         static_cast<double>(repeats);
}

// Units a second in the median of several rounds, after two that are not
// counted: a step waits for what else runs on the machine, too. The operators
// are queued one by one, as a step's are.
absl::StatusOr<double> UsualRate(Device& device, StreamId stream, double units,
                                 const std::vector<Operator>& operators) {
  CASTOR_RETURN_IF_ERROR(SecondsOf(device, stream, operators, 1).status());
  CASTOR_ASSIGN_OR_RETURN(const double once,
                          SecondsOf(device, stream, operators, 1));
  const auto repeats =
      static_cast<int64_t>(std::clamp(kLeastSeconds / once, 1.0, kMostRepeats));
  std::vector<double> seconds(kRounds);
  for (double& of_round : seconds) {
    CASTOR_ASSIGN_OR_RETURN(of_round,
                            SecondsOf(device, stream, operators, repeats));
  }
  return units / Median(std::move(seconds));
}

// The three products of a linear layer, x [side / 2, side] with weights
// [side, 2 side]: of forward, of backward to its input, and to its weights,
// which adds to their gradients. Each takes 2 side^3 flops.
std::array<kernels::MatmulArgs, 3> LayerProducts(int64_t side, DType dtype) {
  const int64_t rows = side / 2, inputs = side, outputs = 2 * side;
  return {{{.m = rows,
            .n = outputs,
            .k = inputs,
            .lda = inputs,
            .ldb = outputs,
            .ldc = outputs,
            .dtype = dtype},
           {.m = rows,
            .n = inputs,
            .k = outputs,
            .lda = outputs,
            .ldb = outputs,
            .transpose_b = true,
            .ldc = inputs,
            .dtype = dtype},
           {.m = inputs,
            .n = outputs,
            .k = rows,
            .lda = inputs,
            .transpose_a = true,
            .ldb = outputs,
            .ldc = outputs,
            .accumulate = true,
            .dtype = dtype}}};
}

// Fills the device's memory with numbers from -1 to 1. A GPU multiplies zeros
// faster than these.
absl::Status FillRandomly(Device& device, const Sizes& sizes, DType dtype) {
  std::vector<std::byte> pattern(kPatternBytes);
  std::mt19937 random(1);  // NOLINT: the same numbers each time
  std::uniform_real_distribution<float> between(-1, 1);
  WithType(dtype, [&]<class T>(T) {
    T* const values = reinterpret_cast<T*>(pattern.data());
    for (int64_t i = 0; i < kPatternBytes / SizeOf(dtype); ++i) {
      values[i] = T(between(random));
    }
  });
  Fence done;
  for (int64_t at = 0; at < sizes.bytes; at += kPatternBytes) {
    done =
        device.Copy(StreamId::kHostToDevice, 0, device.memory() + at,
                    pattern.data(), std::min(kPatternBytes, sizes.bytes - at));
  }
  return device.Synchronize(done);
}

absl::StatusOr<RateBySize> ProductRates(Device& device, const Sizes& sizes,
                                        DType dtype,
                                        const kernels::KernelSizes* gpu_sizes) {
  RateBySize rates;
  for (const int64_t side : sizes.sides) {
    CASTOR_RETURN_IF_ERROR(FillRandomly(device, sizes, dtype));
    std::array<kernels::MatmulArgs, 3> products = LayerProducts(side, dtype);
    int64_t workspace = 0;
    for (const kernels::MatmulArgs& args : products) {
      workspace = std::max(workspace, kernels::WorkspaceBytes(gpu_sizes, args));
    }
    // The largest two operands, and behind them the largest result: what was
    // a result is no operand later, or sums would grow beyond all numbers.
    const int64_t operands = 3 * side * side * SizeOf(dtype);
    const int64_t result = 2 * side * side * SizeOf(dtype);
    Places places(device.memory(), sizes, operands + result + workspace);
    std::vector<Operator> operators;
    for (kernels::MatmulArgs& args : products) {
      operators.push_back([&](const ExecContext& context) {
        std::byte* const at = places.Next();
        args.a = at;
        args.b = at + args.m * args.k * SizeOf(dtype);
        args.c = at + operands;
        args.workspace = at + operands + result;
        return kernels::Run(context, args);
      });
    }
    const double flops = 3 * 2.0 * static_cast<double>(side * side * side);
    CASTOR_ASSIGN_OR_RETURN(
        const double rate,
        UsualRate(device, StreamId::kCompute, flops, operators));
    rates.points.push_back({flops / 3, rate});
  }
  return rates;
}

absl::StatusOr<double> AttentionRate(Device& device, const Sizes& sizes,
                                     DType dtype,
                                     const kernels::KernelSizes* gpu_sizes) {
  CASTOR_RETURN_IF_ERROR(FillRandomly(device, sizes, dtype));
  kernels::AttentionShape shape;
  shape.batch = sizes.batch;
  shape.positions = sizes.positions;
  shape.heads = sizes.heads;
  shape.head_size = 64;
  shape.dtype = dtype;
  const int64_t elements =
      shape.batch * shape.positions * shape.heads * shape.head_size;
  const int64_t array = Aligned(elements * SizeOf(dtype));
  const int64_t rows = Aligned(shape.batch * shape.heads * shape.positions *
                               static_cast<int64_t>(sizeof(float)));
  kernels::AttentionForwardArgs forward = {.shape = shape};
  kernels::AttentionBackwardArgs backward = {.shape = shape};
  const int64_t workspace =
      std::max(kernels::WorkspaceBytes(gpu_sizes, forward),
               kernels::WorkspaceBytes(gpu_sizes, backward));
  Places places(device.memory(), sizes, 8 * array + rows + workspace);
  // Two products, and five backward, over half of all pairs of positions.
  const double flops = 7.0 * static_cast<double>(elements) *
                       static_cast<double>(shape.positions);
  // Both passes over the same operands; backward leaves them where they are.
  const auto run_forward = [&](const ExecContext& context) {
    std::byte* at = places.Next();
    const auto take = [&](int64_t bytes) {
      return std::exchange(at, at + bytes);
    };
    backward.q = forward.q = take(array);
    backward.k = forward.k = take(array);
    backward.v = forward.v = take(array);
    backward.out = forward.out = take(array);
    backward.dout = take(array);
    backward.dq = take(array);
    backward.dk = take(array);
    backward.dv = take(array);
    forward.lse = reinterpret_cast<float*>(take(rows));
    backward.lse = forward.lse;
    backward.workspace = forward.workspace = at;
    return kernels::Run(context, forward);
  };
  const auto run_backward = [&](const ExecContext& context) {
    return kernels::Run(context, backward);
  };
  return UsualRate(device, StreamId::kCompute, flops,
                   {run_forward, run_backward});
}

absl::StatusOr<TypeRates> RatesOf(Device& device, const Sizes& sizes,
                                  DType dtype,
                                  const kernels::KernelSizes* gpu_sizes) {
  TypeRates type;
  CASTOR_ASSIGN_OR_RETURN(type.products,
                          ProductRates(device, sizes, dtype, gpu_sizes));
  for (const RateBySize::Point& point : type.products.points) {
    type.flops_per_s = std::max(type.flops_per_s, point.units_per_s);
  }
  CASTOR_ASSIGN_OR_RETURN(type.attention_flops_per_s,
                          AttentionRate(device, sizes, dtype, gpu_sizes));
  return type;
}

absl::StatusOr<RateBySize> ArrayRates(Device& device, const Sizes& sizes) {
  CASTOR_RETURN_IF_ERROR(FillRandomly(device, sizes, DType::kFloat32));
  RateBySize rates;
  for (const int64_t bytes : sizes.array_bytes) {
    const int64_t third = bytes / 3 / 256 * 256;  // operands are aligned
    kernels::AddArgs args = {
        .dtype = DType::kFloat32,
        .size = third / static_cast<int64_t>(sizeof(float))};
    Places places(device.memory(), sizes, bytes);
    CASTOR_ASSIGN_OR_RETURN(
        const double rate,
        UsualRate(device, StreamId::kCompute, static_cast<double>(3 * third),
                  {[&](const ExecContext& context) {
                    std::byte* const at = places.Next();
                    args.a = at;
                    args.b = at + third;
                    args.y = at + 2 * third;
                    return kernels::Run(context, args);
                  }}));
    rates.points.push_back({static_cast<double>(bytes), rate});
  }
  return rates;
}

absl::StatusOr<double> UpdateRate(Device& device, std::byte* host) {
  // A parameter and its gradient in 2 bytes, master and two moments in 12.
  constexpr int64_t kStates = 3 * sizeof(float);
  const int64_t elements = kRatesHostBytes / (2 + kStates) / 64 * 64;
  const auto state = [&](int64_t i) {
    return reinterpret_cast<float*>(host) + i * elements;
  };
  const kernels::AdamRange range = {.begin = 0, .end = elements, .hyper = {}};
  const float grad_scale = 1;
  const kernels::AdamArgs args = {.payload = host + kStates * elements,
                                  .dtype = DType::kBFloat16,
                                  .master = state(0),
                                  .m = state(1),
                                  .v = state(2),
                                  .grad_scale = &grad_scale,
                                  .ranges = &range,
                                  .num_ranges = 1};
  return UsualRate(device, StreamId::kHostCompute,
                   2.0 * (2 + kStates) * static_cast<double>(elements),
                   {[&](const ExecContext& context) {
                     return kernels::Run(context, args);
                   }});
}

using Json = nlohmann::ordered_json;

constexpr char kSource[] = "castor info --measure";

// Four digits say more than a measurement does.
double Rounded(double value) {
  double rounded = value;
  CASTOR_CHECK(absl::SimpleAtod(absl::StrFormat("%.4g", value), &rounded));
  return rounded;
}

Json CurveJson(const RateBySize& curve, const char* sizes, double size_unit,
               const char* rates, double rate_unit) {
  Json json = {{sizes, Json::array()}, {rates, Json::array()}};
  for (const RateBySize::Point& point : curve.points) {
    json[sizes].push_back(Rounded(point.size / size_unit));
    json[rates].push_back(Rounded(point.units_per_s / rate_unit));
  }
  return json;
}

Json TypeJson(const TypeRates& type) {
  return {{"tflops", Rounded(type.flops_per_s / 1e12)},
          {"attention_tflops", Rounded(type.attention_flops_per_s / 1e12)},
          {"products", CurveJson(type.products, "mflop", 1e6, "gflops", 1e9)}};
}

// Returns the rate of arrays that no cache holds.
double MemoryGbps(const MeasuredRates& rates) {
  return Rounded(rates.arrays.points.back().units_per_s / 1e9);
}

}  // namespace

int64_t RatesBytes(const kernels::KernelSizes* gpu_sizes) {
  return gpu_sizes != nullptr ? int64_t{1} << 30 : kRatesHostBytes;
}

absl::StatusOr<MeasuredRates> MeasureRates(
    Device& device, std::byte* host, const kernels::KernelSizes* gpu_sizes) {
  const Sizes sizes = SizesOf(gpu_sizes);
  MeasuredRates rates;
  for (const auto& [dtype, type] : {std::pair(DType::kFloat32, &rates.fp32),
                                    std::pair(DType::kFloat16, &rates.fp16),
                                    std::pair(DType::kBFloat16, &rates.bf16)}) {
    CASTOR_ASSIGN_OR_RETURN(*type, RatesOf(device, sizes, dtype, gpu_sizes));
  }
  CASTOR_ASSIGN_OR_RETURN(rates.arrays, ArrayRates(device, sizes));
  CASTOR_ASSIGN_OR_RETURN(rates.update_bytes_per_s, UpdateRate(device, host));
  CASTOR_ASSIGN_OR_RETURN(rates.copies,
                          MeasureBandwidth(device, host, kRatesHostBytes / 3));
  return rates;
}

Json HostRow(const MeasuredRates& rates, const std::string& name) {
  const auto gbps = [](double bytes) { return Rounded(bytes / 1e9); };
  // No machine can measure a network alone: 10 Gb/s (IEEE 802.3an).
  constexpr double kNetworkGbps = 1.25;
  return {{"name", name},
          {"memory_gbps", MemoryGbps(rates)},
          {"network_gbps", kNetworkGbps},
          {"update_gbps", gbps(rates.update_bytes_per_s)},
          {"emulated",
           {{"to_device_gbps", gbps(rates.copies.to_device_bytes_per_s)},
            {"from_device_gbps", gbps(rates.copies.from_device_bytes_per_s)},
            {"arrays", CurveJson(rates.arrays, "kib", 1024, "gbps", 1e9)},
            {"fp32", TypeJson(rates.fp32)},
            {"fp16", TypeJson(rates.fp16)},
            {"bf16", TypeJson(rates.bf16)}}},
          {"source", kSource}};
}

Json GpuRow(const MeasuredRates& rates, const cuda::GpuProperties& gpu) {
  const auto teraflops = [](const TypeRates& type) {
    return Rounded(type.flops_per_s / 1e12);
  };
  // The measured rates are the peaks of the row, so operators reach all of
  // them.
  const double attention =
      std::min(1.0, rates.bf16.attention_flops_per_s / rates.bf16.flops_per_s);
  return {
      {"name", gpu.name},
      {"compute_capability", gpu.compute_capability / 10.0},
      {"memory", gpu.memory_bytes},
      {"reported", gpu.memory_bytes},
      {"memory_gbps", MemoryGbps(rates)},
      {"tflops",
       {{"fp32", teraflops(rates.fp32)},
        {"fp16", teraflops(rates.fp16)},
        {"bf16", teraflops(rates.bf16)}}},
      {"to_device_gbps", Rounded(rates.copies.to_device_bytes_per_s / 1e9)},
      {"from_device_gbps", Rounded(rates.copies.from_device_bytes_per_s / 1e9)},
      {"efficiency",
       {{"product", 1},
        {"attention", Rounded(attention)},
        {"elements", 1},
        {"update", 1},
        {"copy", 1},
        {"host", 1},
        {"source", kSource}}},
      {"source", kSource}};
}

}  // namespace castor::cli
