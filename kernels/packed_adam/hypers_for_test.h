// Adam's hyperparameters, for the tests of packed moments.
#ifndef CASTOR_KERNELS_PACKED_ADAM_HYPERS_FOR_TEST_H_
#define CASTOR_KERNELS_PACKED_ADAM_HYPERS_FOR_TEST_H_

#include <vector>

#include "kernels/adam/adam.h"

namespace castor::kernels {

inline std::vector<AdamHyper> PackedHypers() {
  return {{.lr = 1e-3, .weight_decay = 0.1},
          {.lr = 3e-4, .beta1 = 0.95, .weight_decay = 0, .step = 1000},
          {.lr = 1e-2, .beta1 = 0.3, .beta2 = 0.95, .step = 2},
          {.lr = 1e-3, .weight_decay = 0.1, .decoupled = false, .step = 7},
          {.lr = 0, .step = 3}};
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_PACKED_ADAM_HYPERS_FOR_TEST_H_
