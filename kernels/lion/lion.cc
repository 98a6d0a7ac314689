#include "kernels/lion/lion.h"

namespace castor::kernels {

absl::Status LionArgs::Check() const {
  return CheckStateUpdate("LionUpdate", arrays, kStates, ranges, num_ranges);
}

}  // namespace castor::kernels
