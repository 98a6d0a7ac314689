// Starts programs (block.h) on a stream. Light enough for .cu files; the
// kernels' own code calls Launch (launch_status.h), which names what failed.
#ifndef CASTOR_KERNELS_CUDA_LAUNCH_H_
#define CASTOR_KERNELS_CUDA_LAUNCH_H_

#include <cstdint>

namespace castor::kernels::cuda {

// Queues `blocks` blocks of `program` on `stream` (a cudaStream_t) and returns
// before they ran; blocks >= 1. Null, or CUDA's words for why it could not be
// queued. Defined by launch-inl.h, instantiated by one .cu file per program: on
// the GPU where nvcc compiles it, emulated where the host's compiler does.
template <class Program>
const char* LaunchProgram(void* stream, int64_t blocks, const Program& program);

// A program's code comes to the GPU when it is first asked for. That takes
// milliseconds and device memory, and waits for kernels that run, as NCCL's may
// for other ranks. So all of it is asked for before the first step.
//
// CASTOR_LAUNCH enters each program in this list, before main().
struct ProgramLoader {
  const char* (*load)();  // null, or CUDA's words for why it could not
  ProgramLoader* next;
};
inline constinit ProgramLoader* first_program_loader = nullptr;

// The most shared memory that a block may ask for: every GPU from compute
// capability 8.0 on gives a block 99 KiB (NVIDIA, "CUDA C++ Programming Guide",
// table "Technical Specifications per Compute Capability": 8.6, 8.9 and 12.x
// give that, others 163 or 227). A program that asks for more does not compile,
// so that no run is refused by a GPU and no tile, hence no sum, depends on one.
inline constexpr int64_t kMostSharedBytes = 99 * 1024;

// The most blocks that one launch takes.
inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_LAUNCH_H_
