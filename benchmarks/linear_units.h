// The units of a step's linear program (linear_bound.h), MiB and ms, so that
// its coefficients are of a size that solvers take well.
#ifndef CASTOR_BENCHMARKS_LINEAR_UNITS_H_
#define CASTOR_BENCHMARKS_LINEAR_UNITS_H_

#include <cstdint>

#include "memory/plan/plan.h"

namespace castor {

inline constexpr double kMib = 1 << 20;

inline double Mib(int64_t bytes) { return static_cast<double>(bytes) / kMib; }
inline double Ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Returns how long one copy or exchange takes, in ms.
inline double TransferMs(const BusModel& bus, int64_t bytes,
                         double bytes_per_s) {
  return Ms(bus.latency_ns) + 1e3 * static_cast<double>(bytes) / bytes_per_s;
}

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_LINEAR_UNITS_H_
