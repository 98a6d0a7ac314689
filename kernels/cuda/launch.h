// Starts programs (block.h) on a stream. Light enough for .cu files; the
// kernels' own code calls Launch (launch_status.h), whose errors name the
// kernel.
#ifndef CASTOR_KERNELS_CUDA_LAUNCH_H_
#define CASTOR_KERNELS_CUDA_LAUNCH_H_

#include <cstdint>

namespace castor::kernels::cuda {

// Queues `blocks` blocks of `program` on `stream` (a cudaStream_t) and returns
// before they ran; blocks >= 1. Returns null, or CUDA's words for the failure
// to queue it. Defined by launch-inl.h, instantiated by one .cu file per
// program: on the GPU where nvcc compiles it, emulated where the host's
// compiler does.
template <class Program>
const char* LaunchProgram(void* stream, int64_t blocks, const Program& program);

// A program's code is loaded on the GPU at its first use. That takes
// milliseconds and device memory, and waits for running kernels, such as
// NCCL's, which may wait for other ranks. So all programs are loaded before the
// first step.
//
// CASTOR_LAUNCH adds each program to this list, before main().
struct ProgramLoader {
  const char* (*load)();  // returns null, or CUDA's words
  // The oldest compute capability that it was compiled for, as 75.
  int oldest_capability;
  ProgramLoader* next;
};
inline constinit ProgramLoader* first_program_loader = nullptr;

// The most shared memory of a block: every GPU from compute capability 8.0 on
// gives a block 99 KiB (NVIDIA, "CUDA C++ Programming Guide", table "Technical
// Specifications per Compute Capability": 8.6, 8.9 and 12.x give that, others
// 163 or 227). A program that asks for more does not compile, so that no run is
// refused by a GPU and no tile, hence no sum, depends on one.
inline constexpr int64_t kMostSharedBytes = 99 * 1024;

// The most blocks of one launch.
inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_LAUNCH_H_
