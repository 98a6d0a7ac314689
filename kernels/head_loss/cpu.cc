#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "base/units.h"
#include "kernels/bias_gradient/bias_gradient.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/head_loss/bad_target.h"
#include "kernels/head_loss/head_loss.h"
#include "kernels/head_loss/ignored_target.h"
#include "kernels/matmul/mixed_matmul.h"

namespace castor::kernels {
namespace {

// The blocks of logits that one task forms in its thread's scratch, of the
// size of Matmul's tiles.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockColumns = 384;
constexpr int64_t kBlockFloats = kBlockRows * kBlockColumns;
static_assert(kBlockFloats + cpu::PanelFloats(kBlockRows, kBlockColumns) <=
              cpu::kScratchFloats);

// Backward keeps the gradients of one tile of the vocabulary, [N, tile] in the
// operands' type: wide tiles spare passes over dx, narrow ones memory.
constexpr int64_t kTileBytes = int64_t{16} << 20;
constexpr int64_t kWidestTile = 8 * kBlockColumns;

int64_t TileColumns(const HeadLossShape& shape) {
  const int64_t fits =
      kTileBytes / SizeOf(shape.dtype) / std::max<int64_t>(1, shape.rows);
  const int64_t whole_blocks = fits / kBlockColumns * kBlockColumns;
  return std::min(shape.vocabulary,
                  std::clamp(whole_blocks, kBlockColumns, kWidestTile));
}

absl::Status CheckTargets(const HeadLossShape& shape, const int32_t* targets) {
  for (int64_t n = 0; n < shape.rows; ++n) {
    if (targets[n] == kIgnoredTarget) continue;
    if (targets[n] < 0 || targets[n] >= shape.vocabulary) {
      return BadTarget(targets[n], n, shape.vocabulary);
    }
  }
  return absl::OkStatus();
}

// The head's operands: x [N, C], and of some tokens w [.., C] and bias [..],
// which may be null.
struct HeadOperands {
  const HeadLossShape& shape;
  const void *x, *w, *bias;
};

// logits [rows, columns] of rows from `row` and tokens from `column`, in the
// thread's scratch.
absl::StatusOr<float*> FormLogits(const HeadOperands& of, int64_t row,
                                  int64_t rows, int64_t column,
                                  int64_t columns) {
  const auto& [shape, x, w, bias] = of;
  float* logits = cpu::Scratch(cpu::kScratchFloats);
  const cpu::Operand a{shape.dtype, x, shape.channels, false};
  const cpu::Operand b{shape.dtype, w, shape.channels, true};
  CASTOR_RETURN_IF_ERROR(cpu::TileProduct(
      rows, columns, shape.channels, a.From(row, 0), b.From(0, column), false,
      logits, columns, logits + kBlockFloats));
  if (bias == nullptr) return logits;
  float* const values = logits + kBlockFloats;
  const cpu::FloatView row_of_bias =
      cpu::AsFloat(shape.dtype, cpu::Offset(shape.dtype, bias, column), columns,
                   1, columns, values);
  for (int64_t r = 0; r < rows; ++r) {
    cpu::AddInto(row_of_bias.data, columns, logits + r * columns);
  }
  return logits;
}

// Calls block(row, rows, column, columns) for all blocks of [rows, columns].
template <typename Block>
absl::Status ForBlocks(const ExecContext& context, int64_t rows,
                       int64_t columns, const Block& block) {
  const int64_t down = CeilDiv(rows, kBlockRows);
  cpu::FirstError error;
  context.pool->ParallelFor(
      down * CeilDiv(columns, kBlockColumns), [&](int64_t task, int) {
        const int64_t row = task % down * kBlockRows;
        const int64_t column = task / down * kBlockColumns;
        error.Update(block(row, std::min(kBlockRows, rows - row), column,
                           std::min(kBlockColumns, columns - column)));
      });
  return error.status();
}

// Forward's workspace, in floats: for each block of columns the maximum of
// every row and the sum of exp(logit - maximum), then the targets' logits.
struct Statistics {
  Statistics(const HeadLossShape& shape, void* workspace)
      : rows(shape.rows),
        blocks(CeilDiv(shape.vocabulary, kBlockColumns)),
        max(static_cast<float*>(workspace)),
        sum(max + blocks * rows),
        target(sum + blocks * rows) {}

