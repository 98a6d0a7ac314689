// TestDevice on the host: the programs, run thread after thread.
#include <cstring>
#include <new>

#include "base/check.h"
#include "device/gpu_context.h"
#include "kernels/cuda/emulated_block.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/test_device.h"

namespace castor::kernels::cuda {
namespace {

constexpr std::align_val_t kAlignment{256};

class EmulatedDevice : public TestDevice {
 public:
  EmulatedDevice() {
#if defined(__x86_64__)
    // The programs are compiled for these (third_party/precompiled/cc.bzl).
    CASTOR_CHECK(__builtin_cpu_supports("avx2") &&
                 __builtin_cpu_supports("fma"));
#endif
    gpu_.kernels = Kernels();
    gpu_.multiprocessors = 4;
    gpu_.compute_capability = 80;
    gpu_.fault = &fault_;
    gpu_.library_state = &library_state_;
    CASTOR_CHECK(LoadKernels().ok());
    gpu_.before_launches = &before_launches_;
    context_.gpu = &gpu_;
    // Every launch must have been told of: else a driver's queue may fill up.
    CurrentEmulatedQueue() = [this](void*, std::function<void()> work) {
      CASTOR_CHECK(told_ > 0);
      --told_;
      work();
    };
  }

  const ExecContext& context() override { return context_; }
  bool emulated() const override { return true; }

  void* Allocate(int64_t bytes) override {
    return ::operator new(bytes, kAlignment);
  }
  void Free(void* p) override { ::operator delete(p, kAlignment); }
  void ToDevice(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void ToHost(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }

  void CopyOnDevice(void* to, const void* from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
  }

  absl::Status Synchronize() override {
    if (fault_.code == 0) return absl::OkStatus();
    const absl::Status status = DescribeFault(fault_);
    fault_ = GpuFault();
    return status;
  }

  void InEveryOrder(const std::function<void()>& body) override {
    for (EmulatedOrder order :
         {EmulatedOrder::kForward, EmulatedOrder::kBackward,
          EmulatedOrder::kInterleaved}) {
      CurrentEmulatedOrder() = order;
      body();
    }
    CurrentEmulatedOrder() = EmulatedOrder::kForward;
  }

 private:
  // Launches that were told of and may still come.
  int64_t told_ = 0;
  const std::function<void(int64_t)> count_ = [this](int64_t count) {
    told_ = count;
  };
  const absl::FunctionRef<void(int64_t)> before_launches_ = count_;
  GpuFault fault_;
  std::shared_ptr<void> library_state_;
  GpuContext gpu_;
  ExecContext context_;
};

}  // namespace

TestDevice* TestDevice::Get() {
  static EmulatedDevice* const device = new EmulatedDevice();
  return device;
}

}  // namespace castor::kernels::cuda
