// Lion's hyperparameters, for tests.
#ifndef CASTOR_KERNELS_LION_HYPERS_FOR_TEST_H_
#define CASTOR_KERNELS_LION_HYPERS_FOR_TEST_H_

#include <vector>

#include "kernels/lion/lion.h"

namespace castor::kernels {

inline std::vector<LionHyper> LionHypers() {
  return {{.lr = 1e-3, .weight_decay = 0.1},
          {.lr = 3e-4, .beta1 = 0.95, .beta2 = 0.98},
          {.lr = 1e-2, .beta1 = 0.3, .beta2 = 0.2},
          {.lr = 0, .beta1 = 0, .beta2 = 0}};
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_LION_HYPERS_FOR_TEST_H_
