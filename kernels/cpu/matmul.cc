#include "kernels/matmul.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/gemm.h"

namespace castor::kernels {
namespace {

// 256 x 384 is within 10 % of the fastest tile for every product of GPT-2 124M
// with 256 and 1024 tokens (440 to 470 GFLOP/s on two cores of a Zen 5), and
// its fp32 copies for bf16 fit the scratch of a thread.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 384;
// bf16 only: k is cut into panels of this depth.
constexpr int64_t kPanelDepth = 256;
static_assert(kTileRows * kPanelDepth + kTileColumns * kPanelDepth +
                  kTileRows * kTileColumns <=
              cpu::kScratchFloats);

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

// From the shape alone, so that the bits do not depend on the threads.
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

absl::Status Check(const MatmulArgs& args) {
  const auto bad = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Matmul [", args.m, ", ", args.k, "] x [", args.k, ", ", args.n,
        "] with lda ", args.lda, ", ldb ", args.ldb, ", ldc ", args.ldc, ": ",
        what));
  };
  if (args.m < 0 || args.n < 0 || args.k < 0) return bad("a size is negative");
  if (args.lda < (args.transpose_a ? args.m : args.k) ||
      args.ldb < (args.transpose_b ? args.k : args.n) || args.ldc < args.n) {
    return bad("a row is longer than the distance between rows");
  }
  return absl::OkStatus();
}

// Elements of the stored matrix before op(x)[row, column].
int64_t At(bool transpose, int64_t ld, int64_t row, int64_t column) {
  return transpose ? column * ld + row : row * ld + column;
}

absl::Status FloatTile(const MatmulArgs& args, int64_t row, int64_t rows,
                       int64_t column, int64_t columns) {
  float* c = static_cast<float*>(args.c) + row * args.ldc + column;
  const absl::Status status = cpu::Gemm(
      args.transpose_a, args.transpose_b, rows, columns, args.k, 1.0f,
      static_cast<const float*>(args.a) + At(args.transpose_a, args.lda, row, 0),
      args.lda,
      static_cast<const float*>(args.b) +
          At(args.transpose_b, args.ldb, 0, column),
      args.ldb, args.accumulate ? 1.0f : 0.0f, c, args.ldc);
  if (args.bias != nullptr) {
    const float* bias = static_cast<const float*>(args.bias) + column;
    for (int64_t r = 0; r < rows; ++r) {
      cpu::AddInto(bias, columns, c + r * args.ldc);
    }
  }
  return status;
}

absl::Status BFloat16Tile(const MatmulArgs& args, int64_t row, int64_t rows,
                          int64_t column, int64_t columns) {
  constexpr DType kType = DType::kBFloat16;
  float* a = cpu::Scratch(cpu::kScratchFloats);
  float* b = a + kTileRows * kPanelDepth;
  float* sum = b + kTileColumns * kPanelDepth;
  void* c = cpu::Offset(kType, args.c, row * args.ldc + column);
  // With nothing to multiply the sum is still what was there, or zero.
  if (args.accumulate) {
    cpu::LoadTile(kType, c, args.ldc, rows, columns, sum, columns);
  } else {
    std::fill_n(sum, args.k == 0 ? rows * columns : 0, 0.0f);
  }
  for (int64_t k = 0; k < args.k; k += kPanelDepth) {
    const int64_t depth = std::min(kPanelDepth, args.k - k);
    const int64_t lda = args.transpose_a ? rows : depth;
    const int64_t ldb = args.transpose_b ? depth : columns;
    cpu::LoadTile(
        kType,
        cpu::Offset(kType, args.a, At(args.transpose_a, args.lda, row, k)),
        args.lda, args.transpose_a ? depth : rows, lda, a, lda);
    cpu::LoadTile(
        kType,
        cpu::Offset(kType, args.b, At(args.transpose_b, args.ldb, k, column)),
        args.ldb, args.transpose_b ? columns : depth, ldb, b, ldb);
    const absl::Status status = cpu::Gemm(
        args.transpose_a, args.transpose_b, rows, columns, depth, 1.0f, a, lda,
        b, ldb, k > 0 || args.accumulate ? 1.0f : 0.0f, sum, columns);
    if (!status.ok()) return status;
  }
  if (args.bias != nullptr) {
    float* bias = b;  // Its panel is used up.
    cpu::LoadTile(kType, cpu::Offset(kType, args.bias, column), columns, 1,
                  columns, bias, columns);
    for (int64_t r = 0; r < rows; ++r) {
      cpu::AddInto(bias, columns, sum + r * columns);
    }
  }
  cpu::StoreTile(kType, sum, columns, rows, columns, c, args.ldc);
  return absl::OkStatus();
}

}  // namespace

int64_t MatmulWorkspaceBytes(const MatmulArgs&) { return 0; }

absl::Status Matmul(const ExecContext& context, const MatmulArgs& args) {
  if (absl::Status status = Check(args); !status.ok()) return status;
  if (args.m == 0 || args.n == 0) return absl::OkStatus();
  const Tiling tiling = TilingOf(args.m, args.n, args.k);
  cpu::FirstError error;
  const auto run = [&](int64_t task, int) {
    // Down first: tiles that run at the same time share columns of b, which is
    // the larger operand of most products.
    const int64_t row = task % tiling.down * tiling.rows;
    const int64_t column = task / tiling.down * tiling.columns;
    const int64_t rows = std::min(tiling.rows, args.m - row);
    const int64_t columns = std::min(tiling.columns, args.n - column);
    error.Update(args.dtype == DType::kFloat32
                     ? FloatTile(args, row, rows, column, columns)
                     : BFloat16Tile(args, row, rows, column, columns));
  };
  const int64_t tasks = tiling.down * tiling.across;
  if (tasks == 1) {
    run(0, 0);
  } else {
    context.pool->ParallelFor(tasks, run);
  }
  return error.status();
}

}  // namespace castor::kernels
