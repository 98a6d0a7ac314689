// Cuts the ranges of a chunk into tasks for an optimizer's kernel on the CPU.
#ifndef CASTOR_KERNELS_CPU_RANGE_PIECES_H_
#define CASTOR_KERNELS_CPU_RANGE_PIECES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "device/device.h"
#include "kernels/cpu/tiles.h"

namespace castor::kernels::cpu {

// The elements of every piece, except a range's last one, are a multiple of
// this.
inline constexpr int64_t kPieceGranule = 64;

// Sets a flag that several threads may set concurrently. Null: does nothing.
inline void Mark(int32_t* flag) {
  if (flag != nullptr) {
    std::atomic_ref<int32_t>(*flag).store(1, std::memory_order_relaxed);
  }
}

// Returns make(range) of each range.
template <class Range, class Make>
auto ScalarsOf(const Range* ranges, int64_t num_ranges, const Make& make) {
  std::vector<decltype(make(*ranges))> scalars;
  scalars.reserve(num_ranges);
  for (int64_t r = 0; r < num_ranges; ++r) scalars.push_back(make(ranges[r]));
  return scalars;
}

// Runs fn(r, begin, end) for pieces [begin, end) of the ranges r, which
// together are all elements of `ranges` (with members begin and end). A task
// has some kElementTile elements, of one range or of several small ones.
template <class Range, class Fn>
void ParallelPieces(const ExecContext& context, const Range* ranges,
                    int64_t num_ranges, const Fn& fn) {
  struct Piece {
    int64_t range, begin, end;
  };
  std::vector<Piece> pieces;
  std::vector<int64_t> first_piece = {0};  // of each task
  int64_t room = kElementTile;
  for (int64_t r = 0; r < num_ranges; ++r) {
    for (int64_t begin = ranges[r].begin; begin < ranges[r].end;) {
      const int64_t most =
          (room + kPieceGranule - 1) / kPieceGranule * kPieceGranule;
      const int64_t size = std::min(most, ranges[r].end - begin);
      pieces.push_back({r, begin, begin + size});
      begin += size;
      room -= size;
      if (room <= 0) {
        first_piece.push_back(static_cast<int64_t>(pieces.size()));
        room = kElementTile;
      }
    }
  }
  const int64_t count = static_cast<int64_t>(pieces.size());
  if (first_piece.back() != count) first_piece.push_back(count);
  ParallelTiles(context, static_cast<int64_t>(first_piece.size()) - 1, 1,
                [&](int64_t task, int64_t /*end*/) {
                  for (int64_t i = first_piece[task]; i < first_piece[task + 1];
                       ++i) {
                    fn(pieces[i].range, pieces[i].begin, pieces[i].end);
                  }
                });
}

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_CPU_RANGE_PIECES_H_
