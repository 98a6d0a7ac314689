// How long ranks wait for each other, as a configuration says it.
#ifndef CASTOR_RUN_CONFIG_TIME_LIMITS_H_
#define CASTOR_RUN_CONFIG_TIME_LIMITS_H_

#include <cstdint>

#include "device/comm/communicator.h"
#include "run/config/config.h"

namespace castor {

inline CommunicatorOptions TimeLimitsOf(const NetworkConfig& network) {
  const auto ns = [](double seconds) {
    return static_cast<int64_t>(seconds * 1e9);
  };
  return {.time_limit_ns = ns(network.timeout_seconds),
          .start_limit_ns = ns(network.start_seconds)};
}

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_TIME_LIMITS_H_
