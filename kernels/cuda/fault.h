// What a program finds wrong with its data. The first report of a piece of work
// stays (device/gpu_context.h), and becomes the stream's failure in the words
// of the kernel's Args::DescribeFault. Light: .cu files include this.
#ifndef CASTOR_KERNELS_CUDA_FAULT_H_
#define CASTOR_KERNELS_CUDA_FAULT_H_

#include <cstdint>

#include "device/gpu_context.h"
#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

// A member of programs that may report; made by FaultOf (fault_code.h).
struct Fault {
  GpuFault* place;
  uint32_t code;  // whose fault it is

  // The meaning of the details is between a program and its DescribeFault.
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
