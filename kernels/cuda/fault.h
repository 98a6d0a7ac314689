// A fault that a program finds in its data. The first report of a piece of work
// stays (device/gpu_context.h), and Args::DescribeFault of the kernel makes it
// the stream's failure. Light, since .cu files include it.
#ifndef CASTOR_KERNELS_CUDA_FAULT_H_
#define CASTOR_KERNELS_CUDA_FAULT_H_

#include <cstdint>

#include "device/gpu_context.h"
#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

// A member of programs that may report; made by FaultOf (fault_code.h).
struct Fault {
  GpuFault* place;
  uint32_t code;  // the kernel's

  // A program and its DescribeFault agree on the meaning of the details.
  CASTOR_HD void Report(int64_t detail0, int64_t detail1,
                        int64_t detail2) const {
#ifdef __CUDA_ARCH__
    if (atomicCAS_system(&place->code, 0u, code) != 0u) return;
#else
    if (place->code != 0) return;
    place->code = code;
#endif
    place->detail[0] = detail0;
    place->detail[1] = detail1;
    place->detail[2] = detail2;
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_FAULT_H_
