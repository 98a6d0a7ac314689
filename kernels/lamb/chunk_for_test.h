// A chunk with the arrays of LAMB, for the tests of either device.
#ifndef CASTOR_KERNELS_LAMB_CHUNK_FOR_TEST_H_
#define CASTOR_KERNELS_LAMB_CHUNK_FOR_TEST_H_

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/lamb/lamb.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {

// Returns several different sets of hyperparameters.
inline std::vector<LambHyper> LambHypers() {
  return {{.lr = 3e-3, .weight_decay = 0.01, .step = 7},
          {.lr = 1e-3,
           .weight_decay = 0.1,
           .step = 3,
           .bias_correction = false,
           .max_coeff = 0.3},
          {.lr = 1e-2, .beta1 = 0.25, .beta2 = 0.5, .step = 2, .min_coeff = 5},
          {.lr = 1e-3, .beta1 = 0, .eps = 1e-6, .weight_decay = 0.3}};
}

// A chunk of parameters, one after the other, each from a tile's start.
struct LambChunk {
  LambChunk(DType dtype, std::vector<int64_t> sizes, int64_t shift,
            uint64_t seed)
      : sizes(std::move(sizes)),
        size(Offset(this->sizes.size())),
        payload(dtype, size, shift),
        sum(DType::kFloat32, size, shift),
        master(DType::kFloat32, size, shift),
        m(DType::kFloat32, size, shift),
        v(DType::kFloat32, size, shift),
        exact(kLambSums * this->sizes.size()),
        values(exact.size()) {
    std::mt19937_64 random(seed);
    const auto draw = [&] {
      return static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63;
    };
    for (int64_t i = 0; i < size; ++i) {
      payload.Set(i, 0.3 * draw());
      sum.Set(i, 0.3 * draw());
      master.Set(i, draw());
      m.Set(i, 0.1 * draw());
      const double root = 0.1 * draw();
      v.Set(i, root * root);
    }
  }

  int64_t Offset(size_t parameter) const {
    int64_t offset = 0;
    for (size_t p = 0; p < parameter; ++p) {
      offset += (sizes[p] + kNormTile - 1) / kNormTile * kNormTile;
    }
    return offset;
  }
  std::vector<LambRange> Ranges(const std::vector<LambHyper>& hypers) const {
    std::vector<LambRange> ranges;
    for (size_t p = 0; p < sizes.size(); ++p) {
      ranges.push_back({Offset(p), Offset(p) + sizes[p],
                        static_cast<int64_t>(p), hypers[p % hypers.size()]});
    }
    return ranges;
  }

  LambMeasureArgs MeasureArgs(const std::vector<LambRange>& ranges,
                              bool from_sum, const float* scale) {
    return {.dtype = payload.dtype(),
            .payload = payload.data(),
            .gradient_sum = from_sum ? sum.floats() : nullptr,
            .master = master.floats(),
            .m = m.floats(),
            .v = v.floats(),
            .grad_scale = scale,
            .ranges = ranges.data(),
            .num_ranges = static_cast<int64_t>(ranges.size()),
            .sums = exact.data()};
  }
  LambApplyArgs ApplyArgs(const std::vector<LambRange>& ranges,
                          const float* scale) {
    return {.dtype = payload.dtype(),
            .payload = payload.data(),
            .master = master.floats(),
            .m = m.floats(),
            .v = v.floats(),
            .grad_scale = scale,
            .ranges = ranges.data(),
            .num_ranges = static_cast<int64_t>(ranges.size()),
            .sums = values.data()};
  }
  absl::Status Update(const ExecContext& context,
                      const std::vector<LambRange>& ranges, bool from_sum,
                      const float* scale) {
    absl::Status status =
        kernels::Run(context, MeasureArgs(ranges, from_sum, scale));
    if (!status.ok()) return status;
    status = kernels::Run(
        context, ExactSumValuesArgs{.count = static_cast<int64_t>(exact.size()),
                                    .sums = exact.data(),
                                    .values = values.data()});
    if (!status.ok()) return status;
    return kernels::Run(context, ApplyArgs(ranges, scale));
  }

  bool GuardsIntact() const {
    return payload.GuardsIntact() && sum.GuardsIntact() &&
           master.GuardsIntact() && m.GuardsIntact() && v.GuardsIntact();
  }
  bool SameBits(const LambChunk& other) const {
    return payload.SameBits(other.payload) && master.SameBits(other.master) &&
           m.SameBits(other.m) && v.SameBits(other.v) && values == other.values;
  }

  std::vector<int64_t> sizes;
  int64_t size;
  GuardedBuffer payload, sum, master, m, v;
  std::vector<ExactSum> exact;
  std::vector<double> values;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_LAMB_CHUNK_FOR_TEST_H_
