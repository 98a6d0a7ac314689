// Stochastic gradient descent's pass over one chunk, with momentum or without:
//
//   g += weight_decay * master
//   buf = momentum * buf + (1 - dampening) g;  in a parameter's first step g
//   d = buf;  with nesterov g + momentum * buf;  without momentum g
//   master -= lr * d
//
// Source: PyTorch's torch.optim.SGD, in its order of operations (single
// tensor); momentum is Sutskever et al.'s, "On the importance of initialization
// and momentum in deep learning", 2013, but for the rate, which is outside of
// buf.
//
// State 0 is buf; without momentum in any range there are no states, and
// StateArrays::bits are 0. kernels/state_update/state_update.h describes the
// arrays, the states' formats, and steps that are skipped.
//
// Elementwise, with explicit fused multiply-adds: bit-identical however a chunk
// is sliced and on whatever instruction set it runs.
#ifndef CASTOR_KERNELS_SGD_SGD_H_
#define CASTOR_KERNELS_SGD_SGD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "device/device.h"
#include "kernels/state_update/state_update.h"

namespace castor::kernels {

struct SgdHyper {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
  int64_t step = 1;  // of the parameter, from 1
};

using SgdRange = StateRange<SgdHyper>;

struct SgdArgs {
  using Hyper = SgdHyper;
  static constexpr int kStates = 1;  // at most

  StateArrays arrays = {};
  const SgdRange* ranges = nullptr;  // in host memory
  int64_t num_ranges = 0;            // 0: nothing is done

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_SGD_SGD_H_
