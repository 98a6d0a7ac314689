#include "device/cuda/pinned_ring.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "base/units.h"

namespace castor::cuda {
namespace {

// A thread's share of a piece: some 25 us, long beside a pool's microsecond.
constexpr int64_t kShareBytes = int64_t{256} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<PinnedRing>> PinnedRing::Create(
    Api* api, int pieces, int64_t piece_bytes, ThreadPool* copiers) {
  std::unique_ptr<PinnedRing> ring(new PinnedRing(api, piece_bytes, copiers));
  CASTOR_ASSIGN_OR_RETURN(void* const memory,
                          api->AllocatePinned(pieces * piece_bytes, nullptr));
  ring->memory_ = static_cast<std::byte*>(memory);
  ring->pieces_.resize(pieces);
  for (int i = 0; i < pieces; ++i) {
    ring->pieces_[i].data = ring->memory_ + i * piece_bytes;
    CASTOR_ASSIGN_OR_RETURN(ring->pieces_[i].used, api->CreateEvent());
  }
  return ring;
}

PinnedRing::~PinnedRing() {
  for (const Piece& piece : pieces_) {
    if (piece.used == nullptr) continue;
    // After an error there may be nothing to wait for.
    if (piece.in_use) (void)api_->Synchronize(piece.used);
    api_->DestroyEvent(piece.used);
  }
  if (memory_ != nullptr) api_->FreePinned(memory_);
}

void PinnedRing::CopyOnHost(std::byte* to, const std::byte* from,
                            int64_t bytes) {
  // A copy by one thread need not wait for a loop of another ring.
  if (bytes <= kShareBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  copiers_->ParallelFor(CeilDiv(bytes, kShareBytes), [&](int64_t task, int) {
    const int64_t begin = task * kShareBytes;
    std::memcpy(to + begin, from + begin, std::min(kShareBytes, bytes - begin));
  });
}

absl::Status PinnedRing::FromHost(void* on_device, const void* host,
                                  int64_t bytes, Api::Stream stream) {
  std::byte* const to = static_cast<std::byte*>(on_device);
  const std::byte* const from = static_cast<const std::byte*>(host);
  for (int64_t done = 0; done < bytes; done += piece_bytes_) {
    Piece& piece = pieces_[next_++ % pieces_.size()];
    if (piece.in_use) CASTOR_RETURN_IF_ERROR(api_->Synchronize(piece.used));
    const int64_t size = std::min(piece_bytes_, bytes - done);
    CopyOnHost(piece.data, from + done, size);
    CASTOR_RETURN_IF_ERROR(api_->Copy(to + done, piece.data, size, stream));
    CASTOR_RETURN_IF_ERROR(api_->Record(piece.used, stream));
    piece.in_use = true;
  }
  return absl::OkStatus();
}

absl::Status PinnedRing::ToHost(void* host, const void* on_device,
                                int64_t bytes, Api::Stream stream) {
  std::byte* const to = static_cast<std::byte*>(host);
  const std::byte* const from = static_cast<const std::byte*>(on_device);
  const int64_t in_flight_bytes =
      static_cast<int64_t>(pieces_.size()) * piece_bytes_;
  // Piece i of this copy lies in pieces_[i % n]: queued n ahead of being
  // emptied. An earlier copy through a piece has to be over, or is on this
  // stream.
  int64_t queued = 0;
  for (int64_t done = 0; done < bytes; done += piece_bytes_) {
    for (; queued < std::min(bytes, done + in_flight_bytes);
         queued += piece_bytes_) {
      Piece& piece = pieces_[queued / piece_bytes_ % pieces_.size()];
      if (piece.in_use) CASTOR_RETURN_IF_ERROR(api_->Synchronize(piece.used));
      CASTOR_RETURN_IF_ERROR(api_->Copy(piece.data, from + queued,
                                        std::min(piece_bytes_, bytes - queued),
                                        stream));
      CASTOR_RETURN_IF_ERROR(api_->Record(piece.used, stream));
      piece.in_use = true;
    }
    Piece& piece = pieces_[done / piece_bytes_ % pieces_.size()];
    CASTOR_RETURN_IF_ERROR(api_->Synchronize(piece.used));
    piece.in_use = false;
    CopyOnHost(to + done, piece.data, std::min(piece_bytes_, bytes - done));
  }
  return absl::OkStatus();
}

}  // namespace castor::cuda
