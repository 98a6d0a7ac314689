// The fake GPU's device memory, which only work on a stream may touch.
//
// Its pages are open while a stream's thread works on them, and closed
// otherwise. Host code that reads or writes closed pages, which is not possible
// on a machine with a GPU, ends the program with a message. Pages are open for
// all threads at once, so that an access while a stream works is not noticed;
// code that waited for the stream does its access afterwards. Under
// ThreadSanitizer they are never closed, since it detects missing order itself.
#ifndef CASTOR_DEVICE_CUDA_GUARDED_MEMORY_H_
#define CASTOR_DEVICE_CUDA_GUARDED_MEMORY_H_

#include <cstdint>

#include "base/sanitizers.h"

namespace castor::cuda {

inline constexpr bool kMemoryIsGuarded = !CASTOR_THREAD_SANITIZER;

// AllocateGuarded returns whole pages, full of garbage and closed.
void* AllocateGuarded(int64_t bytes);
void FreeGuarded(void* memory, int64_t bytes);
// Addresses with no memory, which nobody can touch. They get some from their
// begin on, whole pages with garbage, and lose some from its end on.
// FreeGuarded frees them, too.
void* ReserveGuarded(int64_t bytes);
void MapGuarded(void* at, int64_t bytes);
void UnmapGuarded(void* at, int64_t bytes);

// Opens all of the process's guarded memory while any such object is open. Each
// thread has an object of its own; threads may use theirs concurrently.
class OpenMemory {
 public:
  OpenMemory() = default;
  ~OpenMemory() { Close(); }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;

  // May be called repeatedly.
  void Open();
  void Close();

 private:
  bool open_ = false;
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_GUARDED_MEMORY_H_
