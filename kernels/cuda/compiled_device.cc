#include "kernels/cuda/compiled_device.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "device/gpu_context.h"
#include "kernels/cuda/host_test_device.h"
#include "kernels/ptx/machine.h"
#include "kernels/ptx/memory.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::cuda {
namespace {

// Bytes of shared memory that a block may have without asking for more.
constexpr int64_t kPlainShared = 48 * 1024;

// Kernels by the host's functions that launch them, as the linked programs
// register them before main().
struct Registered {
  std::string name;
  int64_t most_shared = kPlainShared;
};
std::map<const void*, Registered>& RegisteredKernels() {
  static auto* const kernels = new std::map<const void*, Registered>();
  return *kernels;
}

class CompiledDevice : public HostTestDevice {
 public:
  CompiledDevice() {
    Open();
    memory_.Add(&fault(), sizeof(GpuFault));
    const char* const path = std::getenv("CASTOR_PTX");
    std::stringstream text;
    if (path != nullptr) text << std::ifstream(path).rdbuf();
    absl::StatusOr<ptx::Library> library = ptx::Library::Create(text.str());
    if (library.ok()) {
      library_.emplace(*std::move(library));
    } else {
      failure_ = library.status();
    }
  }

  bool interpreted() const override { return true; }

  void* Allocate(int64_t bytes) override {
    void* const p = HostTestDevice::Allocate(bytes);
    memory_.Add(p, bytes);
    return p;
  }
  void Free(void* p) override {
    memory_.Remove(p);
    HostTestDevice::Free(p);
  }

  absl::Status Synchronize() override {
    if (!failure_.ok()) return std::exchange(failure_, absl::OkStatus());
    return HostTestDevice::Synchronize();
  }

  void InEveryOrder(const std::function<void()>& body) override {
    // The machine sees races by itself: two orders suffice.
    for (ptx::Order order : {ptx::Order::kForward, ptx::Order::kBackward}) {
      order_ = order;
      body();
    }
    order_ = ptx::Order::kForward;
  }

  void set_edit(PtxEdit edit) {
    edit_ = std::move(edit);
    programs_.clear();
  }

  std::map<std::string, std::vector<bool>> needed_barriers() {
    std::map<std::string, std::vector<bool>> all;
    for (const auto& [name, needed] : needed_) {
      const absl::StatusOr<ptx::Program> program = library_->Find(name);
      CASTOR_CHECK(program.ok() && program->code.size() == needed.size());
      for (size_t i = 0; i < needed.size(); ++i) {
        if (program->code[i].flow == ptx::Flow::kBarrier) {
          all[name].push_back(needed[i]);
        }
      }
    }
    return all;
  }

  // Returns, as on a GPU, whether the kernel could be queued. Synchronize
  // reports what fails later.
  cudaError_t Launch(const Registered& kernel, dim3 blocks, dim3 threads,
                     void** arguments, size_t shared_bytes) {
    TakeLaunch();
    if (static_cast<int64_t>(shared_bytes) > kernel.most_shared ||
        blocks.y * blocks.z * threads.y * threads.z != 1) {
      return cudaErrorInvalidValue;
    }
    if (!failure_.ok()) return cudaSuccess;
    failure_ = Run(kernel.name,
                   {.blocks = blocks.x,
                    .threads = threads.x,
                    .shared_bytes = static_cast<int64_t>(shared_bytes),
                    .order = order_,
                    .blocks_at_once = order_ == ptx::Order::kForward ? 1 : 3},
                   arguments);
    return cudaSuccess;
  }

