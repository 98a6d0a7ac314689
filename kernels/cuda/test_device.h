// The device on which tests and benchmarks run a GPU's operators, and operands
// there. It has three implementations, one of which is linked into each test:
// emulated_device.cc runs programs on the host (block.h), compiled_device.cc
// what nvcc made of them (kernels/ptx), gpu_device.cc on a GPU.
#ifndef CASTOR_KERNELS_CUDA_TEST_DEVICE_H_
#define CASTOR_KERNELS_CUDA_TEST_DEVICE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "device/device.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels::cuda {

class TestDevice {
 public:
  // Returns the process's one device; null if there is none.
  static TestDevice* Get();

  virtual ~TestDevice() = default;

  virtual const ExecContext& context() = 0;
  // True if programs are emulated, which is slow: only for small sizes.
  virtual bool emulated() const = 0;
  // True if compiled programs are interpreted, which is slower still: only for
  // a share of the cases.
  virtual bool interpreted() const { return false; }

  // Allocates memory aligned to 256 bytes.
  virtual void* Allocate(int64_t bytes) = 0;
  virtual void Free(void* p) = 0;
  virtual void ToDevice(void* to, const void* from, int64_t bytes) = 0;
  virtual void ToHost(void* to, const void* from, int64_t bytes) = 0;
  // Queues a copy by the driver on the stream, and returns before it is over.
  virtual void CopyOnDevice(void* to, const void* from, int64_t bytes) = 0;

  // Waits for all work. Returns a fault (device/gpu_context.h) once.
  virtual absl::Status Synchronize() = 0;

  // Runs `body` in several orders of threads where programs are emulated, and
  // twice on a GPU: its results must not differ.
  virtual void InEveryOrder(const std::function<void()>& body) = 0;
};

// Copies on the device of one call's operands, with their guards and their
// alignment. Finish brings the outputs back.
class OnDevice {
 public:
  OnDevice() = default;
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  const ExecContext& context() const { return TestDevice::Get()->context(); }

  const void* In(const GuardedBuffer& x) { return Copy(x); }
  const float* InFloats(const GuardedBuffer& x) {
    return static_cast<const float*>(Copy(x));
  }
  template <class T>
  T* In(const std::vector<T>& x) {
    return static_cast<T*>(CopyBytes(x.data(), x.size() * sizeof(T)));
  }
  // Copies an output, which Finish copies back; `x` must outlive this.
  void* Out(GuardedBuffer& x) {
    outputs_.push_back({&x, static_cast<char*>(Copy(x)) - Before(x)});
    return static_cast<char*>(outputs_.back().device) + Before(x);
  }
  float* OutFloats(GuardedBuffer& x) { return static_cast<float*>(Out(x)); }
  // Copies plain bytes, aligned to 256.
  void* CopyBytes(const void* from, int64_t bytes);

  absl::Status Finish();

 private:
  struct Output {
    GuardedBuffer* host;
    void* device;
  };

  static int64_t Before(const GuardedBuffer& x) {
    return static_cast<const char*>(x.data()) -
           static_cast<const char*>(x.all());
  }
  void* Copy(const GuardedBuffer& x);

  std::vector<void*> blocks_;
  std::vector<Output> outputs_;
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_TEST_DEVICE_H_
