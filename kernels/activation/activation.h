// Activation functions, alone or as a gate: y = act(x) or y = act(x) * up.
//
// Sources: ReLU, Nair, Hinton, "Rectified linear units improve restricted
// Boltzmann machines", 2010; GELU and SiLU, Hendrycks, Gimpel, "Gaussian error
// linear units", 2016; gates, Shazeer, "GLU variants improve transformer",
// 2020.
// Tanh is the activation of BERT's pooler.
//
// Both kernels compute in fp32 and round once. The GPU's bits differ from the
// host's, except for ReLU: their exponential functions differ in the last
// place.
#ifndef CASTOR_KERNELS_ACTIVATION_ACTIVATION_H_
#define CASTOR_KERNELS_ACTIVATION_ACTIVATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"
#include "kernels/activation/kind.h"

namespace castor::kernels {

// y [size] = act(x), times up [size] unless that is null. y may be x or up.
struct ActivationForwardArgs {
  Activation kind = Activation::kRelu;
  DType dtype = DType::kFloat32;
  int64_t size = 0;  // elements
  const void* x = nullptr;
  const void* up = nullptr;
  void* y = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// dx [size] = dy * up * act'(x) and, where there is an up,
// dup [size] = dy * act(x). Each may be any of the inputs, but not both the
// same. For ReLU x may be y of the forward pass without up: it has x's sign.
struct ActivationBackwardArgs {
  Activation kind = Activation::kRelu;
  DType dtype = DType::kFloat32;
  int64_t size = 0;  // elements
  const void* x = nullptr;
  const void* up = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  void* dup = nullptr;  // null if and only if up is

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ACTIVATION_ACTIVATION_H_
