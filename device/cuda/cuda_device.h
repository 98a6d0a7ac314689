// A GPU as a Device.
//
// Streams. kHostCompute is a thread with a pool, as on the host device. Each of
// the other four is a CUDA stream and a *launcher*: the thread that takes the
// stream's queue in order and queues its items on the CUDA stream. A launcher
// waits only where it must: for work of the host that its stream depends on,
// for room (kInFlight items are on the GPU, or as many launches as a driver
// takes without blocking: queue_room.h), for the end of a copy to pageable
// memory, and for the source of one from it. So the trainer's thread only pays
// for a push per item and runs ahead, and launches of different streams run
// concurrently.
//
//            trainer ──push──▶ queue ──▶ launcher ──launch──▶ CUDA stream
//                                          │ one event after each item
//                                          ▼
//   fence reached ◀── finisher ◀── ring of items in flight
//
// Another framework's stream. Where the operators are another framework's
// kernels (PyTorch's), kCompute is the CUDA stream on which it queues them, and
// has no launcher: the calling thread queues an item before the call returns.
// So the order of calls on that thread, the framework's included, is the order
// on the GPU. An item behind such kernels is over only when they are.
//
// Counts. An item is *issued* when its launcher has queued it and its event on
// the CUDA stream, and *over* when that event was seen reached. Fences count
// items that are over; a second board counts issued items.
//
// Waits. Fence f on CUDA stream s, where t is another stream that f names:
//   t is a CUDA stream  s's launcher waits until the item is issued (it is
//                       queued already, so this is short, but where t's
//                       launcher waits for room), then has the CUDA stream
//                       wait for the item's event: the GPU orders it.
//   t is kHostCompute   s's launcher waits until the item is over. What s has
//                       issued goes on meanwhile; what follows depends on it.
//   s is kHostCompute   its thread waits until the item is over.
// A wait only names items that were queued before it, so launchers cannot wait
// for each other in a circle.
//
// The end of items. One thread, the finisher, polls the oldest event of each
// stream (cudaEventQuery; after a poll in vain it sleeps 5 to 50 us) and ends
// items in order: observer, destruction of the work, fence. It also reads the
// item's GpuFault. A work's closure is kept until then, so memory that it owns
// outlives the kernels that read it.
//
// Times. There is one event per item, its end. An item starts when the one
// before it has ended, or when its launch began, whichever is later: too early
// by a launch's latency (a few us) where the GPU stood idle. Event times become
// times of the host's clock by an anchor for each stream, an event whose host
// time is known, renewed every second; no item may end before it was launched
// or after it was seen to be over, and the anchor is corrected by violations of
// this, so that the clocks cannot drift apart. A wait shorter than kNoiseNs is
// not reported.
//
// Failures. The error of a work or of a launch, or a kernel's fault, fails the
// stream, as on every device. An error that the GPU shows later (an illegal
// address) spoils the context: it fails all streams, with the name of the item
// at which it was first seen, and every item ends at once, so that no thread
// hangs.
//
// Copies. Pinned memory (PinHost) is copied by the GPU's copy engines. Pageable
// memory goes through a small pinned ring of the stream (PinnedRing), filled
// and emptied by as many threads as the host computes with, four at most. A
// move on the device whose source and destination overlap is cut into copies as
// long as their distance, or done by a kernel if those would be too many.
//
// Cost: no allocation per item except the queue's (the ring has a slot and an
// event for each); a push, a launch and one event record per operator. See
// //benchmarks:gpu_bench.
#ifndef CASTOR_DEVICE_CUDA_CUDA_DEVICE_H_
#define CASTOR_DEVICE_CUDA_CUDA_DEVICE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "device/cuda/api.h"
#include "device/cuda/lane.h"
#include "device/cuda/mapped_memory.h"
#include "device/streamed_device.h"

