// TestDevice on the machine's first GPU.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "device/gpu_context.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/test_device.h"

namespace castor::kernels::cuda {
namespace {

// A test has nothing else to do with a driver that fails.
void Must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::abort();
}

class GpuDevice : public TestDevice {
 public:
  GpuDevice() {
    cudaDeviceProp properties;
    Must(cudaGetDeviceProperties(&properties, 0), "properties");
    cudaStream_t stream;
    Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    Must(cudaHostAlloc(reinterpret_cast<void**>(&fault_), sizeof(*fault_),
                       cudaHostAllocMapped),
         "the fault's place");
    *fault_ = GpuFault();
    if (const absl::Status loaded = LoadKernels(); !loaded.ok()) {
      std::fprintf(stderr, "%s\n", std::string(loaded.message()).c_str());
      std::abort();
    }
    gpu_.stream = stream;
    gpu_.kernels = Kernels();
    gpu_.multiprocessors = properties.multiProcessorCount;
    gpu_.compute_capability = 10 * properties.major + properties.minor;
    gpu_.fault = fault_;
    gpu_.library_state = &library_state_;
    context_.gpu = &gpu_;
    std::printf("on %s, compute capability %d.%d\n", properties.name,
                properties.major, properties.minor);
  }

  const ExecContext& context() override { return context_; }
  bool emulated() const override { return false; }

  void* Allocate(int64_t bytes) override {
    void* p = nullptr;
    Must(cudaMalloc(&p, static_cast<size_t>(bytes)), "allocation");
    return p;
  }
  void Free(void* p) override { Must(cudaFree(p), "free"); }
  void ToDevice(void* to, const void* from, int64_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyHostToDevice, "copy to the device");
  }
  void ToHost(void* to, const void* from, int64_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyDeviceToHost, "copy to the host");
  }

  void CopyOnDevice(void* to, const void* from, int64_t bytes) override {
    Must(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                         cudaMemcpyDeviceToDevice,
                         static_cast<cudaStream_t>(gpu_.stream)),
         "copy on the device");
  }

  absl::Status Synchronize() override {
    const cudaError_t error =
        cudaStreamSynchronize(static_cast<cudaStream_t>(gpu_.stream));
    if (error != cudaSuccess) {
      return absl::InternalError(cudaGetErrorString(error));
    }
    if (fault_->code == 0) return absl::OkStatus();
    const absl::Status status = DescribeFault(*fault_);
    *fault_ = GpuFault();
    return status;
  }

  void InEveryOrder(const std::function<void()>& body) override {
    body();
    body();
  }

 private:
  // Copies in the order of the stream, which no other stream waits for: a plain
  // copy of pageable memory may return before the bytes are there.
  void Copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind,
            const char* what) {
    const auto stream = static_cast<cudaStream_t>(gpu_.stream);
    Must(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream),
         what);
    Must(cudaStreamSynchronize(stream), what);
  }

  GpuFault* fault_ = nullptr;
  std::shared_ptr<void> library_state_;
  GpuContext gpu_;
  ExecContext context_;
};

}  // namespace

TestDevice* TestDevice::Get() {
  static TestDevice* const device = []() -> TestDevice* {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) return new GpuDevice();
    std::printf(
        "SKIPPED: there is no GPU here (%s)\n",
        error == cudaSuccess ? "none was found" : cudaGetErrorString(error));
    return nullptr;
  }();
  return device;
}

}  // namespace castor::kernels::cuda
