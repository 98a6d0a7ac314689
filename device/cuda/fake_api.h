// A GPU made of threads, for tests of the CUDA device where there is no GPU.
//
// Each stream is a thread that runs copies, fills and launches in order, at its
// own pace: a copy that is not ordered by an event runs too early or too late
// here too. Device memory is host memory that host code cannot read while no
// stream works (guarded_memory.h). Calls that CUDA leaves undefined (a copy
// whose ranges overlap, or outside of device and host memory) end the program.
#ifndef CASTOR_DEVICE_CUDA_FAKE_API_H_
#define CASTOR_DEVICE_CUDA_FAKE_API_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "device/cuda/api.h"

namespace castor::cuda {

struct FakeApiOptions {
  int devices = 1;
  int compute_capability = 80;  // as 10 * major + minor
  int64_t memory_bytes = int64_t{1} << 30;
  int64_t pinned_bytes = int64_t{1} << 30;  // that can be locked
  // The GPU's clock runs this much faster than the host's.
  double clock_drift = 0;
  // The longest delay of one piece of work in 16, chosen at random.
  int64_t jitter_ns = 0;
  // The number of entries (queue_room.h) that the driver takes of a stream. A
  // thread that queues one more blocks inside the driver, and with it every
  // other thread that calls the driver, until the stream has run one. 0: any
  // number.
  int64_t queue_limit = 0;
  // Pieces of virtual memory are multiples of it; 0: the GPU has none.
  int64_t mapping_granularity = 4096;
};

class FakeApi final : public Api {
 public:
  explicit FakeApi(const FakeApiOptions& options = {});
  ~FakeApi() override;

  // Queues `kernel` on a stream, as a launch does.
  static void Launch(Stream stream, std::function<void()> kernel);
  // The most entries that a stream's queue has held, the running one included.
  int64_t most_queued() const { return most_queued_.load(); }
  // True if a thread has blocked inside the driver.
  bool stood_still() const { return stood_still_.load(); }
  // Makes every call from now on fail as after an illegal address; queued work
  // never ends.
  void Break() { broken_.store(true); }

  // Frees all device memory, as the end of a process does.
  void FreeAll();

  // Counts, by which tests see that all objects are freed.
  int64_t live_objects() const { return live_.load(); }
  int64_t events_made() const { return events_made_.load(); }
  int64_t copied_bytes() const { return copied_bytes_.load(); }
  int64_t moves() const { return moves_.load(); }
  // The finished ranges of the profiler, with their counts.
  std::map<std::string, int64_t> ranges() const;

  absl::StatusOr<int> CountDevices() override;
  absl::StatusOr<GpuProperties> Properties(int device) override;
  absl::Status UseDevice(int device) override;
  absl::Status MemoryInfo(int64_t* free_bytes, int64_t* total_bytes) override;
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* memory) override;
  absl::StatusOr<int64_t> MappingGranularity(int device) override;
  absl::StatusOr<void*> ReserveAddresses(int64_t bytes) override;
  void FreeAddresses(void* at, int64_t bytes) override;
  absl::Status MapMemory(int device, void* at, int64_t bytes) override;
  void UnmapMemory(void* at, int64_t bytes) override;
  absl::StatusOr<void*> AllocatePinned(int64_t bytes, void** on_gpu) override;
  void FreePinned(void* memory) override;
  absl::Status RegisterHost(void* memory, int64_t bytes) override;
  void UnregisterHost(void* memory) override;
  absl::StatusOr<Stream> CreateStream(bool urgent) override;
  void DestroyStream(Stream stream) override;
  absl::StatusOr<Event> CreateEvent() override;
  void DestroyEvent(Event event) override;
  absl::Status Record(Event event, Stream stream) override;
  absl::Status Query(Event event, bool* over) override;
  absl::Status Synchronize(Event event) override;
  absl::Status WaitFor(Stream stream, Event event) override;
  absl::Status ElapsedMs(Event start, Event end, float* ms) override;
  void BeginRange(const char* name) override;
  void EndRange() override;
  absl::Status Copy(void* dst, const void* src, int64_t bytes,
                    Stream stream) override;
  absl::Status Move(void* dst, const void* src, int64_t bytes,
                    Stream stream) override;
  absl::Status Fill(void* dst, uint8_t value, int64_t bytes,
                    Stream stream) override;

 private:
  struct FakeStream;
  struct FakeEvent;

  absl::Status Health() const;
  // Returns a lock that a call holds while it is in the driver, if queues are
  // limited.
  std::unique_lock<std::mutex> InDriver();

  const FakeApiOptions options_;
  std::atomic<bool> broken_{false};
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> events_made_{0};
  std::atomic<int64_t> copied_bytes_{0};
  std::atomic<int64_t> moves_{0};
  std::atomic<int64_t> most_queued_{0};
  std::atomic<bool> stood_still_{false};
  std::mutex driver_mutex_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, int64_t> ranges_;
  std::map<void*, int64_t> allocations_;
  std::map<void*, int64_t> mapped_;  // pieces
  std::map<void*, int64_t> pinned_;
  int64_t used_bytes_ = 0;
  int64_t pinned_bytes_ = 0;
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_FAKE_API_H_
