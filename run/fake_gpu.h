// A GPU made of threads (device/cuda/fake_api.h) that runs the GPU's kernels
// thread after thread, in the place of the build's: what links it finds it by
// FindGpu.
#ifndef CASTOR_RUN_FAKE_GPU_H_
#define CASTOR_RUN_FAKE_GPU_H_

#include "device/cuda/fake_api.h"

namespace castor {

// The one of the process.
cuda::FakeApi& FakeGpu();

}  // namespace castor

#endif  // CASTOR_RUN_FAKE_GPU_H_
