#include "kernels/adafactor/adafactor.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace castor::kernels {
namespace {

absl::Status CheckRanges(const char* kernel, const AdafactorRange* ranges,
                         int64_t num_ranges) {
  for (int64_t r = 0; r < num_ranges; ++r) {
    const AdafactorRange& range = ranges[r];
    const int64_t columns = range.columns > 0 ? range.columns : 1;
    if (range.begin < 0 || range.end < range.begin || range.parameter < 0 ||
        range.first < 0 || range.first % kNormTile != 0 || range.columns < 0 ||
        range.rows < 1 || range.rows_of_matrix < 1 ||
        range.rows % range.rows_of_matrix != 0 || range.first_margin < 0 ||
        range.rows * columns != range.size ||
        range.first + range.end - range.begin > range.size) {
      return absl::InvalidArgumentError(absl::StrCat(
          kernel, ": range ", r, " is [", range.begin, ", ", range.end,
          ") from element ", range.first, " of parameter ", range.parameter,
          " with ", range.size, " elements in ", range.rows, " rows and ",
          range.columns,
          " columns; give 0 <= begin <= end, a tile's start, and rows and "
          "columns that make up the parameter"));
    }
  }
  return absl::OkStatus();
}

absl::Status NullPointer(const char* kernel) {
  return absl::InvalidArgumentError(
      absl::StrCat(kernel, ": a null pointer among the arrays"));
}

}  // namespace

absl::Status AdafactorMarginsArgs::Check() const {
  if (num_ranges == 0) return absl::OkStatus();
  if ((payload == nullptr && gradient_sum == nullptr) ||
      grad_scale == nullptr || sums == nullptr) {
    return NullPointer("AdafactorMargins");
  }
  return CheckRanges("AdafactorMargins", ranges, num_ranges);
}

absl::Status AdafactorMeasureArgs::Check() const {
  if (num_ranges == 0) return absl::OkStatus();
  if ((payload == nullptr && gradient_sum == nullptr) || master == nullptr ||
      factors == nullptr || grad_scale == nullptr || sums == nullptr) {
    return NullPointer("AdafactorMeasure");
  }
  return CheckRanges("AdafactorMeasure", ranges, num_ranges);
}

absl::Status AdafactorApplyArgs::Check() const {
  if (num_ranges == 0) return absl::OkStatus();
  if (payload == nullptr || master == nullptr || factors == nullptr ||
      grad_scale == nullptr || sums == nullptr) {
    return NullPointer("AdafactorApply");
  }
  return CheckRanges("AdafactorApply", ranges, num_ranges);
}

void UpdateAdafactorMargins(const AdafactorMargins& margins,
                            const ExactSum* sums, float* kept, float* factors) {
  const auto update = [&](int64_t i, double addends) {
    const double mean = sums[i].Value() / addends + margins.eps1;
    kept[i] = static_cast<float>(margins.beta2 * double{kept[i]} +
                                 (1 - margins.beta2) * mean);
  };
  const auto factor = [](double value) {
    return static_cast<float>(1 / std::sqrt(value));
  };
  const int64_t rows = margins.rows_of_matrix;
  const bool vector = margins.columns == 0;
  for (int64_t begin = 0; begin < margins.rows; begin += rows) {
    double sum = 0;
    for (int64_t i = begin; i < begin + rows; ++i) {
      update(i, vector ? 1.0 : static_cast<double>(margins.columns));
      sum += double{kept[i]};
    }
    const double mean = vector ? 1 : sum / static_cast<double>(rows);
    for (int64_t i = begin; i < begin + rows; ++i) {
      factors[i] = factor(double{kept[i]} / mean);
    }
  }
  const int64_t end = margins.rows + margins.rows / rows * margins.columns;
  for (int64_t i = margins.rows; i < end; ++i) {
    update(i, static_cast<double>(rows));
    factors[i] = factor(double{kept[i]});
  }
}

}  // namespace castor::kernels
