#include "kernels/matmul/mixed_matmul.h"

#include <algorithm>

#include "base/units.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/gemm.h"
#include "kernels/matmul/matmul.h"

namespace castor::kernels::cpu {
namespace {

// 256 x 384 is within 10 % of the fastest tile for every product of GPT-2 124M
// with 256 and 1024 tokens (440 to 470 GFLOP/s on two cores of a Zen 5), and
// its fp32 copies of 16-bit operands fit the scratch of a thread.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 384;
// With 16-bit operands k is cut into panels of this depth.
constexpr int64_t kPanelDepth = 256;
static_assert(kTileRows * kPanelDepth + kTileColumns * kPanelDepth +
                  kTileRows * kTileColumns <=
              kScratchFloats);

// Tiles are halved down to this number of elements while there are fewer of
// them than kWantedTiles, for pools of many threads.
constexpr int64_t kSmallestTile = 128 * 192;
constexpr int64_t kWantedTiles = 8;
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
    while (CeilDiv(m, rows) * CeilDiv(n, columns) < kWantedTiles &&
           rows * columns / 2 >= kSmallestTile) {
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

// Elements of the stored matrix before op(x)[row, column].
int64_t At(bool transpose, int64_t ld, int64_t row, int64_t column) {
  return transpose ? column * ld + row : row * ld + column;
}

// Where operands have 16 bits, panels of k are converted in the thread's
// scratch.
absl::Status RunTile(const MatmulArgs& args, const MatmulTypes& types,
                     int64_t row, int64_t rows, int64_t column,
                     int64_t columns) {
  const bool plain = types.a == DType::kFloat32 && types.b == DType::kFloat32;
  const int64_t panel = plain ? args.k : kPanelDepth;
  float* scratch = Scratch(kScratchFloats);
  float* a_panel = scratch;
  float* b_panel = a_panel + kTileRows * kPanelDepth;
  float* bias_row = b_panel;  // The panel is used up by then.

  void* c = Offset(types.c, args.c, row * args.ldc + column);
  const bool in_place = types.c == DType::kFloat32;
  float* sum =
      in_place ? static_cast<float*>(c) : b_panel + kTileColumns * kPanelDepth;
  const int64_t ldsum = in_place ? args.ldc : columns;
  if (!in_place && args.accumulate) {
    LoadTile(types.c, c, args.ldc, rows, columns, sum, ldsum);
  }
  int64_t k = 0;
  do {  // This runs once even if k is 0.
    const int64_t depth = std::min(panel, args.k - k);
    const FloatView a =
        AsFloat(types.a,
                Offset(types.a, args.a, At(args.transpose_a, args.lda, row, k)),
                args.lda, args.transpose_a ? depth : rows,
                args.transpose_a ? rows : depth, a_panel);
    const FloatView b = AsFloat(
        types.b,
        Offset(types.b, args.b, At(args.transpose_b, args.ldb, k, column)),
        args.ldb, args.transpose_b ? columns : depth,
        args.transpose_b ? depth : columns, b_panel);
    const absl::Status status = Gemm(
        args.transpose_a, args.transpose_b, rows, columns, depth, 1.0f, a.data,
        a.ld, b.data, b.ld, k > 0 || args.accumulate ? 1.0f : 0.0f, sum, ldsum);
    if (!status.ok()) return status;
    k += depth;
  } while (k < args.k);
  if (args.bias != nullptr) {
    const FloatView bias = AsFloat(types.c, Offset(types.c, args.bias, column),
                                   columns, 1, columns, bias_row);
    for (int64_t r = 0; r < rows; ++r) {
      AddInto(bias.data, columns, sum + r * ldsum);
    }
  }
  if (!in_place) {
    StoreTile(types.c, sum, ldsum, rows, columns, c, args.ldc);
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
