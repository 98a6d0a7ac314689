// The common part of devices: a queue with a thread for each stream, fences as
// counts of finished items, waits, failures.
//
// A device implements Handle, which its threads call with each item. A device
// that runs its items itself, on the host, ends them by RunOnHost; another (a
// GPU's) hands them on and ends them later by Finish.
//
// An item ends in this order: the observer is told, the work is destroyed (the
// objects it refers to may be gone after the fence), the fence is reached.
#ifndef CASTOR_DEVICE_STREAMED_DEVICE_H_
#define CASTOR_DEVICE_STREAMED_DEVICE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "device/device.h"
#include "device/fence_board.h"
#include "device/worker_stream.h"

namespace castor {

class StreamedDevice : public Device {
 public:
  Fence Enqueue(StreamId stream, int64_t tag, Work work) final;
  Fence Copy(StreamId stream, int64_t tag, void* dst, const void* src,
             int64_t bytes) final;
  Fence Fill(StreamId stream, int64_t tag, void* dst, uint8_t value,
             int64_t bytes) final;
  void Wait(StreamId stream, const Fence& fence, int64_t tag) final;
  Fence Now(StreamId stream) const final;
  bool Reached(const Fence& fence) const final { return over_.Reached(fence); }
  absl::Status Synchronize(const Fence& fence) final;
  int64_t NowNs() const final;
  void SetObserver(DeviceObserver* observer) final {
    observer_.store(observer);
  }

 protected:
  // Carries out one item. The stream's own thread calls it, in the order of
  // queueing; for a stream that HandlesAtOnce, the thread that queues the item
  // does.
  virtual void Handle(StreamId stream, StreamItem& item, int64_t count) = 0;
  virtual bool HandlesAtOnce(StreamId) const { return false; }
  // Returns true if the device needs to know a copy's time of queueing.
  virtual bool WantsQueuedNs(StreamId) const { return false; }

  // Starts the streams' threads. ResourceExhausted: there is no thread for one
  // of them; the device may then only be destroyed.
  absl::Status StartStreams();
  // Returns when all queued items were handled; every destructor of a device
  // calls it first.
  void StopStreams();

  // Runs an item on the calling thread, and ends it. `run` runs items that are
  // no waits. Returns true if a wait took time.
  bool RunOnHost(StreamId stream, StreamItem& item, int64_t count,
                 absl::FunctionRef<absl::Status(StreamItem&)> run);
  // Ends an item; called in order, by one thread for each stream.
  void Finish(StreamId stream, int64_t count) { over_.Advance(stream, count); }

  // Fails a stream, which keeps its first failure.
  void Fail(StreamId stream, absl::Status why);
  bool failed(StreamId stream) const {
    return failures_[static_cast<int>(stream)].failed.load(
        std::memory_order_acquire);
  }
  DeviceObserver* observer() const { return observer_.load(); }
  FenceBoard& over() { return over_; }

 private:
  struct Failure {
    std::atomic<bool> failed{false};
    std::mutex mutex;
    absl::Status why;
  };

  std::atomic<DeviceObserver*> observer_{nullptr};
  FenceBoard over_;
  std::array<Failure, kNumStreams> failures_;
  std::array<WorkerStream, kNumStreams> streams_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_STREAMED_DEVICE_H_
