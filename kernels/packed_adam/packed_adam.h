// Adam's pass over one chunk (kernels/adam/adam.h) whose moments are kept in 16
// or 8 bits: they are widened, go through Adam's own operations, and are
// rounded stochastically (kernels/state_update/state_update.h). State 0 is m,
// state 1 is v. master is fp32.
#ifndef CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_H_
#define CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "device/device.h"
#include "kernels/adam/adam.h"
#include "kernels/state_update/state_update.h"

namespace castor::kernels {

using PackedAdamRange = StateRange<AdamHyper>;

struct PackedAdamArgs {
  using Hyper = AdamHyper;
  static constexpr int kStates = 2;

  StateArrays arrays = {};
  const PackedAdamRange* ranges = nullptr;  // in host memory
  int64_t num_ranges = 0;                   // 0: nothing is done

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_H_
