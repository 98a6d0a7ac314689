#include "device/cuda/lane.h"

#include <memory>

#include "base/status_macros.h"

namespace castor::cuda {
namespace {

// A piece is long enough to reach the bus's speed, and the ring long enough for
// the host to fill one while the GPU copies another.
constexpr int kPieces = 4;
constexpr int64_t kPieceBytes = int64_t{1} << 20;
// Other streams copy a few bytes of input now and then.
constexpr int64_t kSmallPieceBytes = int64_t{64} << 10;

}  // namespace

absl::Status Lane::Open(StreamId id, const GpuContext& shared,
                        std::optional<Api::Stream> given, ThreadPool* copiers,
                        const std::function<int64_t()>& now_ns) {
  if (given.has_value()) {
    stream = *given;
  } else {
    // Copies are short, and work that waits for them is not: they go first.
    CASTOR_ASSIGN_OR_RETURN(
        stream, api->CreateStream(/*urgent=*/id != StreamId::kCompute));
    owns_stream = true;
  }
  for (Slot& slot : slots) {
    CASTOR_ASSIGN_OR_RETURN(Api::Event event, api->CreateEvent());
    slot.event.store(event, std::memory_order_relaxed);
  }
  void* on_gpu = nullptr;
  CASTOR_ASSIGN_OR_RETURN(
      void* const memory,
      api->AllocatePinned(kInFlight * sizeof(GpuFault), &on_gpu));
  faults = static_cast<GpuFault*>(memory);
  std::uninitialized_fill_n(faults, kInFlight, GpuFault());
  faults_on_gpu = static_cast<GpuFault*>(on_gpu);
  const bool crosses =
      id == StreamId::kHostToDevice || id == StreamId::kDeviceToHost;
  auto made = PinnedRing::Create(
      api, kPieces, crosses ? kPieceBytes : kSmallPieceBytes, copiers);
  if (made.ok()) ring = *std::move(made);
  CASTOR_RETURN_IF_ERROR(room.Open(stream));
  context = shared;
  context.stream = stream;
  context.library_state = &library_state;
  return clock.Calibrate(stream, now_ns);
}

Lane::~Lane() {
  library_state.reset();
  ring.reset();
  if (owns_stream) api->DestroyStream(stream);
  for (Slot& slot : slots) {
    const Api::Event event = slot.event.load(std::memory_order_relaxed);
    if (event != nullptr) api->DestroyEvent(event);
  }
  if (faults != nullptr) api->FreePinned(faults);
}

}  // namespace castor::cuda
