// The GPU's operators for a GPU made of threads (device/cuda/fake_api.h): they
// are the host's, queued on the fake's streams, so that a training run on the
// CUDA device must give the host device's bits if its streams are ordered
// right.
#ifndef CASTOR_TESTS_FAKE_GPU_KERNELS_H_
#define CASTOR_TESTS_FAKE_GPU_KERNELS_H_

#include <cstdint>

#include "kernels/kernel_table.h"

namespace castor::testing {

// The bytes of workspace that each operator takes on the fake beyond the
// host's.
inline constexpr int64_t kFakeGpuWorkspaceBytes = 768;

const kernels::KernelTable* FakeGpuKernels();

}  // namespace castor::testing

#endif  // CASTOR_TESTS_FAKE_GPU_KERNELS_H_
