// A block of a GPU's memory whose end moves: addresses that are kept free, and
// memory of the GPU behind them in pieces. (CUDA's virtual memory management.)
//
//   | piece | piece | piece |..  kept addresses without memory  ..|
//   begin()                 mapped end                      kept end
//
// A piece cannot be cut, so a nearer end gives back the pieces that lie wholly
// behind it: up to kPieceBytes behind the end stay the block's.
//
// Threads: one. Lifetime: the Api outlives it.
#ifndef CASTOR_DEVICE_CUDA_MAPPED_MEMORY_H_
#define CASTOR_DEVICE_CUDA_MAPPED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/cuda/api.h"

namespace castor::cuda {

class MappedMemory {
 public:
  // Larger pieces are mapped in less time: some 100 us take as long for a piece
  // of any size.
  static constexpr int64_t kPieceBytes = int64_t{16} << 20;

  // A block of `bytes` that may grow to `most_bytes`, on the calling thread's
  // GPU. Unimplemented: this GPU has no such memory. ResourceExhausted: it has
  // no room.
  static absl::StatusOr<std::unique_ptr<MappedMemory>> Create(
      Api* api, int ordinal, int64_t bytes, int64_t most_bytes);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* begin() const { return begin_; }
  // Whatever lies below both ends stays. Nobody may use what lies behind the
  // new one. ResourceExhausted: the GPU has no room, or no addresses are kept;
  // nothing has changed then.
  absl::Status Resize(int64_t bytes);

 private:
  MappedMemory(Api* api, int ordinal, int64_t granularity)
      : api_(api), ordinal_(ordinal), granularity_(granularity) {}
  int64_t mapped_bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  void UnmapBehind(int64_t bytes);

  Api* const api_;
  const int ordinal_;
  const int64_t granularity_;
  std::byte* begin_ = nullptr;
  int64_t kept_bytes_ = 0;
  std::vector<int64_t> ends_;  // of the pieces, from begin_
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_MAPPED_MEMORY_H_
