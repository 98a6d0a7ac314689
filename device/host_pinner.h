// Page-locks host memory as a device's copy engines want it.
#ifndef CASTOR_DEVICE_HOST_PINNER_H_
#define CASTOR_DEVICE_HOST_PINNER_H_

#include <cstdint>

#include "absl/status/status.h"

namespace castor {

// Threads: any.
class HostPinner {
 public:
  virtual ~HostPinner() = default;

  // `data` is page-aligned and was not touched yet: its pages are taken here,
  // near the device where the machine has a choice, and stay. Any other status
  // than OK says why not, and leaves the memory as it was.
  virtual absl::Status PinHost(void* data, int64_t bytes) = 0;
  // Call it before the memory goes away, and after all copies of it.
  virtual void UnpinHost(void* data) = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_HOST_PINNER_H_
