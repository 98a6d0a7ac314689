// Plans are made, and runs emulated, for buses of these speeds, each way. At
// less than the least, a copy of a model takes years, and its nanoseconds are
// more than can be counted.
#ifndef CASTOR_MEMORY_PLAN_BUS_LIMITS_H_
#define CASTOR_MEMORY_PLAN_BUS_LIMITS_H_

namespace castor {

inline constexpr double kLeastBusGbps = 1e-3;
inline constexpr double kMostBusGbps = 1e6;

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BUS_LIMITS_H_
