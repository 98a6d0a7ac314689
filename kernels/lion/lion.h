// Lion's pass over one chunk:
//
//   decoupled decay:  master *= 1 - lr * weight_decay
//   master -= lr * sign(beta1 m + (1 - beta1) g)
//   m = beta2 m + (1 - beta2) g
//
// Source: Chen et al., "Symbolic discovery of optimization algorithms", 2023,
// algorithm 2; in the order of operations of the authors' lion_pytorch.py. The
// sign of 0 is 0, and so is that of a NaN, which stays in m.
//
// State 0 is m. kernels/state_update/state_update.h describes the arrays, the
// states' formats, and steps that are skipped.
//
// Elementwise, with explicit fused multiply-adds: bit-identical however a chunk
// is sliced and on whatever instruction set it runs.
#ifndef CASTOR_KERNELS_LION_LION_H_
#define CASTOR_KERNELS_LION_LION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "device/device.h"
#include "kernels/state_update/state_update.h"

namespace castor::kernels {

struct LionHyper {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

using LionRange = StateRange<LionHyper>;

struct LionArgs {
  using Hyper = LionHyper;
  static constexpr int kStates = 1;

  StateArrays arrays = {};
  const LionRange* ranges = nullptr;  // in host memory
  int64_t num_ranges = 0;             // 0: nothing is done

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_LION_LION_H_
