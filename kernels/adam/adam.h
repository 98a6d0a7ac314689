// The optimizer's pass over one chunk, fused: it reads the gradient, scales it,
// updates master, m and v, and writes the parameter in the compute type where
// the gradient was.
//
//   g = grad * grad_scale                (clipping and loss scale)
//   L2 decay (Adam):        g += weight_decay * master
//   decoupled (AdamW):      master *= 1 - lr * weight_decay
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   master -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
// Without bias correction both 1 - beta^t are 1.
// Sources: Kingma, Ba, "Adam", 2015; Loshchilov, Hutter, "Decoupled weight
// decay regularization", 2019; in PyTorch's order of operations
// (torch.optim.AdamW, single tensor).
//
// A step whose grad_scale is not finite (gradients in fp16 went beyond its
// range) is skipped: gradients are not read, master, m and v stay unchanged
// (out of place, they are copied), and payload = master rounded.
//
// Elementwise, with explicit fused multiply-adds and correctly rounded division
// and square root: bit-identical however a chunk is sliced and on whatever
// instruction set it runs.
#ifndef CASTOR_KERNELS_ADAM_ADAM_H_
#define CASTOR_KERNELS_ADAM_ADAM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// Hyperparameters of a range.
struct AdamHyper {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = true;  // AdamW; false: Adam with L2 decay
  int64_t step = 1;       // t, from 1
  bool bias_correction = true;
};

// One range of elements with one hyper (a parameter within a chunk).
struct AdamRange {
  int64_t begin = 0, end = 0;  // elements
  AdamHyper hyper;
};

// Updates the elements in `ranges` of one chunk's arrays; the others stay
// unchanged.
struct AdamArgs {
  // In: gradients of type dtype. Out: parameters, rounded from master.
  void* payload = nullptr;
  DType dtype = DType::kFloat32;
  // If not null, the gradient is read here instead (the sum of several micro
  // batches), and payload is only written.
  const float* gradient_sum = nullptr;
  // The same for a gradient of type dtype; at most one of the two.
  const void* gradient = nullptr;
  float* master = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  // If all are not null, master, m and v are read here, and the members above
  // are only written; none of the six overlap. Only on the host.
  struct Source {
    const float* master = nullptr;
    const float* m = nullptr;
    const float* v = nullptr;
  };
  Source from = {};
  // Read when the work runs, since clipping knows it late. Not finite: the step
  // is skipped.
  const float* grad_scale = nullptr;
  const AdamRange* ranges = nullptr;  // in host memory; none: nothing is done
  int64_t num_ranges = 0;
  // In host memory, may be null: becomes 1 if a value of master, m or v that is
  // written is not finite. Not checked on a GPU.
  int32_t* not_finite = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ADAM_ADAM_H_
