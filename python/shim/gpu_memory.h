// PyTorch's memory on a GPU, with an engine's in the arena of its run.
//
// While an engine computes, memory that any thread allocates on its GPU is a
// block of its run, and counts; all other memory is CUDA's, and is not counted.
// A block's address tells which of the two it is, so that it may be freed at
// any time, also after its run was closed.
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

// Makes allocations on that GPU blocks of the account's run from now on; null:
// nobody's.
void AllocateFor(std::shared_ptr<Account> account, int gpu);

}  // namespace castor::shim

#define CASTOR_EXPORT __attribute__((visibility("default")))

extern "C" {

// Allocates memory for work on `stream`. Throws c10::OutOfMemoryError, or
// c10::Error where the run has no room.
CASTOR_EXPORT void* castor_cuda_alloc(ssize_t bytes, int gpu, void* stream);
CASTOR_EXPORT void castor_cuda_free(void* address, ssize_t bytes, int gpu,
                                    void* stream);
// Notes that the block is used on `stream` as well (Tensor.record_stream).
CASTOR_EXPORT void castor_cuda_use_on(void* address, void* stream);

}  // extern "C"

#endif  // CASTOR_PYTHON_SHIM_GPU_MEMORY_H_
