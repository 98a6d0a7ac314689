// LAMB's pass over one chunk, in two phases, since a parameter's step depends
// on the norms of the whole parameter, of which a rank may have only a shard:
//
//   measure   g = grad * grad_scale            (clipping and loss scale)
//             m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//             u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
//                 + weight_decay * master
//             sums: |master|^2 and |u|^2 of each parameter
//   apply     ratio = |master| / |u|, at least min_coeff, at most max_coeff;
//             1 where either norm is 0
//             master -= lr * ratio * u
//
// Without bias correction both 1 - beta^t are 1. u is computed twice, with the
// same bits, from the m and v that measure leaves, so it takes no memory.
// Source: You et al., "Large batch optimization for deep learning: training
// BERT in 76 minutes", 2020, algorithm 2; the ratio's limits and their names
// are DeepSpeed's. (DeepSpeed's own kernel takes the ratio of an u without bias
// correction and corrects the step size instead, so that its first steps differ
// unless bias_correction is off.)
//
// A step whose grad_scale is not finite is skipped: gradients are not read,
// master, m and v and the sums stay unchanged, and payload = master rounded.
//
// Elementwise operations are rounded as kernels/lamb/cpu.cc says, sums are
// exact from tiles of kNormTile elements on (kernels/exact_sum/exact_sum.h):
// bit-identical however a chunk is sliced and on whatever instruction set it
// runs.
#ifndef CASTOR_KERNELS_LAMB_LAMB_H_
#define CASTOR_KERNELS_LAMB_LAMB_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"
#include "kernels/exact_sum/exact_sum.h"

namespace castor::kernels {

// Hyperparameters of a range.
struct LambHyper {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t step = 1;  // t, from 1
  bool bias_correction = true;
  double max_coeff = 10.0;
  double min_coeff = 0.01;
};

// The sums over a parameter.
enum LambSum { kLambParameter, kLambUpdate, kLambSums };

// One range of elements with one hyper: a parameter's elements within a shard.
struct LambRange {
  int64_t begin = 0, end = 0;  // elements; begin is a tile's start
  // The parameter's sums are the kLambSums from kLambSums * parameter on.
  int64_t parameter = 0;
  LambHyper hyper = {};
};

// Updates the moments of the elements in `ranges` of one chunk's arrays, and
// adds to their parameters' sums.
struct LambMeasureArgs {
  DType dtype = DType::kFloat32;
  // Gradients of type dtype; not read if there is a gradient_sum.
  const void* payload = nullptr;
  const float* gradient_sum = nullptr;
  const float* master = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* grad_scale = nullptr;  // read when the work runs
  const LambRange* ranges = nullptr;  // in host memory; none: nothing is done
  int64_t num_ranges = 0;
  ExactSum* sums = nullptr;  // added to; on a GPU in its memory
  // In host memory, may be null: becomes 1 if a moment is not finite. Not
  // checked on a GPU.
  int32_t* not_finite = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// Makes the step of the same elements, once the sums are complete.
struct LambApplyArgs {
  DType dtype = DType::kFloat32;
  void* payload = nullptr;  // the parameters, rounded from master
  float* master = nullptr;
  const float* m = nullptr;
  const float* v = nullptr;
  const float* grad_scale = nullptr;  // read when the work runs
  const LambRange* ranges = nullptr;  // in host memory; none: nothing is done
  int64_t num_ranges = 0;
  const double* sums = nullptr;  // the values of LambMeasureArgs::sums
  // As above, for master.
  int32_t* not_finite = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_LAMB_LAMB_H_
