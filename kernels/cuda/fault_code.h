// The code of a kernel's faults: its place in the list of operators, from 1. It
// is valid within a process and never stored.
#ifndef CASTOR_KERNELS_CUDA_FAULT_CODE_H_
#define CASTOR_KERNELS_CUDA_FAULT_CODE_H_

#include <cstdint>
#include <type_traits>

#include "device/gpu_context.h"
#include "kernels/cuda/fault.h"
#include "kernels/operators.h"

namespace castor::kernels::cuda {

template <class Args, class... All>
constexpr uint32_t PlaceIn(OperatorList<All...>) {
  uint32_t place = 0, count = 0;
  ((++count, place = std::is_same_v<Args, All> ? count : place), ...);
  return place;
}

template <class Args>
inline constexpr uint32_t kFaultCode = PlaceIn<Args>(Operators());

// Returns the fault by which a program of the kernel Args reports errors in its
// data.
template <class Args>
Fault FaultOf(const GpuContext& gpu) {
  static_assert(kFaultCode<Args> != 0, "no row in kernels/operators.h");
  return {gpu.fault, kFaultCode<Args>};
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_FAULT_CODE_H_
