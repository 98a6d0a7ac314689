// SGD's hyperparameters, for tests.
#ifndef CASTOR_KERNELS_SGD_HYPERS_FOR_TEST_H_
#define CASTOR_KERNELS_SGD_HYPERS_FOR_TEST_H_

#include <vector>

#include "kernels/sgd/sgd.h"

namespace castor::kernels {

// Returns those of updates with states of so many bits; 0: without states.
inline std::vector<SgdHyper> SgdHypers(int bits) {
  std::vector<SgdHyper> hypers = {
      {.lr = 1e-3, .weight_decay = 0.1}, {.lr = 0.3, .step = 5}, {.lr = 0}};
  if (bits == 0) return hypers;
  hypers.push_back({.lr = 1e-2, .momentum = 0.9, .step = 4});
  hypers.push_back({.lr = 1e-2,
                    .momentum = 0.9,
                    .dampening = 0.4,
                    .weight_decay = 0.1,
                    .step = 1});
  hypers.push_back({.lr = 1e-2, .momentum = 0.5, .dampening = 0.4, .step = 2});
  hypers.push_back({.lr = 3e-2,
                    .momentum = 0.95,
                    .nesterov = true,
                    .weight_decay = 0.1,
                    .step = 3});
  return hypers;
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_SGD_HYPERS_FOR_TEST_H_
