#include "kernels/matmul/mixed_matmul.h"

#include <algorithm>

#include "base/status_macros.h"
#include "base/units.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/matmul/matmul.h"

namespace castor::kernels::cpu {
namespace {

// 256 x 384 is within 10 % of the fastest tile for every product of GPT-2 124M
// with 256 and 1024 tokens (440 to 470 GFLOP/s on two cores of a Zen 5), and
// its fp32 copies of 16-bit operands fit the scratch of a thread.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 384;
static_assert(PanelFloats(kTileRows, kTileColumns) + kTileRows * kTileColumns <=
              kScratchFloats);

// Tiles are halved down to this number of elements while there are fewer of
// them than kWantedTiles, for pools of many threads. Where there would be fewer
// than kNeededTiles, which leaves even a few threads idle, they are halved down
// to tiles that take longer for each element.
constexpr int64_t kSmallestTile = 128 * 192;
constexpr int64_t kWantedTiles = 8;
constexpr int64_t kSmallestNeededTile = 64 * 128;
constexpr int64_t kNeededTiles = 4;
// Products below this many multiplications are not worth waking a thread.
constexpr int64_t kSerialProduct = int64_t{1} << 19;

struct Tiling {
  int64_t rows, columns;  // of a tile
  int64_t down, across;   // number of tiles
};

// The tiling follows from the shape alone, so that the bits do not depend on
// the threads.
Tiling TilingOf(int64_t m, int64_t n, int64_t k) {
  int64_t rows = std::min(m, kTileRows);
  int64_t columns = std::min(n, kTileColumns);
  const auto even = [](int64_t size, int64_t tile) {
    // Tiles of equal size, whole vectors of it.
    return RoundUp(CeilDiv(size, CeilDiv(size, tile)), 16);
  };
  if (m * n * k > kSerialProduct) {
    while (true) {
      const int64_t tiles = CeilDiv(m, rows) * CeilDiv(n, columns);
      const int64_t smallest =
          tiles < kNeededTiles ? kSmallestNeededTile : kSmallestTile;
      if (tiles >= kWantedTiles || rows * columns / 2 < smallest) break;
      if (columns >= rows) {
        columns = RoundUp(columns / 2, 16);
      } else {
        rows = RoundUp(rows / 2, 16);
      }
    }
  }
  rows = std::min(m, even(m, rows));
  columns = std::min(n, even(n, columns));
  return {rows, columns, CeilDiv(m, rows), CeilDiv(n, columns)};
}

absl::Status RunTile(const MatmulArgs& args, const MatmulTypes& types,
                     int64_t row, int64_t rows, int64_t column,
                     int64_t columns) {
  float* panels = Scratch(kScratchFloats);
  void* c = Offset(types.result, args.c, row * args.ldc + column);
  const bool in_place = types.result == DType::kFloat32;
  float* sum = in_place ? static_cast<float*>(c)
                        : panels + PanelFloats(kTileRows, kTileColumns);
  const int64_t ldsum = in_place ? args.ldc : columns;
  if (!in_place && args.accumulate) {
    LoadTile(types.result, c, args.ldc, rows, columns, sum, ldsum);
  }
  const Operand a{types.operands, args.a, args.lda, args.transpose_a};
  const Operand b{types.operands, args.b, args.ldb, args.transpose_b};
  CASTOR_RETURN_IF_ERROR(TileProduct(rows, columns, args.k, a.From(row, 0),
                                     b.From(0, column), args.accumulate, sum,
                                     ldsum, panels));
  if (args.bias != nullptr) {
    // The panels are used up by now.
    const FloatView bias =
        AsFloat(types.result, Offset(types.result, args.bias, column), columns,
                1, columns, panels);
    for (int64_t r = 0; r < rows; ++r) {
      AddInto(bias.data, columns, sum + r * ldsum);
    }
  }
  if (!in_place) {
    StoreTile(types.result, sum, ldsum, rows, columns, c, args.ldc);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MixedMatmul(const ExecContext& context, const MatmulArgs& args,
                         const MatmulTypes& types) {
  if (args.m == 0 || args.n == 0) return absl::OkStatus();
  const Tiling tiling = TilingOf(args.m, args.n, args.k);
  FirstError error;
  const auto run = [&](int64_t task, int) {
    // Down first: tiles that run at the same time share columns of b, which is
    // the larger operand of most products.
    const int64_t row = task % tiling.down * tiling.rows;
    const int64_t column = task / tiling.down * tiling.columns;
    error.Update(RunTile(args, types, row, std::min(tiling.rows, args.m - row),
                         column, std::min(tiling.columns, args.n - column)));
  };
  const int64_t tasks = tiling.down * tiling.across;
  if (tasks == 1) {
    run(0, 0);
  } else {
    context.pool->ParallelFor(tasks, run);
  }
  return error.status();
}

}  // namespace castor::kernels::cpu
