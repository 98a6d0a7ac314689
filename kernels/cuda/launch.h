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

// The most blocks that one launch takes.
inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_LAUNCH_H_
