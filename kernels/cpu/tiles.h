// Cuts a loop into tiles only by its size, so that results do not depend on the
// number of threads.
#ifndef CASTOR_KERNELS_CPU_TILES_H_
#define CASTOR_KERNELS_CPU_TILES_H_

#include <algorithm>
#include <cstdint>

#include "device/device.h"

namespace castor::kernels::cpu {

// The elements of one task of an elementwise loop: some 10 us of work, ten
// times the cost of handing a task to a thread.
inline constexpr int64_t kElementTile = 32 * 1024;

// Runs fn(begin, end) for [0, tile), [tile, 2 tile), ... up to `size`; one tile
// runs on the calling thread at once.
template <class Fn>
void ParallelTiles(const ExecContext& context, int64_t size, int64_t tile,
                   const Fn& fn) {
  const int64_t tiles = (size + tile - 1) / tile;
  const auto run = [&](int64_t t, int /*thread*/) {
    fn(t * tile, std::min(size, (t + 1) * tile));
  };
  if (tiles <= 1 || context.pool == nullptr) {
    for (int64_t t = 0; t < tiles; ++t) run(t, 0);
  } else {
    context.pool->ParallelFor(tiles, run);
  }
}

// Returns the rows of one task, for rows of `channels` elements.
inline int64_t RowTile(int64_t channels) {
  return std::max<int64_t>(1, kElementTile / std::max<int64_t>(1, channels));
}

// Sums down columns: this many columns at once, whose partial sums fit the
// registers of every target,
inline constexpr int64_t kColumnTile = 64;
// this many rows per partial sum, so that rounding errors grow with
// rows / kSumRows + kSumRows instead of rows,
inline constexpr int64_t kSumRows = 32;
// and this many columns per task.
inline int64_t ColumnsPerTask(int64_t rows) {
  return kColumnTile *
         std::max<int64_t>(
             1, kElementTile / (std::max<int64_t>(1, rows) * kColumnTile));
}

// Runs fn(c, columns) for every tile of kColumnTile columns, from column c on,
// of a matrix whose columns are summed.
template <class Fn>
void ParallelColumnTiles(const ExecContext& context, int64_t rows,
                         int64_t columns, const Fn& fn) {
  ParallelTiles(context, columns, ColumnsPerTask(rows),
                [&](int64_t begin, int64_t end) {
                  for (int64_t c = begin; c < end; c += kColumnTile) {
                    fn(c, std::min(kColumnTile, end - c));
                  }
                });
}

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_CPU_TILES_H_
