// The activation function GELU, in Hugging Face's form "gelu_new":
//
//   gelu(x) = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//
// Source: Hendrycks, Gimpel, "Gaussian error linear units", 2016.
//
// Both kernels compute in fp32 and round once. The GPU's bits are not the
// host's: their exponential functions differ in the last place.
#ifndef CASTOR_KERNELS_GELU_GELU_H_
#define CASTOR_KERNELS_GELU_GELU_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// y [size] = gelu(x).
struct GeluForwardArgs {
  DType dtype = DType::kFloat32;
  int64_t size = 0;  // elements
  const void* x = nullptr;
  void* y = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// dx [size] = dy * gelu'(x). dx may equal dy.
struct GeluBackwardArgs {
  DType dtype = DType::kFloat32;
  int64_t size = 0;  // elements
  const void* x = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_GELU_GELU_H_
