#include "kernels/cuda/test_device.h"

#include <cstdint>

namespace castor::kernels::cuda {

OnDevice::~OnDevice() {
  for (void* block : blocks_) TestDevice::Get()->Free(block);
}

void* OnDevice::CopyBytes(const void* from, int64_t bytes) {
  TestDevice* device = TestDevice::Get();
  blocks_.push_back(device->Allocate(bytes + 1));
  if (bytes > 0) device->ToDevice(blocks_.back(), from, bytes);
  return blocks_.back();
}

void* OnDevice::Copy(const GuardedBuffer& x) {
  TestDevice* device = TestDevice::Get();
  // The distance from a multiple of 64 bytes stays.
  const int64_t shift =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.all()) % 64);
  blocks_.push_back(device->Allocate(x.all_bytes() + 64));
  char* all = static_cast<char*>(blocks_.back()) + shift;
  device->ToDevice(all, x.all(), x.all_bytes());
  return all + Before(x);
}

absl::Status OnDevice::Finish() {
  TestDevice* device = TestDevice::Get();
  const absl::Status status = device->Synchronize();
  for (const Output& output : outputs_) {
    device->ToHost(output.host->all(), output.device, output.host->all_bytes());
  }
  return status;
}

}  // namespace castor::kernels::cuda
