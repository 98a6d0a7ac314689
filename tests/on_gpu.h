// A test's training on a CUDA device.
#ifndef CASTOR_TESTS_ON_GPU_H_
#define CASTOR_TESTS_ON_GPU_H_

#include "device/cuda/api.h"
#include "kernels/kernel_table.h"
#include "tests/training_harness.h"

namespace castor::testing {

// `c` on the first GPU of `api`, with these kernels; both outlive its runs.
TrainingCase OnGpu(TrainingCase c, cuda::Api* api,
                   const kernels::KernelTable* kernels);

}  // namespace castor::testing

#endif  // CASTOR_TESTS_ON_GPU_H_
