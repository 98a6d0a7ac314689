// The host device keeps the contract of all devices.
#include "device/testing/device_contract.h"

#include <gtest/gtest.h>

#include "device/host/host_device.h"

namespace castor {
namespace {

std::unique_ptr<Device> CreateHostDevice(int64_t memory_bytes,
                                         double bus_bytes_per_s) {
  HostDeviceOptions options;
  options.memory_bytes = memory_bytes;
  options.compute_threads = 2;
  options.host_compute_threads = 2;
  options.bus_bytes_per_s = bus_bytes_per_s;
  auto device = HostDevice::Create(options);
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *std::move(device) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract,
                         testing::Values(DeviceFactory{"host",
                                                       CreateHostDevice}),
                         DeviceContractName);

}  // namespace
}  // namespace castor
