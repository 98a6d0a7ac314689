#include "device/cuda/runtime_api.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define CASTOR_NVTX 1
#endif

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "device/cuda/overlapping_move.h"

namespace castor::cuda {
namespace {

cudaStream_t Of(Api::Stream stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t Ev(Api::Event event) { return static_cast<cudaEvent_t>(event); }

// The one mapper of CUDA's errors. `call` is the function's name.
absl::Status Map(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  // An error of a call that was refused is kept by CUDA for the next look too.
  (void)cudaGetLastError();
  const std::string text = absl::StrCat(call, ": ", cudaGetErrorString(error),
                                        " (", static_cast<int>(error), ")");
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(text);
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorSystemNotReady:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
      return absl::FailedPreconditionError(text);
    default:
      return absl::InternalError(text);
  }
}

absl::Status Map(CUresult error, const char* call) {
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  const std::string text =
      absl::StrCat(call, ": CUDA driver error ", static_cast<int>(error));
  return error == CUDA_ERROR_OUT_OF_MEMORY ? absl::ResourceExhaustedError(text)
                                           : absl::InternalError(text);
}

// The driver's functions for virtual memory, which CUDA's runtime lacks. They
// are looked up in the driver's library, which programs are not linked to.
struct VirtualMemory {
  VirtualMemory() {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    Find("cuMemGetAllocationGranularity", get_granularity);
    Find("cuMemAddressReserve", reserve);
    Find("cuMemAddressFree", free_addresses);
    Find("cuMemCreate", create);
    Find("cuMemRelease", release);
    Find("cuMemMap", map);
    Find("cuMemSetAccess", set_access);
    Find("cuMemUnmap", unmap);
  }
  bool found() const { return library != nullptr && !lacks; }

  template <class Function>
  void Find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    lacks |= function == nullptr;
  }

