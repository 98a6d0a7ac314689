// The coefficients of Adafactor's update, and where the margins of an element
// are, which are the same on every device.
// Light: CUDA sources include this.
#ifndef CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_MATH_H_
#define CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_MATH_H_

#include <cstdint>

#include "kernels/cuda/portable.h"

namespace castor::kernels {

struct AdafactorRange;

// One range, with what its step needs.
struct AdafactorScalars {
  int64_t first = 0;  // the parameter's element at the range's begin
  int64_t size = 0;
  int64_t rows = 0;
  int64_t rows_of_matrix = 0;
  int64_t columns = 0;
  int64_t first_margin = 0;
  int64_t first_sum = 0;  // of the parameter
  double rate = 0;
  double least_scale = 0;  // eps2; below 0: the rate is not scaled
  double clip_threshold = 1;
  double weight_decay = 0;
  float beta1 = 0;
  float one_minus_beta1 = 1;
};

AdafactorScalars MakeAdafactorScalars(const AdafactorRange& range);

// The margins of a parameter's element, as places among the chunk's.
struct AdafactorPlace {
  int64_t row;
  int64_t column;  // below 0: none
};
CASTOR_HD AdafactorPlace AdafactorPlaceOf(const AdafactorScalars& s,
                                          int64_t element) {
  if (s.columns == 0) return {s.first_margin + element, -1};
  const int64_t row = element / s.columns;
  return {s.first_margin + row, s.first_margin + s.rows +
                                    row / s.rows_of_matrix * s.columns +
                                    (element - row * s.columns)};
}

// A parameter's step, as its sums determine it.
struct AdafactorStep {
  float size = 0;   // what u is multiplied by
  float decay = 0;  // what the parameter is multiplied by and loses
};

// Computed in double and rounded, from the sums of squares of a parameter and
// of its update. A NaN among them gives a NaN.
CASTOR_HD AdafactorStep MakeAdafactorStep(const AdafactorScalars& s,
                                          double parameter, double update) {
  const double size = static_cast<double>(s.size);
  double lr = s.rate;
  if (s.least_scale >= 0) {
    const double rms = cuda::Sqrt(cuda::Div(parameter, size));
    lr = lr * (rms < s.least_scale ? s.least_scale : rms);
  }
  const double over =
      cuda::Div(cuda::Sqrt(cuda::Div(update, size)), s.clip_threshold);
  return {static_cast<float>(over < 1 ? lr : cuda::Div(lr, over)),
          static_cast<float>(s.weight_decay * lr)};
}

// Returns the parameter after its step. `m` is updated where it is not null.
CASTOR_HD float AdafactorValue(const AdafactorScalars& s,
                               const AdafactorStep& step, float u, float p,
                               float* m) {
  float w = cuda::Mul(step.size, u);
  if (m != nullptr) {
    w = cuda::Add(cuda::Mul(s.beta1, *m), cuda::Mul(s.one_minus_beta1, w));
    *m = w;
  }
  return cuda::Sub(cuda::Sub(p, cuda::Mul(step.decay, p)), w);
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_MATH_H_
