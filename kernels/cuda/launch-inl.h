// LaunchProgram's definition: on the GPU, or emulated. For .cu files only.
#ifndef CASTOR_KERNELS_CUDA_LAUNCH_INL_H_
#define CASTOR_KERNELS_CUDA_LAUNCH_INL_H_

#include "kernels/cuda/block.h"
#include "kernels/cuda/launch.h"

namespace castor::kernels::cuda {

template <class Program>
inline constexpr int kSharedBytes =
    static_cast<int>(sizeof(typename Program::Shared));

}  // namespace castor::kernels::cuda

#ifdef __CUDACC__

#include <cuda_runtime_api.h>

namespace castor::kernels::cuda {

// The size of shared memory is in the kernel's name, for tools that read the
// machine code (tools/machine_code.py).
template <class Program, int kShared>
__global__ void __launch_bounds__(Program::kThreads)
    RunProgram(const __grid_constant__ Program program) {
  extern __shared__ __align__(16) unsigned char memory[];
  GpuBlock<Program::kThreads> block;
  program(block, *reinterpret_cast<typename Program::Shared*>(memory));
}

template <class Program>
const char* LaunchProgram(void* stream, int64_t blocks,
                          const Program& program) {
  // A kernel must request shared memory beyond this size explicitly.
  constexpr int kPlainShared = 48 * 1024;
  constexpr int kShared = kSharedBytes<Program>;
  static_assert(kShared <= kMostSharedBytes);
  if constexpr (kShared > kPlainShared) {
    // It is set at every launch: it is a property of the kernel on one device,
    // and cheap.
    const cudaError_t error = cudaFuncSetAttribute(
        RunProgram<Program, kShared>,
        cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    if (error != cudaSuccess) return cudaGetErrorString(error);
  }
  RunProgram<Program, kShared>
      <<<static_cast<unsigned>(blocks), Program::kThreads, kShared,
         static_cast<cudaStream_t>(stream)>>>(program);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// The oldest compute capability that this file is compiled for.
static constexpr int kArchs[] = {__CUDA_ARCH_LIST__};
static constexpr int kOldestCapability = kArchs[0] / 10;

// Reading a kernel's attributes loads its code. A GPU older than all that the
// program was compiled for has none to load; a run on such a GPU launches other
// programs only (run/gpu.h).
template <class Program>
const char* LoadProgram() {
  int gpu = 0, major = 0, minor = 0;
  cudaError_t error = cudaGetDevice(&gpu);
  if (error == cudaSuccess) {
    error =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
  }
  if (error == cudaSuccess) {
    error =
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu);
  }
  if (error != cudaSuccess) return cudaGetErrorString(error);
  if (10 * major + minor < kOldestCapability) return nullptr;
  cudaFuncAttributes attributes;
  error = cudaFuncGetAttributes(&attributes,
                                RunProgram<Program, kSharedBytes<Program>>);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace castor::kernels::cuda

#else  // The host's compiler.

#include <atomic>
#include <cstring>
#include <memory>

#include "kernels/cuda/emulated_block.h"
#include "kernels/cuda/emulated_schedule.h"

namespace castor::kernels::cuda {

static constexpr int kOldestCapability = 0;  // any

// True if LoadProgram was called. A program that would be loaded by its first
// launch is refused here.
template <class Program>
std::atomic<bool>& EmulatedIsLoaded() {
  static std::atomic<bool> loaded{false};
  return loaded;
}

template <class Program>
const char* LaunchProgram(void* stream, int64_t blocks,
                          const Program& program) {
  if (!EmulatedIsLoaded<Program>().load()) return "it was not loaded";
  using Shared = typename Program::Shared;
  static_assert(kSharedBytes<Program> <= kMostSharedBytes);
  static_assert(alignof(Shared) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  RunEmulated(stream, [blocks, program] {
    const EmulatedOrder order = CurrentEmulatedOrder();
    const auto run = [&](int64_t i, unsigned char* memory) {
      // Memory is full of NaNs, so that a read before the first write shows.
      std::memset(memory, 0xff, sizeof(Shared));
      EmulatedBlock<Program::kThreads> block(InEmulatedOrder(i, blocks));
      program(block, *reinterpret_cast<Shared*>(memory));
    };
    const auto make = [] {
      return std::make_unique<unsigned char[]>(sizeof(Shared));
    };
    if constexpr (requires { Program::kTakesTurns; }) {
      EmulatedSchedule::Run(blocks, [&](int64_t i) {
        CurrentEmulatedOrder() = order;
        run(i, make().get());
      });
    } else {
      const auto memory = make();
      for (int64_t i = 0; i < blocks; ++i) run(i, memory.get());
    }
  });
  return nullptr;
}

template <class Program>
const char* LoadProgram() {
  EmulatedIsLoaded<Program>().store(true);
  return nullptr;
}

}  // namespace castor::kernels::cuda

#endif  // __CUDACC__

namespace castor::kernels::cuda {

// Adds the program to the list of those to load.
template <class Program>
struct LoadedProgram {
  static ProgramLoader* Enter() {
    static ProgramLoader loader = {LoadProgram<Program>, kOldestCapability,
                                   first_program_loader};
    return first_program_loader = &loader;
  }
  static ProgramLoader* const kLoader;
};
template <class Program>
ProgramLoader* const LoadedProgram<Program>::kLoader = Enter();

}  // namespace castor::kernels::cuda

// Instantiates LaunchProgram for a program, and adds it to those to load; used
// within the namespace.
#define CASTOR_LAUNCH(...)                                                \
  template const char* LaunchProgram(void*, int64_t, const __VA_ARGS__&); \
  template struct LoadedProgram<__VA_ARGS__>

#endif  // CASTOR_KERNELS_CUDA_LAUNCH_INL_H_
