#include "device/cuda/guarded_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/check.h"

namespace castor::cuda {
namespace {

struct Range {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0: unused
};

struct Guarded {
  std::mutex mutex;  // guards `open`, and who changes ranges or protection
  int open = 0;      // threads that have it open
  // A signal handler reads them.
  std::array<Range, 64> ranges;
  struct sigaction before;
};

Guarded& All() {
  static Guarded* const all = new Guarded();
  return *all;
}

// Says whose fault it is, if the address is in guarded memory. Then the former
// handler takes the signal.
void OnFault(int signal, siginfo_t* info, void* context) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Range& range : All().ranges) {
    if (at < range.begin.load() || at >= range.end.load()) continue;
    static constexpr char kWords[] =
        "host code touched device memory of the fake GPU: on a machine with a "
        "GPU it cannot; copy through a stream\n";
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, kWords, sizeof(kWords) - 1);
    break;
  }
  const struct sigaction& before = All().before;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
    return;
  }
  // The access is tried again, and ends the program.
  ::sigaction(signal, &before, nullptr);
}

void Protect(Range& range, int protection) {
  const uintptr_t begin = range.begin.load();
  CASTOR_CHECK(mprotect(reinterpret_cast<void*>(begin),
                        range.end.load() - begin, protection) == 0);
}

// The range whose memory ends there; the mutex is held.
Range& EndingAt(uintptr_t end) {
  for (Range& range : All().ranges) {
    if (range.end.load() == end && end != 0) return range;
  }
  CASTOR_CHECK(false);  // Memory comes at its end, and goes there.
}

void ProtectAll(int protection) {
  if (!kMemoryIsGuarded) return;
  for (Range& range : All().ranges) {
    if (range.end.load() != 0) Protect(range, protection);
  }
}

}  // namespace

void* AllocateGuarded(int64_t bytes) {
  void* const memory = ReserveGuarded(bytes);
  MapGuarded(memory, bytes);
  return memory;
}

void* ReserveGuarded(int64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CASTOR_CHECK(memory != MAP_FAILED);
  Guarded& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  static const bool handled = [&] {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return ::sigaction(SIGSEGV, &action, &all.before) == 0;
  }();
  CASTOR_CHECK(handled);
  for (Range& range : all.ranges) {
    if (range.end.load() != 0) continue;
    range.begin.store(reinterpret_cast<uintptr_t>(memory));
    range.end.store(reinterpret_cast<uintptr_t>(memory));
    return memory;
  }
  CASTOR_CHECK(false);  // More fake GPUs than any test has.
  return nullptr;
}

void MapGuarded(void* at, int64_t bytes) {
  Guarded& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Range& range = EndingAt(reinterpret_cast<uintptr_t>(at));
  CASTOR_CHECK(mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0);
  std::memset(at, 0xff, bytes);
  range.end.store(reinterpret_cast<uintptr_t>(at) + bytes);
  if (kMemoryIsGuarded && all.open == 0) Protect(range, PROT_NONE);
}

void UnmapGuarded(void* at, int64_t bytes) {
  Guarded& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Range& range = EndingAt(reinterpret_cast<uintptr_t>(at) + bytes);
  range.end.store(reinterpret_cast<uintptr_t>(at));
  CASTOR_CHECK(madvise(at, bytes, MADV_DONTNEED) == 0);
  CASTOR_CHECK(mprotect(at, bytes, PROT_NONE) == 0);
}

void FreeGuarded(void* memory, int64_t bytes) {
  Guarded& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (Range& range : all.ranges) {
    if (range.begin.load() != reinterpret_cast<uintptr_t>(memory)) continue;
    range.end.store(0);
    range.begin.store(0);
    CASTOR_CHECK(munmap(memory, bytes) == 0);
    return;
  }
  CASTOR_CHECK(false);
}

void OpenMemory::Open() {
  if (open_) return;
  open_ = true;
  Guarded& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (++all.open == 1) ProtectAll(PROT_READ | PROT_WRITE);
}

void OpenMemory::Close() {
  if (!open_) return;
  open_ = false;
  Guarded& all = All();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (--all.open == 0) ProtectAll(PROT_NONE);
}

}  // namespace castor::cuda
