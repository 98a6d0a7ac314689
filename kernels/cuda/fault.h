// What a kernel finds wrong with its data: the first report on a stream stays
// (device/gpu_context.h); DescribeFault (kernels.h) puts it into words.
#ifndef CASTOR_KERNELS_CUDA_FAULT_H_
#define CASTOR_KERNELS_CUDA_FAULT_H_

#include <cstdint>

#include "device/gpu_context.h"
#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

enum class FaultCode : uint32_t {
  kNone = 0,
  // detail: index, its position, the vocabulary.
  kEmbeddingForward = 1,
  kEmbeddingBackward = 2,
  // detail: token, its row, the vocabulary.
  kTarget = 3,
};

CASTOR_HD void ReportFault(GpuFault* fault, FaultCode code, int64_t detail0,
                           int64_t detail1, int64_t detail2) {
#ifdef __CUDA_ARCH__
  if (atomicCAS_system(&fault->code, 0u, static_cast<uint32_t>(code)) != 0u) {
    return;
  }
#else
  if (fault->code != 0) return;
  fault->code = static_cast<uint32_t>(code);
#endif
  fault->detail[0] = detail0;
  fault->detail[1] = detail1;
  fault->detail[2] = detail2;
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_FAULT_H_