  float Top(int64_t n) const {
    float top = max[n];
    for (int64_t i = 1; i < blocks; ++i) {
      top = std::max(top, max[i * rows + n]);
    }
    return top;
  }

  // Takes all blocks together, in their order.
  float LogSumExp(int64_t n) const {
    const float top = Top(n);
    double total = 0;
    for (int64_t i = 0; i < blocks; ++i) {
      total += static_cast<double>(sum[i * rows + n]) *
               std::exp(static_cast<double>(max[i * rows + n]) - top);
    }
    return static_cast<float>(top + std::log(total));
  }

  const int64_t rows, blocks;
  float *const max, *const sum, *const target;
};

// Replaces the logits [rows, columns] of a block by their gradients.
void Gradients(const HeadLossBackwardArgs& args, int64_t row, int64_t rows,
               int64_t column, int64_t columns, float* logits) {
  for (int64_t r = 0; r < rows; ++r) {
    float* x = logits + r * columns;
    const int32_t target = args.targets[row + r];
    const float lse = args.lse[row + r];
    if (target == kIgnoredTarget) {
      std::fill_n(x, columns, 0.0f);
      continue;
    }
    const bool here = target >= column && target < column + columns;
    const float logit = here ? x[target - column] : 0.0f;
    cpu::ExpScaled(x, columns, lse, args.loss_grad);
    // p - 1 without cancellation where p is nearly 1.
    if (here) x[target - column] = std::expm1(logit - lse) * args.loss_grad;
  }
}

}  // namespace

int64_t HeadLossForwardArgs::CpuWorkspaceBytes() const {
  return (2 * CeilDiv(shape.vocabulary, kBlockColumns) + 1) * shape.rows *
         static_cast<int64_t>(sizeof(float));
}

absl::Status HeadLossForwardArgs::RunOnCpu(const ExecContext& context) const {
  CASTOR_RETURN_IF_ERROR(CheckTargets(shape, targets));
  const Statistics statistics(shape, workspace);
  CASTOR_RETURN_IF_ERROR(ForBlocks(
      context, shape.rows, shape.vocabulary,
      [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
        CASTOR_ASSIGN_OR_RETURN(
            float* logits,
            FormLogits({shape, x, w, bias}, row, rows, column, columns));
        const int64_t at = column / kBlockColumns * shape.rows + row;
        for (int64_t r = 0; r < rows; ++r) {
          const float* row_logits = logits + r * columns;
          const float max = cpu::MaxOf(row_logits, columns);
          statistics.max[at + r] = max;
          statistics.sum[at + r] = cpu::SumExp(row_logits, columns, max);
          const int32_t target = targets[row + r];
          if (target >= column && target < column + columns) {
            statistics.target[row + r] = row_logits[target - column];
          }
        }
        return absl::OkStatus();
      }));
  constexpr int64_t kRowsPerTask = 32;
  context.pool->ParallelFor(
      CeilDiv(shape.rows, kRowsPerTask), [&](int64_t task, int) {
        const int64_t begin = task * kRowsPerTask;
        const int64_t end = std::min(begin + kRowsPerTask, shape.rows);
        for (int64_t n = begin; n < end; ++n) {
          lse[n] = statistics.LogSumExp(n);
        }
      });
  double sum = 0;
  for (int64_t n = 0; n < shape.rows; ++n) {
    if (targets[n] == kIgnoredTarget) continue;
    sum += static_cast<double>(lse[n]) - statistics.target[n];
  }
  *loss = static_cast<float>(sum);
  if (correct == nullptr) return absl::OkStatus();
  *correct = 0;
  for (int64_t n = 0; n < shape.rows; ++n) {
    if (targets[n] == kIgnoredTarget) continue;
    *correct += statistics.target[n] >= statistics.Top(n);
  }
  return absl::OkStatus();
}

// The workspace holds the gradients of one tile [N, tile] in the operands'
// type, and for 16 bits dx in fp32 [N, C] before them.
int64_t HeadLossBackwardArgs::CpuWorkspaceBytes() const {
  const int64_t sums = shape.dtype == DType::kFloat32 ? 0 : shape.channels;
  return (TileColumns(shape) * SizeOf(shape.dtype) +
          sums * static_cast<int64_t>(sizeof(float))) *
         shape.rows;
}

absl::Status HeadLossBackwardArgs::RunOnCpu(const ExecContext& context) const {
  const DType dtype = shape.dtype;
  CASTOR_RETURN_IF_ERROR(CheckTargets(shape, targets));
  const int64_t width = TileColumns(shape);
  const bool in_place = dtype == DType::kFloat32;
  float* dx_sum = static_cast<float*>(in_place ? dx : workspace);
  void* dlogits = in_place ? workspace : dx_sum + shape.rows * shape.channels;

  for (int64_t begin = 0; begin < shape.vocabulary; begin += width) {
    const int64_t tile = std::min(width, shape.vocabulary - begin);
    const void* tile_w = cpu::Offset(dtype, w, begin * shape.channels);
    const void* tile_bias =
        bias == nullptr ? nullptr : cpu::Offset(dtype, bias, begin);
    CASTOR_RETURN_IF_ERROR(ForBlocks(
        context, shape.rows, tile,
        [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
          CASTOR_ASSIGN_OR_RETURN(
              float* block, FormLogits({shape, x, tile_w, tile_bias}, row, rows,
                                       column, columns));
          Gradients(*this, row, rows, begin + column, columns, block);
          cpu::StoreTile(dtype, block, columns, rows, columns,
                         cpu::Offset(dtype, dlogits, row * tile + column),
                         tile);
          return absl::OkStatus();
        }));
    // dx += dlogits w; the last use of the tile's rows of w.
    if (dx != nullptr) {
      MatmulArgs product;
      product.m = shape.rows;
      product.n = shape.channels;
      product.k = tile;
      product.a = dlogits;
      product.lda = tile;
      product.b = tile_w;
      product.ldb = shape.channels;
      product.c = dx_sum;
      product.ldc = shape.channels;
      product.accumulate = begin > 0;
      CASTOR_RETURN_IF_ERROR(
          cpu::MixedMatmul(context, product, {dtype, DType::kFloat32}));
    }
    // db = the sums of dlogits' columns.
    if (db != nullptr) {
      const BiasGradientArgs sums = {.dtype = dtype,
                                     .rows = shape.rows,
                                     .channels = tile,
                                     .dy = dlogits,
                                     .db = cpu::Offset(dtype, db, begin),
                                     .accumulate = accumulate_db};
      CASTOR_RETURN_IF_ERROR(sums.RunOnCpu(context));
    }
    // dw = dlogits^T x.
    if (dw != nullptr) {
      MatmulArgs product;
      product.m = tile;
      product.n = shape.channels;
      product.k = shape.rows;
      product.a = dlogits;
      product.lda = tile;
      product.transpose_a = true;
      product.b = x;
      product.ldb = shape.channels;
      product.c = cpu::Offset(dtype, dw, begin * shape.channels);
      product.ldc = shape.channels;
      product.accumulate = accumulate_dw;
      CASTOR_RETURN_IF_ERROR(
          cpu::MixedMatmul(context, product, {dtype, dtype}));
    }
  }
  if (dx != nullptr && !in_place) {
    cpu::StoreTile(dtype, dx_sum, shape.channels, shape.rows, shape.channels,
                   dx, shape.channels);
  }
  return absl::OkStatus();
}

}  // namespace castor::kernels
