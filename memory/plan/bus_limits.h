// Bounds of the bus speeds, in each direction, for which plans are made and
// runs emulated. On a slower bus the copy of a model takes years, and its
// duration in nanoseconds overflows.
#ifndef CASTOR_MEMORY_PLAN_BUS_LIMITS_H_
#define CASTOR_MEMORY_PLAN_BUS_LIMITS_H_

namespace castor {

inline constexpr double kLeastBusGbps = 1e-3;
inline constexpr double kMostBusGbps = 1e6;

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BUS_LIMITS_H_
