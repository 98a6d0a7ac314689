// The sum of two elements.
#ifndef CASTOR_KERNELS_ADD_ADD_PROGRAM_H_
#define CASTOR_KERNELS_ADD_ADD_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

struct AddOp {
  CASTOR_HD float operator()(float a, float b) const { return Add(a, b); }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_ADD_ADD_PROGRAM_H_
