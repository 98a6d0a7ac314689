// Waiting a moment for another thread, before going to sleep.
//
// Waking a sleeping thread costs a system call and several microseconds on both
// sides; an operator of a small model takes no longer. So a thread that has run
// out of work polls for a short while.
//
// It does not yield in between: if others want the processor, a yield gives
// away a whole time slice (milliseconds), while a sleeper runs at once when it
// is woken. With two busy loops beside it on two processors, a wait across
// streams took about 120 us with 20 us of yields and 25 us with 5 us of polling
// (//benchmarks:device_bench; single runs, a shared machine).
#ifndef CASTOR_BASE_SPIN_WAIT_H_
#define CASTOR_BASE_SPIN_WAIT_H_

#include <chrono>
#include <cstdint>

namespace castor {

// The time to poll before sleeping: about the cost of a sleep and a wake-up, so
// that polling in vain at most doubles it.
inline constexpr int64_t kSpinNs = 5'000;

inline void CpuPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Calls `reached` until it returns true or about `spin_ns` have passed. Returns
// its last result. `reached` should be a few atomic loads (acquire).
template <typename Predicate>
bool SpinUntil(Predicate&& reached, int64_t spin_ns = kSpinNs) {
  if (reached()) return true;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(spin_ns);
  do {
    for (int i = 0; i < 8; ++i) {
      CpuPause();
      if (reached()) return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace castor

#endif  // CASTOR_BASE_SPIN_WAIT_H_
