// Waiting a moment for another thread, before going to sleep.
//
// Waking a sleeping thread costs a system call and several microseconds on
// both sides; an operator of a small model takes no longer. So a thread that
// has run out of work looks again for a short while. It yields its processor in
// between: where every processor has something to run, spinning takes nothing
// from anybody.
#ifndef CASTOR_BASE_SPIN_WAIT_H_
#define CASTOR_BASE_SPIN_WAIT_H_

#include <sched.h>

#include <chrono>
#include <cstdint>

namespace castor {

// How long to look before sleeping: about what a sleep and a wake-up cost
// (measured by //benchmarks:device_bench), so that looking in vain at most
// doubles the price.
inline constexpr int64_t kSpinNs = 20'000;

// Calls `reached` until it is true or about `spin_ns` have passed. Returns
// whether it was true. `reached` should be a few atomic loads (acquire).
template <typename Predicate>
bool SpinUntil(Predicate&& reached, int64_t spin_ns = kSpinNs) {
  if (reached()) return true;
  // On another processor the answer is often a cache miss away.
  for (int i = 0; i < 16; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (reached()) return true;
  }
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::nanoseconds(spin_ns);
  do {
    sched_yield();
    if (reached()) return true;
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace castor

#endif  // CASTOR_BASE_SPIN_WAIT_H_
