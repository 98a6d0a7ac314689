// A chunk with the arrays of Adafactor, for the tests of either device.
#ifndef CASTOR_KERNELS_ADAFACTOR_CHUNK_FOR_TEST_H_
#define CASTOR_KERNELS_ADAFACTOR_CHUNK_FOR_TEST_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/adafactor/adafactor.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {

// Returns several different sets of hyperparameters.
inline std::vector<AdafactorHyper> AdafactorHypers() {
  return {{.rate = 3e-3, .weight_decay = 0.01},
          {.rate = 1e-2, .scale_parameter = false, .beta1 = 0.75},
          {.rate = 1e-3, .eps2 = 5, .clip_threshold = 0.1},
          {.rate = 0.1, .clip_threshold = 100, .weight_decay = 0.3}};
}

// A parameter's matrices, rows of each and columns.
struct AdafactorShape {
  int64_t matrices, rows, columns;
};

// A chunk of parameters, one after the other, each from a tile's start.
struct AdafactorChunk {
  AdafactorChunk(DType dtype, std::vector<AdafactorShape> shapes, int64_t shift,
                 uint64_t seed)
      : shapes(std::move(shapes)),
        ranges(MakeRanges()),
        size(ranges.empty() ? 0 : RoundedUp(ranges.back().end)),
        payload(dtype, size, shift),
        sum(DType::kFloat32, size, shift),
        master(DType::kFloat32, size, shift),
        m(DType::kFloat32, size, shift),
        margins(num_margins),
        exact(kAdafactorSums * this->shapes.size()),
        values(exact.size()),
        kept(num_margins),
        factors(num_margins) {
    std::mt19937_64 random(seed);
    const auto draw = [&] {
      return static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63;
    };
    for (int64_t i = 0; i < size; ++i) {
      payload.Set(i, 0.3 * draw());
      sum.Set(i, 0.3 * draw());
      master.Set(i, draw());
      m.Set(i, 0.1 * draw());
    }
    for (float& value : kept) value = static_cast<float>(draw() + 1.1);
  }

  static int64_t RoundedUp(int64_t elements) {
    return (elements + kNormTile - 1) / kNormTile * kNormTile;
  }
  std::vector<AdafactorRange> MakeRanges() {
    std::vector<AdafactorRange> all;
    const std::vector<AdafactorHyper> hypers = AdafactorHypers();
    int64_t begin = 0;
    for (size_t p = 0; p < shapes.size(); ++p) {
      const AdafactorShape& shape = shapes[p];
      const int64_t rows = shape.matrices * shape.rows;
      const int64_t elements = rows * std::max<int64_t>(shape.columns, 1);
      all.push_back({.begin = begin,
                     .end = begin + elements,
                     .parameter = static_cast<int64_t>(p),
                     .first = 0,
                     .size = elements,
                     .rows = rows,
                     .rows_of_matrix = shape.rows,
                     .columns = shape.columns,
                     .first_margin = num_margins,
                     .hyper = hypers[p % hypers.size()]});
      num_margins += rows + shape.matrices * shape.columns;
      begin += RoundedUp(elements);
    }
    return all;
  }

  AdafactorMarginsArgs MarginsArgs(const std::vector<AdafactorRange>& of,
                                   bool from_sum, const float* scale) {
    return {.dtype = payload.dtype(),
            .payload = payload.data(),
            .gradient_sum = from_sum ? sum.floats() : nullptr,
            .grad_scale = scale,
            .ranges = of.data(),
            .num_ranges = static_cast<int64_t>(of.size()),
            .sums = margins.data()};
  }
  AdafactorMeasureArgs MeasureArgs(const std::vector<AdafactorRange>& of,
                                   bool from_sum, const float* scale) {
    return {.dtype = payload.dtype(),
            .payload = payload.data(),
            .gradient_sum = from_sum ? sum.floats() : nullptr,
            .master = master.floats(),
            .factors = factors.data(),
            .grad_scale = scale,
            .ranges = of.data(),
            .num_ranges = static_cast<int64_t>(of.size()),
            .sums = exact.data()};
  }
  AdafactorApplyArgs ApplyArgs(const std::vector<AdafactorRange>& of,
                               bool from_sum, bool moment, const float* scale) {
    return {.dtype = payload.dtype(),
            .payload = payload.data(),
            .gradient_sum = from_sum ? sum.floats() : nullptr,
            .master = master.floats(),
            .m = moment ? m.floats() : nullptr,
            .factors = factors.data(),
            .grad_scale = scale,
            .ranges = of.data(),
            .num_ranges = static_cast<int64_t>(of.size()),
            .sums = values.data()};
  }
  // Updates the margins and their factors from the sums, as the host does.
  void UpdateMargins() {
    for (const AdafactorRange& range : ranges) {
      const int64_t first = range.first_margin;
      UpdateAdafactorMargins({.rows = range.rows,
                              .rows_of_matrix = range.rows_of_matrix,
                              .columns = range.columns,
                              .beta2 = 0.6},
                             &margins[first], &kept[first], &factors[first]);
    }
  }
  void UpdateValues() {
    for (size_t i = 0; i < exact.size(); ++i) values[i] = exact[i].Value();
  }
  // One step on the host, by ranges that may be cut.
  absl::Status Update(const ExecContext& context,
                      const std::vector<AdafactorRange>& of, bool from_sum,
                      bool moment, const float* scale) {
    absl::Status status =
        kernels::Run(context, MarginsArgs(of, from_sum, scale));
    UpdateMargins();
    status.Update(kernels::Run(context, MeasureArgs(of, from_sum, scale)));
    UpdateValues();
    status.Update(
        kernels::Run(context, ApplyArgs(of, from_sum, moment, scale)));
    return status;
  }

  bool GuardsIntact() const {
    return payload.GuardsIntact() && sum.GuardsIntact() &&
           master.GuardsIntact() && m.GuardsIntact();
  }
  bool SameBits(const AdafactorChunk& other) const {
    return payload.SameBits(other.payload) && master.SameBits(other.master) &&
           m.SameBits(other.m) && values == other.values &&
           kept == other.kept && factors == other.factors;
  }

  std::vector<AdafactorShape> shapes;
  int64_t num_margins = 0;
  std::vector<AdafactorRange> ranges;  // of all parameters, whole
  int64_t size;
  GuardedBuffer payload, sum, master, m;
  std::vector<ExactSum> margins, exact;
  std::vector<double> values;
  std::vector<float> kept, factors;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ADAFACTOR_CHUNK_FOR_TEST_H_
