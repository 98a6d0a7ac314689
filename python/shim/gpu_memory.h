// PyTorch's memory on a GPU, with an engine's in the arena of its run.
//
// While an engine computes, what is allocated on its GPU, by any thread, is a
// block of its run, and counts; all else is CUDA's, and is not counted. Which
// of the two a block is of is known by its address, so that it may be freed at
// any time, also when its run was closed.
//
// PyTorch calls the three functions at the end, as a pluggable allocator's
// (torch.cuda.memory.CUDAPluggableAllocator). No header of CUDA is needed: a
// stream is a pointer.
//
// Threads: any may call.
#ifndef CASTOR_PYTHON_SHIM_GPU_MEMORY_H_
#define CASTOR_PYTHON_SHIM_GPU_MEMORY_H_

#include <sys/types.h>

#include <memory>

#include "python/shim/account.h"

namespace castor::shim {

// From now on allocations on that GPU are blocks of the account's run; null:
// nobody's.
void AllocateFor(std::shared_ptr<Account> account, int gpu);

}  // namespace castor::shim

#define CASTOR_EXPORT __attribute__((visibility("default")))

extern "C" {

// Memory for work on `stream`. Throws c10::OutOfMemoryError, or c10::Error
// where the run has no room.
CASTOR_EXPORT void* castor_cuda_alloc(ssize_t bytes, int gpu, void* stream);
CASTOR_EXPORT void castor_cuda_free(void* address, ssize_t bytes, int gpu,
                                    void* stream);
// The block is used on `stream` as well (Tensor.record_stream).
CASTOR_EXPORT void castor_cuda_use_on(void* address, void* stream);

}  // extern "C"

#endif  // CASTOR_PYTHON_SHIM_GPU_MEMORY_H_
