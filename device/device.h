// A device: one block of device memory, streams, copies, fences.
//
// The code above this interface does not know if the device is a GPU or the
// host emulating one. One contract suite (device_contract_test) runs against
// every implementation.
//
// Invariants:
//  1. The device's memory is one block of exactly memory_bytes(), at an address
//     that stays; all that an operator reads or writes on the device lies in
//     it.
//  2. Work on one stream runs in the order of queueing, and its effects are
//     visible to work that waited on its fence.
//  3. A stream keeps its first failure: later work on it is skipped (fences are
//     still reached, so nobody hangs) and every Synchronize returns the error.
//
// Threads: one thread queues work (the trainer's), and only it may call
// Synchronize and Reached. Work runs on threads of the device.
#ifndef CASTOR_DEVICE_DEVICE_H_
#define CASTOR_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/thread_pool.h"
#include "device/fence.h"
#include "device/host_pinner.h"

namespace castor {

struct GpuContext;  // device/gpu_context.h

// Passed to a piece of work when its stream reaches it. On the host, `pool` has
// the stream's own threads. On a GPU's stream the work queues kernels through
// `gpu`, which is null everywhere else.
struct ExecContext {
  ThreadPool* pool = nullptr;
  const GpuContext* gpu = nullptr;
};

// A piece of work. Must not block on other work. An error stops its stream.
using Work = absl::AnyInvocable<absl::Status(const ExecContext&)>;

// Is told, by the stream's own thread, of the end of every piece of work and of
// every wait that took time. `tag` is the caller's own number for it; `count`
// is its number on the stream, by which fences name it. A wait lasted until the
// last part of `until` was reached.
class DeviceObserver {
 public:
  virtual ~DeviceObserver() = default;
  virtual void OnWork(StreamId stream, int64_t count, int64_t tag,
                      int64_t start_ns, int64_t end_ns) = 0;
  virtual void OnWait(StreamId stream, int64_t count, int64_t tag,
                      const Fence& until, int64_t start_ns, int64_t end_ns) = 0;
};

// The memory of the card that a device is on.
struct DeviceRoom {
  int64_t free_bytes = 0;  // that nobody has taken
  int64_t total_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual absl::string_view name() const = 0;

  // The device's memory. Alignment of the base: 4096 bytes.
  virtual std::byte* memory() = 0;
  virtual int64_t memory_bytes() const = 0;

  // Makes the memory `bytes` long: its end moves. Memory behind a nearer end
  // goes back to the system, with what was in it; a farther end takes more.
  // Call it while no work is queued. ResourceExhausted: the system has no room,
  // or no address for it; nothing has changed then. Unimplemented: this device
  // has the memory that it was opened with.
  virtual absl::Status Resize(int64_t bytes) = 0;

  // Looks at the card's memory, of which others take, too: what is free may be
  // gone at the next call. FailedPrecondition: nobody has said what an emulated
  // card has.
  virtual absl::StatusOr<DeviceRoom> Room() = 0;

  // Queues `work` on `stream` and returns at once. The fence is reached when
  // the work is over. `tag` goes to the observer.
  virtual Fence Enqueue(StreamId stream, int64_t tag, Work work) = 0;

  // Queues a copy of `bytes` on `stream` and returns at once; the fence is
  // reached when the copy is over. Copies on kHostToDevice and kDeviceToHost
  // cross the bus and take its time. Copies on kCompute stay on the device
  // (source and destination may overlap), or are of few bytes that must not
  // queue behind payloads: an operator's input from the host, which may be read
  // from the time of queueing on, or a result to the host.
  virtual Fence Copy(StreamId stream, int64_t tag, void* dst, const void* src,
                     int64_t bytes) = 0;

  // Queues setting `bytes` bytes of the device's memory (of the host's on
  // kHostCompute) to `value`, and returns at once.
  virtual Fence Fill(StreamId stream, int64_t tag, void* dst, uint8_t value,
                     int64_t bytes) = 0;

  // Makes work queued on `stream` from now on start after `fence` is reached.
  // Returns at once. The observer is told the time spent waiting under `tag`.
  virtual void Wait(StreamId stream, const Fence& fence, int64_t tag) = 0;

  // Returns the fence of everything queued so far on `stream`.
  virtual Fence Now(StreamId stream) const = 0;

  // Returns true if `fence` is reached. Does not block.
  virtual bool Reached(const Fence& fence) const = 0;

  // Blocks until `fence` is reached. Returns the first failure of any stream
  // that the fence names.
  virtual absl::Status Synchronize(const Fence& fence) = 0;

  // Page-locks host memory for this device's copies; null if the system's own
  // lock is enough.
  virtual HostPinner* host_pinner() { return nullptr; }

  // Returns the time of the monotonic clock on which the observer's times lie.
  virtual int64_t NowNs() const = 0;

  // Sets the observer, which is not owned; null: none. Call it while no work is
  // queued.
  virtual void SetObserver(DeviceObserver* observer) = 0;

  Fence NowAll() const {
    Fence all;
    for (int i = 0; i < kNumStreams; ++i) {
      all.Add(Now(static_cast<StreamId>(i)));
    }
    return all;
  }
};

}  // namespace castor

#endif  // CASTOR_DEVICE_DEVICE_H_