  void* library = nullptr;
  bool lacks = false;
  decltype(cuMemGetAllocationGranularity)* get_granularity = nullptr;
  decltype(cuMemAddressReserve)* reserve = nullptr;
  decltype(cuMemAddressFree)* free_addresses = nullptr;
  decltype(cuMemCreate)* create = nullptr;
  decltype(cuMemRelease)* release = nullptr;
  decltype(cuMemMap)* map = nullptr;
  decltype(cuMemSetAccess)* set_access = nullptr;
  decltype(cuMemUnmap)* unmap = nullptr;
};

CUmemAllocationProp PropertiesOf(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {};
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

#define CASTOR_CUDA(call, ...) Map(call(__VA_ARGS__), #call)

std::string Version(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

class Runtime final : public Api {
 public:
  absl::StatusOr<int> CountDevices() override {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("no GPU: NVIDIA's driver is not installed here; this "
                       "program needs one for CUDA ",
                       Version(runtime), " or later"));
    }
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver) {
      return absl::FailedPreconditionError(
          absl::StrCat("no GPU: the driver is for CUDA ", Version(driver),
                       ", this program needs one for ", Version(runtime)));
    }
    if (error != cudaSuccess || count == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "no GPU: ", error == cudaSuccess ? "there is no CUDA device"
                                           : cudaGetErrorString(error)));
    }
    return count;
  }

  absl::StatusOr<GpuProperties> Properties(int device) override {
    cudaDeviceProp p;
    if (absl::Status status = CASTOR_CUDA(cudaGetDeviceProperties, &p, device);
        !status.ok()) {
      return status;
    }
    char bus_id[32] = "";
    int driver = 0, runtime = 0;
    (void)cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), device);
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    return GpuProperties{
        .name = p.name,
        .pci_bus_id = bus_id,
        .uuid = absl::BytesToHexString(absl::string_view(p.uuid.bytes, 16)),
        .memory_bytes = static_cast<int64_t>(p.totalGlobalMem),
        .multiprocessors = p.multiProcessorCount,
        .compute_capability = 10 * p.major + p.minor,
        .driver_version = Version(driver),
        .runtime_version = Version(runtime)};
  }

  absl::Status UseDevice(int device) override {
    return CASTOR_CUDA(cudaSetDevice, device);
  }

  absl::Status MemoryInfo(int64_t* free_bytes, int64_t* total_bytes) override {
    size_t free = 0, total = 0;
    const absl::Status status = CASTOR_CUDA(cudaMemGetInfo, &free, &total);
    *free_bytes = static_cast<int64_t>(free);
    *total_bytes = static_cast<int64_t>(total);
    return status;
  }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    void* memory = nullptr;
    const absl::Status status =
        Map(cudaMalloc(&memory, static_cast<size_t>(bytes)), "cudaMalloc");
    if (!status.ok()) return status;
    return memory;
  }
  void Free(void* memory) override { (void)cudaFree(memory); }

  absl::StatusOr<int64_t> MappingGranularity(int device) override {
    if (!driver_.found()) {
      return absl::UnimplementedError(
          "NVIDIA's driver here has no virtual memory");
    }
    const CUmemAllocationProp properties = PropertiesOf(device);
    size_t bytes = 0;
    const CUresult error = driver_.get_granularity(
        &bytes, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (error != CUDA_SUCCESS) {
      return absl::UnimplementedError(absl::StrCat(
          "this GPU has no virtual memory (", static_cast<int>(error), ")"));
    }
    return static_cast<int64_t>(bytes);
  }
  absl::StatusOr<void*> ReserveAddresses(int64_t bytes) override {
    CUdeviceptr at = 0;
    const absl::Status status =
        Map(driver_.reserve(&at, static_cast<size_t>(bytes), 0, 0, 0),
            "cuMemAddressReserve");
    if (!status.ok()) return status;
    return reinterpret_cast<void*>(at);
  }
  void FreeAddresses(void* at, int64_t bytes) override {
    (void)driver_.free_addresses(reinterpret_cast<CUdeviceptr>(at),
                                 static_cast<size_t>(bytes));
  }
  absl::Status MapMemory(int device, void* at, int64_t bytes) override {
    const CUmemAllocationProp properties = PropertiesOf(device);
    const auto address = reinterpret_cast<CUdeviceptr>(at);
    const auto size = static_cast<size_t>(bytes);
    CUmemGenericAllocationHandle piece = 0;
    absl::Status status =
        Map(driver_.create(&piece, size, &properties, 0), "cuMemCreate");
    if (!status.ok()) return status;
    status = Map(driver_.map(address, size, 0, piece, 0), "cuMemMap");
    // The mapping holds it from now on.
    (void)driver_.release(piece);
    if (!status.ok()) return status;
    const CUmemAccessDesc access = {
        .location = properties.location,
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    status =
        Map(driver_.set_access(address, size, &access, 1), "cuMemSetAccess");
    if (!status.ok()) UnmapMemory(at, bytes);
    return status;
  }
  void UnmapMemory(void* at, int64_t bytes) override {
    (void)driver_.unmap(reinterpret_cast<CUdeviceptr>(at),
                        static_cast<size_t>(bytes));
  }

  absl::StatusOr<void*> AllocatePinned(int64_t bytes, void** on_gpu) override {
    void* memory = nullptr;
    absl::Status status =
        CASTOR_CUDA(cudaHostAlloc, &memory, static_cast<size_t>(bytes),
                    cudaHostAllocMapped | cudaHostAllocPortable);
    if (!status.ok()) return status;
    if (on_gpu != nullptr) {
      status = CASTOR_CUDA(cudaHostGetDevicePointer, on_gpu, memory, 0);
      if (!status.ok()) {
        (void)cudaFreeHost(memory);
        return status;
      }
    }
    return memory;
  }
  void FreePinned(void* memory) override { (void)cudaFreeHost(memory); }

  absl::Status RegisterHost(void* memory, int64_t bytes) override {
    return CASTOR_CUDA(cudaHostRegister, memory, static_cast<size_t>(bytes),
                       cudaHostRegisterPortable);
  }
  void UnregisterHost(void* memory) override {
    (void)cudaHostUnregister(memory);
  }

  absl::StatusOr<Stream> CreateStream(bool urgent) override {
    int least = 0, greatest = 0;
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaStream_t stream = nullptr;
    const absl::Status status =
        CASTOR_CUDA(cudaStreamCreateWithPriority, &stream,
                    cudaStreamNonBlocking, urgent ? greatest : least);
    if (!status.ok()) return status;
    return stream;
  }
  void DestroyStream(Stream stream) override {
    (void)cudaStreamSynchronize(Of(stream));
    (void)cudaStreamDestroy(Of(stream));
  }

  absl::StatusOr<Event> CreateEvent() override {
    cudaEvent_t event = nullptr;
    const absl::Status status =
        CASTOR_CUDA(cudaEventCreateWithFlags, &event, cudaEventDefault);
    if (!status.ok()) return status;
    return event;
  }
  void DestroyEvent(Event event) override { (void)cudaEventDestroy(Ev(event)); }

  absl::Status Record(Event event, Stream stream) override {
    return CASTOR_CUDA(cudaEventRecord, Ev(event), Of(stream));
  }
  absl::Status Query(Event event, bool* over) override {
    const cudaError_t error = cudaEventQuery(Ev(event));
    *over = error == cudaSuccess;
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();  // no error to us, and nobody else's either
      return absl::OkStatus();
    }
    return Map(error, "cudaEventQuery");
  }
  absl::Status Synchronize(Event event) override {
    return CASTOR_CUDA(cudaEventSynchronize, Ev(event));
  }
  absl::Status WaitFor(Stream stream, Event event) override {
    return CASTOR_CUDA(cudaStreamWaitEvent, Of(stream), Ev(event), 0);
  }
  absl::Status ElapsedMs(Event start, Event end, float* ms) override {
    return CASTOR_CUDA(cudaEventElapsedTime, ms, Ev(start), Ev(end));
  }

#ifdef CASTOR_NVTX
  void BeginRange(const char* name) override { nvtxRangePushA(name); }
  void EndRange() override { nvtxRangePop(); }
#endif

  absl::Status LoadMove() override {
    return Map(static_cast<cudaError_t>(LoadMoveOverlapping()), "LoadMove");
  }
  absl::Status Copy(void* dst, const void* src, int64_t bytes,
                    Stream stream) override {
    return CASTOR_CUDA(cudaMemcpyAsync, dst, src, static_cast<size_t>(bytes),
                       cudaMemcpyDefault, Of(stream));
  }
  absl::Status Move(void* dst, const void* src, int64_t bytes,
                    Stream stream) override {
    return Map(
        static_cast<cudaError_t>(MoveOverlapping(dst, src, bytes, stream)),
        "MoveOverlapping");
  }
  absl::Status Fill(void* dst, uint8_t value, int64_t bytes,
                    Stream stream) override {
    return CASTOR_CUDA(cudaMemsetAsync, dst, value, static_cast<size_t>(bytes),
                       Of(stream));
  }

 private:
  const VirtualMemory driver_;
};

}  // namespace

absl::StatusOr<Api*> RuntimeApi() {
  static Runtime* const runtime = new Runtime();
  return runtime;
}

}  // namespace castor::cuda