 private:
  absl::Status Run(const std::string& name, const ptx::Launch& launch,
                   void** arguments) {
    auto found = programs_.find(name);
    if (found == programs_.end()) {
      absl::StatusOr<ptx::Program> program = library_->Find(name, edit_);
      if (!program.ok()) return program.status();
      found = programs_.emplace(name, *std::move(program)).first;
    }
    const ptx::Program& program = found->second;
    std::vector<uint8_t> parameters(program.parameter_bytes);
    for (size_t i = 0; i < program.parameters.size(); ++i) {
      const auto& [at, bytes] = program.parameters[i];
      std::memcpy(&parameters[at], arguments[i], bytes);
    }
    return ptx::Run(program, launch, parameters, memory_,
                    edit_ == nullptr ? &needed_[name] : nullptr);
  }

  std::optional<ptx::Library> library_;
  std::map<std::string, ptx::Program> programs_;  // those that were launched
  std::map<std::string, ptx::NeededBarriers> needed_;
  PtxEdit edit_;
  ptx::GlobalMemory memory_;
  ptx::Order order_ = ptx::Order::kForward;
  absl::Status failure_;
};

CompiledDevice& Device() {
  static CompiledDevice* const device = new CompiledDevice();
  return *device;
}

// The shape of a launch, between <<<...>>> and its function's call.
struct CallConfiguration {
  dim3 blocks, threads;
  size_t shared_bytes;
  cudaStream_t stream;
};
CallConfiguration& Configuration() {
  static thread_local CallConfiguration configuration;
  return configuration;
}

cudaError_t& LastError() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t LaunchKernel(const void* function, dim3 blocks, dim3 threads,
                         void** arguments, size_t shared_bytes) {
  const auto found = RegisteredKernels().find(function);
  const cudaError_t error =
      found == RegisteredKernels().end()
          ? cudaErrorInvalidDeviceFunction
          : Device().Launch(found->second, blocks, threads, arguments,
                            shared_bytes);
  if (error != cudaSuccess) LastError() = error;
  return error;
}

}  // namespace

TestDevice* TestDevice::Get() { return &Device(); }

void EditCompiledKernels(PtxEdit edit) { Device().set_edit(std::move(edit)); }

std::map<std::string, std::vector<bool>> NeededBarriersOfCompiledKernels() {
  return Device().needed_barriers();
}

}  // namespace castor::kernels::cuda

// CUDA's runtime, as far as programs call it (crt/host_runtime.h declares those
// with underscores to nvcc alone).
extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void**, const char* function, char*,
                            const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  castor::kernels::cuda::RegisteredKernels()[function].name = name;
}

unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads,
                                     size_t shared_bytes, CUstream_st* stream) {
  castor::kernels::cuda::Configuration() = {blocks, threads, shared_bytes,
                                            stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* blocks, dim3* threads,
                                       size_t* shared_bytes, void* stream) {
  const auto& configuration = castor::kernels::cuda::Configuration();
  *blocks = configuration.blocks;
  *threads = configuration.threads;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

// From CUDA 13 on a kernel's handle is asked for before its launch.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads,
                               void** arguments, size_t shared_bytes,
                               cudaStream_t) {
  return castor::kernels::cuda::LaunchKernel(kernel, blocks, threads, arguments,
                                             shared_bytes);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads,
                             void** arguments, size_t shared_bytes,
                             cudaStream_t) {
  return castor::kernels::cuda::LaunchKernel(function, blocks, threads,
                                             arguments, shared_bytes);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute what,
                                 int value) {
  auto& kernels = castor::kernels::cuda::RegisteredKernels();
  const auto found = kernels.find(function);
  if (found == kernels.end()) return cudaErrorInvalidDeviceFunction;
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) {
    return cudaErrorInvalidValue;
  }
  found->second.most_shared = value;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                  const void* function) {
  if (castor::kernels::cuda::RegisteredKernels().count(function) == 0) {
    return cudaErrorInvalidDeviceFunction;
  }
  *attributes = {};
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
// Newer than all that programs are compiled for.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 99;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return std::exchange(castor::kernels::cuda::LastError(), cudaSuccess);
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    default:
      return "an error of CUDA";
  }
}

}  // extern "C"
