// One CUDA stream of a device with the items that are in flight on it.
//
// Threads: the launcher fills slots and issues them, the finisher ends them,
// other launchers read the events of issued slots.
#ifndef CASTOR_DEVICE_CUDA_LANE_H_
#define CASTOR_DEVICE_CUDA_LANE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "device/cuda/api.h"
#include "device/cuda/event_clock.h"
#include "device/cuda/pinned_ring.h"
#include "device/cuda/queue_room.h"
#include "device/device.h"
#include "device/gpu_context.h"
#include "device/worker_stream.h"

namespace castor::cuda {

// Items of one stream that may be on the GPU at once, at most: an item may be
// many launches, which QueueRoom counts.
inline constexpr int64_t kInFlight = 1024;
// Events lie this far apart where nothing happens between them, or less.
inline constexpr int64_t kNoiseNs = 2'000;

// An item in flight. Its event changes hands between the ring and the clock, so
// it is read atomically; whichever a late reader gets is over.
struct Slot {
  std::atomic<Api::Event> event{nullptr};
  bool recorded = false;  // false: the event could not be recorded
  StreamItem::Kind kind = StreamItem::Kind::kWork;
  bool skipped = false;  // the stream had failed: nobody is told of it
  int64_t tag = 0;
  int64_t launch_ns = 0;  // when the launcher came to it
  Fence until;            // of a wait
  Work work;
  WorkName name;
};

struct Lane {
  explicit Lane(Api* api) : api(api), slots(kInFlight), room(api), clock(api) {}
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Makes the CUDA stream, unless it is `given`, its events and its ring.
  // `context` and `copiers` (pinned_ring.h) are what all lanes share.
  absl::Status Open(StreamId id, const GpuContext& shared,
                    std::optional<Api::Stream> given, ThreadPool* copiers,
                    const std::function<int64_t()>& now_ns);

  Slot& slot(int64_t count) { return slots[count % kInFlight]; }

  Api* const api;
  Api::Stream stream = nullptr;
  bool owns_stream = false;
  std::vector<Slot> slots;

  // The launcher's.
  QueueRoom room;
  GpuContext context;
  std::shared_ptr<void> library_state;
  std::unique_ptr<PinnedRing> ring;  // null: pageable memory is CUDA's matter
  int64_t last_wait = 0;             // the count of the last wait

  // The finisher's.
  int64_t finished = 0;
  int64_t last_end_ns = 0;
  EventClock clock;

  // Each slot has a fault of its own, so that a fault is told of the work whose
  // kernel wrote it.
  GpuFault* faults = nullptr;         // as the host sees them
  GpuFault* faults_on_gpu = nullptr;  // as the GPU does
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_LANE_H_
