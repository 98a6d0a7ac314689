// The calls of CUDA's runtime that the device makes, behind an interface, so
// that the device is compiled, and tested over a fake, where there is no CUDA.
//
// RuntimeApi() (runtime_api.h) calls CUDA; FakeApi (fake_api.h) has threads for
// streams and the host's memory for the GPU's.
//
// Errors: every call goes through one mapper (runtime_api.cc): Internal, with
// the call and CUDA's own words; ResourceExhausted where memory ran out.
// Threads: all from any, after UseDevice on that thread.
#ifndef CASTOR_DEVICE_CUDA_API_H_
#define CASTOR_DEVICE_CUDA_API_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace castor::cuda {

struct GpuProperties {
  std::string name;
  std::string pci_bus_id;  // 0000:01:00.0
  std::string uuid;        // unique among all GPUs
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
  int compute_capability = 0;   // 10 * major + minor
  std::string driver_version;   // the CUDA that the driver supports: 13.0
  std::string runtime_version;  // CUDA's runtime in this program
};

class Api {
 public:
  using Stream = void*;
  using Event = void*;

  virtual ~Api() = default;

  // Returns the number of GPUs. FailedPrecondition: no GPU can be used; one
  // line says why (no driver, too old a driver, no device).
  virtual absl::StatusOr<int> CountDevices() = 0;
  virtual absl::StatusOr<GpuProperties> Properties(int device) = 0;
  // Chooses the GPU of the calling thread's later calls.
  virtual absl::Status UseDevice(int device) = 0;

  virtual absl::Status MemoryInfo(int64_t* free_bytes,
                                  int64_t* total_bytes) = 0;
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;

  // Virtual memory: addresses, and memory of a GPU that is put behind them in
  // pieces. Sizes and addresses are multiples of the granularity, in bytes.
  // Unimplemented: this GPU, or its driver, has none.
  virtual absl::StatusOr<int64_t> MappingGranularity(int device) = 0;
  virtual absl::StatusOr<void*> ReserveAddresses(int64_t bytes) = 0;
  virtual void FreeAddresses(void* at, int64_t bytes) = 0;
  // Puts a piece of new memory there. UnmapMemory takes away pieces that
  // MapMemory made, as they were made; nothing uses them any more.
  virtual absl::Status MapMemory(int device, void* at, int64_t bytes) = 0;
  virtual void UnmapMemory(void* at, int64_t bytes) = 0;

  // Allocates page-locked host memory; `on_gpu` is its address in kernels.
  virtual absl::StatusOr<void*> AllocatePinned(int64_t bytes,
                                               void** on_gpu) = 0;
  virtual void FreePinned(void* memory) = 0;
  virtual absl::Status RegisterHost(void* memory, int64_t bytes) = 0;
  virtual void UnregisterHost(void* memory) = 0;

  // `urgent`: scheduled before others where the GPU has the choice.
  virtual absl::StatusOr<Stream> CreateStream(bool urgent) = 0;
  virtual void DestroyStream(Stream stream) = 0;  // waits for its work
  virtual absl::StatusOr<Event> CreateEvent() = 0;
  virtual void DestroyEvent(Event event) = 0;

  virtual absl::Status Record(Event event, Stream stream) = 0;
  // Sets `over` to true if all work queued before the event's last record is
  // over. Does not block.
  virtual absl::Status Query(Event event, bool* over) = 0;
  virtual absl::Status Synchronize(Event event) = 0;
  // Makes work queued on `stream` from now on start after the event's last
  // record so far.
  virtual absl::Status WaitFor(Stream stream, Event event) = 0;
  // Sets `ms` to the time from `start` to `end`, both over, with 24 bits.
  virtual absl::Status ElapsedMs(Event start, Event end, float* ms) = 0;

  // Begin a range on a profiler's time line (NVTX) of the calling thread, and
  // end the latest one: calls in between belong to it. They cost next to
  // nothing without a profiler, and may have no effect.
  virtual void BeginRange(const char* /*name*/) {}
  virtual void EndRange() {}

  // Loads the code of Move's kernels.
  virtual absl::Status LoadMove() { return absl::OkStatus(); }

  // Queues a copy; source and destination do not overlap. Host memory may be
  // pageable: then the call may take as long as the copy.
  virtual absl::Status Copy(void* dst, const void* src, int64_t bytes,
                            Stream stream) = 0;
  // Queues a copy within the device; source and destination may overlap.
  virtual absl::Status Move(void* dst, const void* src, int64_t bytes,
                            Stream stream) = 0;
  virtual absl::Status Fill(void* dst, uint8_t value, int64_t bytes,
                            Stream stream) = 0;
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_API_H_
