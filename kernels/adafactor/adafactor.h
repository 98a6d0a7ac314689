// Adafactor's pass over one chunk. Instead of a second moment of each element
// it keeps one of each of a parameter's margins, its rows and its columns
// (memory/plan/layout/margins.h); a vector's elements are rows of their own.
//
//   margins   g = grad * grad_scale            (clipping and loss scale)
//             sums: g^2 over each row and over each column
//   (host)    beta2 = 1 - t^decay_rate
//             row = beta2 row + (1 - beta2) (mean of its g^2 + eps1), columns
//             alike
//             factor of a row = 1 / sqrt(row / mean of the matrix's rows), of
//             a column 1 / sqrt(column); in a vector 1 / sqrt(row)
//   measure   u = factor of the row * factor of the column * g
//             sums: |master|^2 and |u|^2 of each parameter
//   apply     lr = rate * max(eps2, rms(master))  with scale_parameter, or rate
//             w = lr u / max(1, rms(u) / clip_threshold)
//             m = beta1 m + (1 - beta1) w         with a first moment, or w
//             master = master - weight_decay lr master - m
//
// rms(x) is |x| / sqrt(the parameter's elements). Source: Shazeer, Stern,
// "Adafactor: adaptive learning rates with sublinear memory cost", 2018,
// algorithms 4 to 6; names and the order of steps are those of Hugging Face's
// transformers.optimization.Adafactor.
//
// A step whose grad_scale is not finite is skipped: gradients are not read,
// master, m and the sums stay unchanged, and payload = master rounded.
//
// Roundings are as kernels/adafactor/cpu.cc says. Sums over a row are exact
// sums of the row's parts in tiles of kNormTile elements, those over a column
// of single elements, those over a parameter of tiles: bits do not depend on
// how a chunk is sliced.
#ifndef CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_H_
#define CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"
#include "kernels/exact_sum/exact_sum.h"

namespace castor::kernels {

// Hyperparameters of a range.
struct AdafactorHyper {
  double rate = 1e-3;  // the step's, external or relative
  bool scale_parameter = true;
  double eps2 = 1e-3;
  double clip_threshold = 1;
  double beta1 = 0;  // of m, where there is one
  double weight_decay = 0;
};

// The sums over a parameter.
enum AdafactorSum { kAdafactorParameter, kAdafactorUpdate, kAdafactorSums };

// One range of elements with one hyper: a parameter's elements within a shard.
struct AdafactorRange {
  int64_t begin = 0, end = 0;  // elements; begin is a tile's start
  // The parameter's sums are the kAdafactorSums from kAdafactorSums * parameter
  // on.
  int64_t parameter = 0;
  int64_t first = 0;  // the element of the parameter at begin
  int64_t size = 0;   // elements of the parameter
  // Its rows in all and in each of its matrices, and its columns; 0: a vector.
  int64_t rows = 0;
  int64_t rows_of_matrix = 0;
  int64_t columns = 0;
  int64_t first_margin = 0;  // the place of its first row's among the chunk's
  AdafactorHyper hyper = {};
};

// Adds the squares of the gradients of `ranges` to the sums of their margins.
struct AdafactorMarginsArgs {
  DType dtype = DType::kFloat32;
  // Gradients of type dtype; not read if there is a gradient_sum.
  const void* payload = nullptr;
  const float* gradient_sum = nullptr;
  const float* grad_scale = nullptr;       // read when the work runs
  const AdafactorRange* ranges = nullptr;  // in host memory
  int64_t num_ranges = 0;
  ExactSum* sums = nullptr;  // [margins], added to; on a GPU in its memory

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// Adds to the sums of the parameters of `ranges`.
struct AdafactorMeasureArgs {
  DType dtype = DType::kFloat32;
  const void* payload = nullptr;
  const float* gradient_sum = nullptr;
  const float* master = nullptr;
  const float* factors = nullptr;  // [margins]
  const float* grad_scale = nullptr;
  const AdafactorRange* ranges = nullptr;
  int64_t num_ranges = 0;
  ExactSum* sums = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// Makes the step of the same elements, once the sums are complete.
struct AdafactorApplyArgs {
  DType dtype = DType::kFloat32;
  void* payload = nullptr;  // the gradients, then the parameters
  const float* gradient_sum = nullptr;
  float* master = nullptr;
  float* m = nullptr;  // null: no first moment
  const float* factors = nullptr;
  const float* grad_scale = nullptr;
  const AdafactorRange* ranges = nullptr;
  int64_t num_ranges = 0;
  const double* sums = nullptr;  // the values of AdafactorMeasureArgs::sums
  // In host memory, may be null: becomes 1 if a new value is not finite. Not
  // checked on a GPU.
  int32_t* not_finite = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// Updates, on the host, one parameter's margins from its sums, and computes
// their factors: `sums`, `kept` and `factors` are [margins], rows first.
// `beta2` is this step's; margins that have seen no step are 0. Computed in
// double; kept values and factors are rounded to fp32.
struct AdafactorMargins {
  int64_t rows = 0;
  int64_t rows_of_matrix = 0;
  int64_t columns = 0;
  double beta2 = 0;
  double eps1 = 1e-30;
};
void UpdateAdafactorMargins(const AdafactorMargins& margins,
                            const ExactSum* sums, float* kept, float* factors);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ADAFACTOR_ADAFACTOR_H_
