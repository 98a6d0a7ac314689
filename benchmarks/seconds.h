#ifndef CASTOR_BENCHMARKS_SECONDS_H_
#define CASTOR_BENCHMARKS_SECONDS_H_

#include <chrono>

namespace castor {

// Returns the time of a clock that never goes back.
inline double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_SECONDS_H_
