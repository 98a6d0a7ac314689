// The fake GPU's device memory: only what runs on a stream may touch it.
//
// Its pages are open while a stream's thread works on them, and closed
// otherwise: host code that reads or writes them then, as it could not on a
// machine with a GPU, ends the program with words that say so. They are open
// for all threads at once, so that while a stream works nothing is seen;
// whatever waited for the stream reads afterwards. Under ThreadSanitizer they
// are never closed: it sees for itself what is not ordered.
#ifndef CASTOR_DEVICE_CUDA_GUARDED_MEMORY_H_
#define CASTOR_DEVICE_CUDA_GUARDED_MEMORY_H_

#include <cstdint>

#include "base/sanitizers.h"

namespace castor::cuda {

inline constexpr bool kMemoryIsGuarded = !CASTOR_THREAD_SANITIZER;

// AllocateGuarded gives whole pages, full of garbage and closed.
void* AllocateGuarded(int64_t bytes);
void FreeGuarded(void* memory, int64_t bytes);

// Opens all of the process's guarded memory for as long as some thread has it
// open. A thread's own; threads may use theirs at once.
class OpenMemory {
 public:
  OpenMemory() = default;
  ~OpenMemory() { Close(); }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;

  // Each may be called again and again.
  void Open();
  void Close();

 private:
  bool open_ = false;
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_GUARDED_MEMORY_H_
