// Page-locks host memory for a device's copy engines.
#ifndef CASTOR_DEVICE_HOST_PINNER_H_
#define CASTOR_DEVICE_HOST_PINNER_H_

#include <cstdint>

#include "absl/status/status.h"

namespace castor {

// Threads: any.
class HostPinner {
 public:
  virtual ~HostPinner() = default;

  // Locks `data`, which is page-aligned and was not touched yet: its pages are
  // taken here, near the device if the machine has a choice, and stay. After an
  // error the memory is as it was.
  virtual absl::Status PinHost(void* data, int64_t bytes) = 0;
  // Unlocks `data`. Call it after all copies of the memory, before it is freed.
  virtual void UnpinHost(void* data) = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_HOST_PINNER_H_
