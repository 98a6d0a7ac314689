#ifndef CASTOR_DEVICE_GATE_H_
#define CASTOR_DEVICE_GATE_H_

#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "device/device.h"

namespace castor {

// A gate holds a stream until it is opened. For tests only.
class Gate {
 public:
  void Open() { open_.store(true); }
  Work Hold() {
    return [this](const ExecContext&) {
      while (!open_.load()) std::this_thread::yield();
      return absl::OkStatus();
    };
  }

 private:
  std::atomic<bool> open_{false};
};

}  // namespace castor

#endif  // CASTOR_DEVICE_GATE_H_
