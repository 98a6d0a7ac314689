// A few page-locked buffers through which pageable memory is copied, so that
// the GPU's copy engine works on one while the host fills or empties another.
// Several threads do that together, since one copies only some 10 GB/s, less
// than a bus.
//
// Used by one launcher. Copies from the host return when the last piece is
// queued; copies to it return when the last piece has arrived.
#ifndef CASTOR_DEVICE_CUDA_PINNED_RING_H_
#define CASTOR_DEVICE_CUDA_PINNED_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "device/cuda/api.h"

namespace castor::cuda {

class PinnedRing {
 public:
  // Makes a ring. `copiers` fill and empty pieces, and outlive the ring; rings
  // may share them. ResourceExhausted: no page-locked memory.
  static absl::StatusOr<std::unique_ptr<PinnedRing>> Create(
      Api* api, int pieces, int64_t piece_bytes, ThreadPool* copiers);
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  absl::Status FromHost(void* on_device, const void* host, int64_t bytes,
                        Api::Stream stream);
  absl::Status ToHost(void* host, const void* on_device, int64_t bytes,
                      Api::Stream stream);

  // The most entries of the stream's queue (queue_room.h) that a call has on
  // the GPU at once: a copy and an event for each piece.
  int64_t most_queued() const {
    return 2 * static_cast<int64_t>(pieces_.size());
  }

 private:
  struct Piece {
    std::byte* data = nullptr;
    Api::Event used = nullptr;  // after its last copy
    bool in_use = false;        // a copy out of it may be running
  };

  PinnedRing(Api* api, int64_t piece_bytes, ThreadPool* copiers)
      : api_(api), piece_bytes_(piece_bytes), copiers_(copiers) {}
  void CopyOnHost(std::byte* to, const std::byte* from, int64_t bytes);

  Api* const api_;
  const int64_t piece_bytes_;
  ThreadPool* const copiers_;
  std::byte* memory_ = nullptr;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_PINNED_RING_H_
