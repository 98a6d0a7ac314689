// The common part of the test devices that run programs on the host: their
// memory is the host's, and each launch must have been announced.
#ifndef CASTOR_KERNELS_CUDA_HOST_TEST_DEVICE_H_
#define CASTOR_KERNELS_CUDA_HOST_TEST_DEVICE_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/check.h"
#include "device/gpu_context.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/test_device.h"

namespace castor::kernels::cuda {

class HostTestDevice : public TestDevice {
 public:
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

 protected:
  HostTestDevice() {
    gpu_.kernels = Kernels();
    gpu_.multiprocessors = 4;
    gpu_.compute_capability = 80;
    gpu_.fault = &fault_;
    gpu_.library_state = &library_state_;
    context_.gpu = &gpu_;
  }

  // Loads the programs. Launches may come from then on.
  void Open() {
    CASTOR_CHECK(LoadKernels().ok());
    gpu_.before_launches = &before_launches_;
  }
  // Counts a launch, which must have been announced, or else a driver's queue
  // may fill up.
  void TakeLaunch() {
    CASTOR_CHECK(told_ > 0);
    --told_;
  }
  GpuFault& fault() { return fault_; }

 private:
  static constexpr std::align_val_t kAlignment{256};

  // Launches that were announced and may still come.
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

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_HOST_TEST_DEVICE_H_
