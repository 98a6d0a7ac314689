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
// pieces, after each of which the thread sleeps until the piece's scheduled
// end. These times are absolute: a copy that was queued while the one before it
// ran starts at that one's scheduled end (at most 2 ms back), so that late
// wake-ups do not add up and a row of copies runs at the bus's speed, not below
// it.
//
// Memory. Pages are the system's until they are touched. Behind the memory's
// end, up to the end of the addresses that are kept for it, all pages are
// closed: a write past the end (beyond its last page) is a fault, not a quiet
// success.
//
// Cost: queueing a piece of work, running it and reaching its fence takes a few
// microseconds in all when the worker is awake (see //benchmarks:device_bench).
#ifndef CASTOR_DEVICE_HOST_HOST_DEVICE_H_
#define CASTOR_DEVICE_HOST_HOST_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "device/host/emulated_card.h"
#include "device/streamed_device.h"

namespace castor {

struct HostDeviceOptions {
  // The block's size; 0 is allowed, kUnlimitedBytes is not: an unlimited budget
  // must be turned into a size first.
  int64_t memory_bytes = 0;
  // The most bytes that it may be resized to. Addresses are kept free for them,
  // as far as the process may have so many. Less than memory_bytes counts as
  // memory_bytes.
  int64_t most_memory_bytes = 0;
  int compute_threads = 1;
  int host_compute_threads = 1;
  double bus_bytes_per_s = 0;  // per direction; 0: no limit
  // The card whose memory the block is of (emulated_card.h). 0 bytes: its
  // memory is not known, and the system's is the limit.
  struct Card {
    int64_t bytes = 0;
    std::string folder = {};
  };
  Card card = {};
};

class HostDevice final : public StreamedDevice {
 public:
  // InvalidArgument: a negative or unlimited size, a thread count below 1, a
  // bus speed that is negative or not finite. ResourceExhausted: the system has
  // no room for the block in the address space (pages are taken from it only as
  // they are touched), or gives too few threads, or the card has no room.
  static absl::StatusOr<std::unique_ptr<HostDevice>> Create(
      const HostDeviceOptions& options);

  // Waits for all queued work.
  ~HostDevice() override;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  absl::string_view name() const override { return "host"; }
  std::byte* memory() override { return memory_; }
  int64_t memory_bytes() const override { return memory_bytes_; }
  absl::Status Resize(int64_t bytes) override;
  absl::StatusOr<DeviceRoom> Room() override;

 private:
  // The state of a stream's thread between its items.
  struct Worker {
    explicit Worker(int threads) : pool(threads) {}
    ThreadPool pool;
    int64_t bus_due_ns = 0;  // scheduled end of the last copy
  };

  HostDevice(const HostDeviceOptions& options, std::byte* memory,
             int64_t mapped_bytes)
      : options_(options), memory_(memory), mapped_bytes_(mapped_bytes) {}
  absl::Status ResizeBlock(int64_t bytes);
  // Opens the pages of the first `bytes`, from the end of what is open on.
  absl::Status OpenPages(int64_t bytes);
  absl::Status StartWorkers();

  void Handle(StreamId stream, StreamItem& item, int64_t count) override;
  bool WantsQueuedNs(StreamId stream) const override;
  absl::Status RunItem(StreamId stream, Worker& worker, StreamItem& item);
  void CopyOverBus(Worker& worker, const StreamItem& item);

  const HostDeviceOptions options_;
  std::byte* const memory_;
  std::unique_ptr<EmulatedCard> card_;  // null: not known
  const int64_t mapped_bytes_;  // of addresses; the last page stays closed
  int64_t open_bytes_ = 0;      // whole pages that may be touched
  int64_t memory_bytes_ = 0;
  std::array<std::unique_ptr<Worker>, kNumStreams> workers_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_HOST_HOST_DEVICE_H_
