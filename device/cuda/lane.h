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

// The most items of one stream that are on the GPU at once. An item may be many
// launches, which QueueRoom counts.
inline constexpr int64_t kInFlight = 1024;
// The longest time between two events with nothing between them, on a stream
// that stood idle: what the GPU takes to hear of a launch is in it. (An
// estimate; nobody has measured it yet.)
inline constexpr int64_t kNoiseNs = 10'000;

// An item in flight. Its event is exchanged between the ring and the clock, so
// it is read atomically; both events that a late reader may get are over.
struct Slot {
  std::atomic<Api::Event> event{nullptr};
  bool recorded = false;  // false: the event could not be recorded
  StreamItem::Kind kind = StreamItem::Kind::kWork;
  bool skipped = false;  // the stream had failed: not observed
  int64_t tag = 0;
  int64_t launch_ns = 0;  // start of the launch
  Fence until;            // of a wait
  Work work;
  WorkName name;
};

struct Lane {
  explicit Lane(Api* api) : api(api), slots(kInFlight), room(api), clock(api) {}
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Makes the CUDA stream, unless it is `given`, its events and its ring. All
  // lanes have `shared` and `copiers` (pinned_ring.h) in common.
  absl::Status Open(StreamId id, const GpuContext& shared,
                    std::optional<Api::Stream> given, ThreadPool* copiers,
                    const std::function<int64_t()>& now_ns);

  Slot& slot(int64_t count) { return slots[count % kInFlight]; }

  Api* const api;
  Api::Stream stream = nullptr;
  bool owns_stream = false;
  std::vector<Slot> slots;

  // Used by the launcher.
  QueueRoom room;
  GpuContext context;
  std::shared_ptr<void> library_state;
  std::unique_ptr<PinnedRing> ring;  // null: CUDA copies pageable memory
  int64_t last_wait = 0;             // the count of the last wait

  // Used by the finisher.
  int64_t finished = 0;
  int64_t last_end_ns = 0;
  EventClock clock;

  // One fault for each slot, so that a fault is attributed to the work whose
  // kernel wrote it.
  GpuFault* faults = nullptr;         // host address
  GpuFault* faults_on_gpu = nullptr;  // GPU address
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_LANE_H_
