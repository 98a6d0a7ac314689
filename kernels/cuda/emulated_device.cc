// TestDevice on the host: the programs, run thread after thread.
#include <cstdint>
#include <functional>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/emulated_block.h"
#include "kernels/cuda/emulated_schedule.h"
#include "kernels/cuda/host_test_device.h"

namespace castor::kernels::cuda {
namespace {

class EmulatedDevice : public HostTestDevice {
 public:
  EmulatedDevice() {
#if defined(__x86_64__)
    // The programs are compiled for these (third_party/precompiled/cc.bzl).
    CASTOR_CHECK(__builtin_cpu_supports("avx2") &&
                 __builtin_cpu_supports("fma"));
#endif
    Open();
    CurrentEmulatedQueue() = [this](void*, std::function<void()> work) {
      TakeLaunch();
      work();
    };
  }

  void InEveryOrder(const std::function<void()>& body) override {
    uint64_t seed = 0;
    for (EmulatedOrder order :
         {EmulatedOrder::kForward, EmulatedOrder::kBackward,
          EmulatedOrder::kInterleaved}) {
      CurrentEmulatedOrder() = order;
      // Blocks that wait for each other run by one, by two, by five.
      CurrentEmulatedRoom() = {
          order == EmulatedOrder::kForward
              ? 1
              : (order == EmulatedOrder::kBackward ? 2 : 5),
          ++seed};
      body();
    }
    CurrentEmulatedOrder() = EmulatedOrder::kForward;
    CurrentEmulatedRoom() = EmulatedRoom();
  }
};

}  // namespace

TestDevice* TestDevice::Get() {
  static EmulatedDevice* const device = new EmulatedDevice();
  return device;
}

}  // namespace castor::kernels::cuda
