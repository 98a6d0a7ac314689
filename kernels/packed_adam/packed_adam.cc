#include "kernels/packed_adam/packed_adam.h"

namespace castor::kernels {

absl::Status PackedAdamArgs::Check() const {
  return CheckStateUpdate("PackedAdamUpdate", arrays, kStates, ranges,
                          num_ranges);
}

}  // namespace castor::kernels