namespace castor {

struct CudaDeviceOptions {
  int ordinal = 0;           // among the GPUs that are visible
  int64_t memory_bytes = 0;  // the arena's exact size
  int host_compute_threads = 1;
  // Another framework's CUDA stream to use as the compute stream, which
  // outlives the device (null is CUDA's default stream); nullopt: the device
  // makes one.
  std::optional<cuda::Api::Stream> compute_stream = std::nullopt;
  // The kernels that works get as context.gpu->kernels; outlives the device.
  const kernels::KernelTable* kernels = nullptr;
  // KernelTable::load; null: there is nothing to load.
  absl::Status (*load_kernels)() = nullptr;
  // KernelTable::describe_fault; null: messages have a fault's number.
  absl::Status (*describe_fault)(const GpuFault&) = nullptr;
};

class CudaDevice final : public StreamedDevice, private HostPinner {
 public:
  // `api` outlives the device. InvalidArgument: sizes and counts that cannot
  // be, an ordinal that is not there. FailedPrecondition: no GPU.
  // ResourceExhausted: the GPU has no room for the arena, names wanted and
  // free; or the system gives too few threads.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(
      cuda::Api* api, const CudaDeviceOptions& options);

  // Waits for all queued work.
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  absl::string_view name() const override { return "cuda"; }
  std::byte* memory() override { return memory_; }
  int64_t memory_bytes() const override { return memory_bytes_; }
  absl::Status Resize(int64_t bytes) override;
  absl::StatusOr<DeviceRoom> Room() override;

  HostPinner* host_pinner() override { return this; }

  const cuda::GpuProperties& properties() const { return properties_; }

 private:
  struct PinnedRange {
    const std::byte* begin;
    const std::byte* end;
  };

  CudaDevice(cuda::Api* api, const CudaDeviceOptions& options)
      : api_(api), options_(options) {}
  absl::Status Open();
  absl::Status OpenMemory();

  // Binds to the GPU's NUMA node, then registers with CUDA.
  absl::Status PinHost(void* data, int64_t bytes) override;
  void UnpinHost(void* data) override;

  void Handle(StreamId stream, StreamItem& item, int64_t count) override;
  bool HandlesAtOnce(StreamId stream) const override {
    return stream == StreamId::kCompute && options_.compute_stream.has_value();
  }
  absl::Status Launch(StreamId stream, cuda::Lane& lane, StreamItem& item,
                      int64_t count);
  absl::Status CopyItem(StreamId stream, cuda::Lane& lane,
                        const StreamItem& item);
  absl::Status MoveOnDevice(cuda::Lane& lane, const StreamItem& item);
  // Makes the lane wait for all of `fence`.
  absl::Status WaitForAll(cuda::Lane& lane, const Fence& fence);
  void FinisherLoop();
  // Ends the finished items of one stream. Returns true if there were any.
  bool FinishOver(StreamId stream);
  void EndItem(StreamId stream, cuda::Slot& slot, int64_t count,
               const absl::Status& event);
  // Fails every stream of the GPU with `why`, after an error from which CUDA
  // does not recover.
  void Spoil(const absl::Status& why);
  bool OnDevice(const void* data) const;
  bool IsPinned(const void* data, int64_t bytes) const;

  cuda::Api* const api_;
  const CudaDeviceOptions options_;
  cuda::GpuProperties properties_;
  // The block: with virtual memory, or else as one allocation.
  std::unique_ptr<cuda::MappedMemory> mapped_;
  void* allocation_ = nullptr;
  std::byte* memory_ = nullptr;
  int64_t memory_bytes_ = 0;
  ThreadPool launch_pool_{1};  // of works on the GPU's streams: no threads
  std::unique_ptr<ThreadPool> host_compute_pool_;
  std::unique_ptr<ThreadPool> copiers_;  // of the lanes' rings
  std::array<std::unique_ptr<cuda::Lane>, kNumStreams> lanes_;
  FenceBoard issued_;

  mutable std::mutex pinned_mutex_;
  std::vector<PinnedRange> pinned_;

  std::atomic<bool> spoilt_{false};
  std::atomic<bool> finisher_sleeps_{false};
  std::mutex finisher_mutex_;
  std::condition_variable finisher_news_;
  bool stop_ = false;  // guarded by finisher_mutex_
  std::thread finisher_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_CUDA_CUDA_DEVICE_H_
