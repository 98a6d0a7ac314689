// The contract of Device (device.h) as a test suite, which each implementation
// instantiates with a DeviceFactory.
#ifndef CASTOR_DEVICE_TESTING_DEVICE_CONTRACT_H_
#define CASTOR_DEVICE_TESTING_DEVICE_CONTRACT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "device/device.h"

namespace castor {

inline constexpr int64_t kContractMemoryBytes = (int64_t{8} << 20) + 3;

struct DeviceFactory {
  std::string name;
  // Makes a device of `memory_bytes` whose bus moves at most `bus_bytes_per_s`
  // in each direction (0: as fast as it can). Returns null, with the reason in
  // the test's output, if there is no such device here; the tests are then
  // skipped.
  std::function<std::unique_ptr<Device>(int64_t memory_bytes,
                                        double bus_bytes_per_s)>
      create;
  bool limits_bus = true;  // if it can slow its bus down
};

class DeviceContract : public testing::TestWithParam<DeviceFactory> {
 protected:
  void SetUp() override {
    device_ = GetParam().create(kContractMemoryBytes, 0);
    if (device_ == nullptr && !HasFailure()) {
      GTEST_SKIP() << "there is no " << GetParam().name << " device here";
    }
    ASSERT_NE(device_, nullptr);
  }
  std::unique_ptr<Device> device_;
};

inline std::string DeviceContractName(
    const testing::TestParamInfo<DeviceFactory>& info) {
  return info.param.name;
}

}  // namespace castor

#endif  // CASTOR_DEVICE_TESTING_DEVICE_CONTRACT_H_
