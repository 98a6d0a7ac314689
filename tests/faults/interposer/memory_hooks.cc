// Calls that take memory, and that start threads.
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "tests/faults/interposer/hook.h"

using namespace castor::faults;  // the hooks are no namespace's

// The C library's own, which need no look-up: that allocates.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

bool Fails(const char* function, size_t bytes) {
  const Control* const shared = control();
  if (shared == nullptr ||
      static_cast<int64_t>(bytes) < shared->min_allocation_bytes) {
    return false;
  }
  return Meet(function, Object::kNone, nullptr, static_cast<int64_t>(bytes)) !=
         kNoFault;
}

int32_t MeetMemory(const char* function, size_t bytes) {
  return Meet(function, Object::kNone, nullptr, static_cast<int64_t>(bytes));
}

}  // namespace

CASTOR_HOOK(void*, malloc, (size_t bytes)) {
  return Fails("malloc", bytes) ? nullptr : __libc_malloc(bytes);
}

CASTOR_HOOK(void*, calloc, (size_t count, size_t bytes)) {
  return Fails("calloc", count * bytes) ? nullptr : __libc_calloc(count, bytes);
}

CASTOR_HOOK(void*, realloc, (void* old, size_t bytes)) {
  return Fails("realloc", bytes) ? nullptr : __libc_realloc(old, bytes);
}

CASTOR_HOOK(void*, aligned_alloc, (size_t alignment, size_t bytes)) {
  return Fails("aligned_alloc", bytes) ? nullptr
                                       : __libc_memalign(alignment, bytes);
}

CASTOR_HOOK(void*, memalign, (size_t alignment, size_t bytes)) {
  return Fails("memalign", bytes) ? nullptr : __libc_memalign(alignment, bytes);
}

CASTOR_HOOK(int, posix_memalign, (void** out, size_t alignment, size_t bytes)) {
  if (Fails("posix_memalign", bytes)) return ENOMEM;
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

CASTOR_HOOK(void*, mmap,
            (void* at, size_t bytes, int protection, int flags, int fd,
             off_t offset)) {
  const int32_t fault = fd < 0 ? MeetMemory("mmap", bytes)
                               : Meet("mmap", fd, static_cast<int64_t>(bytes));
  return fault > 0 ? MAP_FAILED
                   : real_mmap(at, bytes, protection, flags, fd, offset);
}
CASTOR_HOOK_ALIAS(void*, mmap64, mmap,
                  (void* at, size_t bytes, int protection, int flags, int fd,
                   off_t offset));

CASTOR_HOOK(int, munmap, (void* at, size_t bytes)) {
  return MeetMemory("munmap", bytes) > 0 ? -1 : real_munmap(at, bytes);
}

CASTOR_HOOK(int, msync, (void* at, size_t bytes, int flags)) {
  return MeetMemory("msync", bytes) > 0 ? -1 : real_msync(at, bytes, flags);
}

CASTOR_HOOK(int, mprotect, (void* at, size_t bytes, int protection)) {
  return MeetMemory("mprotect", bytes) > 0
             ? -1
             : real_mprotect(at, bytes, protection);
}

CASTOR_HOOK(int, mlock, (const void* at, size_t bytes)) {
  return MeetMemory("mlock", bytes) > 0 ? -1 : real_mlock(at, bytes);
}

CASTOR_HOOK(int, mlock2, (const void* at, size_t bytes, unsigned flags)) {
  return MeetMemory("mlock2", bytes) > 0 ? -1 : real_mlock2(at, bytes, flags);
}

CASTOR_HOOK(int, munlock, (const void* at, size_t bytes)) {
  return MeetMemory("munlock", bytes) > 0 ? -1 : real_munlock(at, bytes);
}

CASTOR_HOOK(int, madvise, (void* at, size_t bytes, int advice)) {
  return MeetMemory("madvise", bytes) > 0 ? -1
                                          : real_madvise(at, bytes, advice);
}

CASTOR_HOOK(int, pthread_create,
            (pthread_t * thread, const pthread_attr_t* attributes,
             void* (*run)(void*), void* argument)) {
  const int32_t fault = Meet("pthread_create", Object::kNone, nullptr, 0);
  return fault > 0 ? fault
                   : real_pthread_create(thread, attributes, run, argument);
}
