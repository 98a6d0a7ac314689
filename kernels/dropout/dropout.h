// Dropout, inverted. Source: Srivastava et al., "Dropout", 2014.
//
// Element i of a call is kept if RandomWord(key, i) >= DropoutThreshold(p), and
// is multiplied by DropoutScale(p). The mask is never stored: backward draws it
// again, by the same kernel with the same key. The bits are the same on every
// device.
#ifndef CASTOR_KERNELS_DROPOUT_DROPOUT_H_
#define CASTOR_KERNELS_DROPOUT_DROPOUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "device/device.h"

namespace castor::kernels {

// Returns p * 2^32, rounded; p in [0, 1). Attention drops by the same rule.
uint32_t DropoutThreshold(float p);

// Returns 1 / (1 - p), computed in double.
inline float DropoutScale(float p) {
  return static_cast<float>(1.0 / (1.0 - static_cast<double>(p)));
}

// y [size] = dropout(x) (+ residual), formed in fp32 and rounded once. y may
// equal x or residual. With a probability of 0 it is a copy or a sum.
struct DropoutArgs {
  DType dtype = DType::kFloat32;
  int64_t size = 0;       // elements
  float probability = 0;  // of dropping an element, in [0, 1)
  RandomKey key;
  const void* x = nullptr;
  const void* residual = nullptr;  // null: none
  void* y = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_DROPOUT_DROPOUT_H_
