// The host emulating a device: a separate block of memory with a hard end,
// streams that are real threads, copies that are real copies, and a bus whose
// speed may be limited. Overlap, ordering and budgets are as real here as on a
// GPU.
//
// Streams. Each stream is one worker thread that takes its queue in order.
// kCompute and kHostCompute have a thread pool each (ExecContext::pool); the
// pools of the copy streams and of kNetwork have one thread.
//
// Bus. Each direction has a speed of its own (full duplex). A copy on
// kHostToDevice or kDeviceToHost that finds its direction idle lasts at least
// bytes / bus_bytes_per_s; n of them in a row at least the sum. It is done in
// pieces, each of which sleeps until it is due. Due times are absolute: a copy
// that was queued while the one before it ran counts from that one's due time
// (by at most 2 ms back), so that late wake-ups do not add up and a row of
// copies runs at the bus's speed, not below it.
//
// Cost: queueing a piece of work, running it and reaching its fence takes a few
// microseconds in all when the worker is awake (see //benchmarks:device_bench).
#ifndef CASTOR_DEVICE_HOST_HOST_DEVICE_H_
#define CASTOR_DEVICE_HOST_HOST_DEVICE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "device/device.h"

namespace castor {

struct HostDeviceOptions {
  // The block's size; 0 is allowed. Not kUnlimitedBytes: what is unlimited for
  // a user has to be turned into a size first.
  int64_t memory_bytes = 0;
  int compute_threads = 1;
  int host_compute_threads = 1;
  double bus_bytes_per_s = 0;  // per direction; 0: no limit
};

class HostDevice final : public Device {
 public:
  // InvalidArgument: a negative or unlimited size, a thread count below 1, a
  // bus speed that is negative or not finite. ResourceExhausted: the system has
  // no room for the block in the address space (pages are taken from it only as
  // they are touched).
  static absl::StatusOr<std::unique_ptr<HostDevice>> Create(
      const HostDeviceOptions& options);

  // Waits for all queued work.
  ~HostDevice() override;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  absl::string_view name() const override { return "host"; }
  std::byte* memory() override { return memory_; }
  int64_t memory_bytes() const override { return options_.memory_bytes; }

  Fence Enqueue(StreamId stream, int64_t tag, Work work) override;
  Fence Copy(StreamId stream, int64_t tag, void* dst, const void* src,
             int64_t bytes) override;
  void Wait(StreamId stream, const Fence& fence, int64_t tag) override;
  Fence Now(StreamId stream) const override;
  bool Reached(const Fence& fence) const override;
  absl::Status Synchronize(const Fence& fence) override;
  int64_t NowNs() const override;
  void SetObserver(DeviceObserver* observer) override {
    observer_.store(observer);
  }

 private:
  struct Item;
  struct Stream;

  HostDevice(const HostDeviceOptions& options, std::byte* memory,
             int64_t mapped_bytes);

  Fence Push(StreamId id, Item item);
  void WorkerLoop(StreamId id);
  absl::Status RunItem(StreamId id, const Item& item);
  void CopyOverBus(Stream& stream, const Item& item);
  // Blocks until the fence is reached; false if it was from the start.
  bool BlockUntilReached(const Fence& fence);

  const HostDeviceOptions options_;
  std::byte* const memory_;
  const int64_t mapped_bytes_;
  std::atomic<DeviceObserver*> observer_{nullptr};
  std::array<std::unique_ptr<Stream>, kNumStreams> streams_;

  // Threads that sleep until a fence is reached. Each is woken once, when it
  // is: a wake-up per piece of work would take the processors from the work
  // itself.
  struct Sleeper {
    const Fence* fence;
    std::condition_variable reached;
  };
  // With sleepers_mutex_ held: next_wanted_ from sleepers_, and wakes those whose
  // fence is reached. Both at once: a count that is found reached here is no
  // longer wanted, so the worker that reached it may wake nobody.
  void WakeReached();
  std::mutex sleepers_mutex_;
  std::vector<Sleeper*> sleepers_;
  // By stream: the least count that a sleeper waits for and that was not there
  // when it was last looked at.
  std::array<std::atomic<int64_t>, kNumStreams> next_wanted_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_HOST_HOST_DEVICE_H_
