// How fast a device's bus is.
#ifndef CASTOR_CLI_MACHINE_BANDWIDTH_H_
#define CASTOR_CLI_MACHINE_BANDWIDTH_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "device/device.h"

namespace castor::cli {

struct BusBandwidth {
  double to_device_bytes_per_s = 0;
  double from_device_bytes_per_s = 0;
  double both_bytes_per_s = 0;  // the two directions' sum, at once
  // to_device_bytes_per_s and so on, as the members are named.
  nlohmann::json ToJson() const;
  // Returns "8.0 GB/s to the device, 8.0 GB/s from it, 16.0 GB/s in both ..."
  std::string ToString() const;
};

// Times copies of `copy_bytes` between `host` and the device, both of which
// have twice as much. Returns the best of several, after one that is not
// counted.
absl::StatusOr<BusBandwidth> MeasureBandwidth(Device& device, std::byte* host,
                                              int64_t copy_bytes);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_BANDWIDTH_H_
