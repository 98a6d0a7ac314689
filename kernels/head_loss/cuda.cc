#include <algorithm>

#include "base/status_macros.h"
#include "base/units.h"
#include "base/with_type.h"
#include "kernels/cast/cast.h"
#include "kernels/cpu/convert.h"
#include "kernels/cuda/fault_code.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/head_loss/head_loss.h"
#include "kernels/head_loss/head_loss_program.h"
#include "kernels/matmul/matmul.h"

namespace castor::kernels {
namespace cuda {
namespace {

using cpu::Offset;

// A tile of logits in fp32, [N, W]: wide tiles keep the GPU busy and spare
// passes over dx, narrow ones memory.
constexpr int64_t kTileBytes = int64_t{32} << 20;
constexpr int64_t kNarrowestTile = 256;
constexpr int64_t kWidestTile = 16384;
constexpr int64_t kBlock = 256;  // bytes that parts of the workspace start at

// A multiple of 128, or the whole vocabulary in one tile.
int64_t TileColumns(const HeadLossShape& shape) {
  const int64_t fits = kTileBytes / 4 / std::max<int64_t>(1, shape.rows);
  return std::min(shape.vocabulary,
                  std::clamp(fits / 128 * 128, kNarrowestTile, kWidestTile));
}

// The workspaces, part after part.
struct Layout {
  explicit Layout(const HeadLossShape& shape)
      : rows(std::max<int64_t>(0, shape.rows)),
        columns(TileColumns(shape)),
        ld(RoundUp(columns, 8)) {}

  int64_t Take(int64_t bytes) {
    const int64_t at = size;
    size += RoundUp(bytes, kBlock);
    return at;
  }

  int64_t rows, columns;
  int64_t ld;  // floats between rows of logits: 32-byte steps
  int64_t size = 0;
};

struct ForwardLayout : Layout {
  explicit ForwardLayout(const HeadLossShape& shape) : Layout(shape) {
    sum = Take(rows * 8);
    max = Take(rows * 4);
    target = Take(rows * 4);
    logits = Take(rows * ld * 4);
    gemm = Take(GemmWorkspaceBytes(rows, columns));
  }
  int64_t sum, max, target, logits, gemm;
};

struct BackwardLayout : Layout {
  explicit BackwardLayout(const HeadLossShape& shape) : Layout(shape) {
    logits = Take(rows * ld * 4);
    if (shape.dtype != DType::kFloat32) dx = Take(rows * shape.channels * 4);
    gemm = Take(std::max({GemmWorkspaceBytes(rows, columns),
                          GemmWorkspaceBytes(rows, shape.channels),
                          GemmWorkspaceBytes(columns, shape.channels)}));
  }
  int64_t logits, dx = 0, gemm;
};

char* At(void* workspace, int64_t offset) {
  return static_cast<char*>(workspace) + offset;
}

// The logits of tokens [begin, begin + columns), `ld` apart.
absl::Status FormLogits(const ExecContext& context, const HeadLossShape& shape,
                        const void* x, const void* w, int64_t begin,
                        int64_t columns, float* logits, int64_t ld,
                        void* workspace) {
  return Gemm(context, {.m = shape.rows,
                        .n = columns,
                        .k = shape.channels,
                        .a = x,
                        .lda = shape.channels,
                        .b = Offset(shape.dtype, w, begin * shape.channels),
                        .ldb = shape.channels,
                        .transpose_b = true,
                        .c = logits,
                        .ldc = ld,
                        .operands = shape.dtype,
                        .result = DType::kFloat32,
                        .workspace = workspace});
}

absl::Status AddTile(const ExecContext& context,
                     const HeadLossBackwardArgs& args,
                     const BackwardLayout& layout, int64_t begin,
                     int64_t columns) {
  const HeadLossShape& shape = args.shape;
  const DType dtype = shape.dtype;
  const void* dlogits = At(args.workspace, layout.logits);
  const int64_t ld = layout.ld * 4 / SizeOf(dtype);
  void* workspace = At(args.workspace, layout.gemm);
  // dx += dlogits w: the last use of the tile's rows of w.
  if (args.dx != nullptr) {
    CASTOR_RETURN_IF_ERROR(Gemm(
        context, {.m = shape.rows,
                  .n = shape.channels,
                  .k = columns,
                  .a = dlogits,
                  .lda = ld,
                  .b = Offset(dtype, args.w, begin * shape.channels),
                  .ldb = shape.channels,
                  .c = dtype == DType::kFloat32 ? args.dx
                                                : At(args.workspace, layout.dx),
                  .ldc = shape.channels,
                  .accumulate = begin > 0,
                  .operands = dtype,
                  .result = DType::kFloat32,
                  .workspace = workspace}));
  }
  if (args.dw == nullptr) return absl::OkStatus();
  // dw = dlogits^T x.
  return Gemm(context, {.m = columns,
                        .n = shape.channels,
                        .k = shape.rows,
                        .a = dlogits,
                        .lda = ld,
                        .transpose_a = true,
                        .b = args.x,
                        .ldb = shape.channels,
                        .c = Offset(dtype, args.dw, begin * shape.channels),
                        .ldc = shape.channels,
                        .accumulate = args.accumulate_dw,
                        .operands = dtype,
                        .result = dtype,
                        .workspace = workspace});
}

template <class T>
absl::Status Gradients(const ExecContext& context,
                       const HeadLossBackwardArgs& args,
                       const BackwardLayout& layout, int64_t begin,
                       int64_t columns) {
  return Launch(
      context, "HeadLossBackward (gradients)", args.shape.rows,
      HeadGradientProgram<T>{
          .logits = reinterpret_cast<float*>(At(args.workspace, layout.logits)),
          .ld = layout.ld,
          .begin = begin,
          .columns = columns,
          .vocabulary = args.shape.vocabulary,
          .targets = args.targets,
          .lse = args.lse,
          .loss_grad = args.loss_grad,
          .fault = FaultOf<HeadLossBackwardArgs>(*context.gpu)});
}

absl::Status Forward(const ExecContext& context,
                     const HeadLossForwardArgs& args) {
  const HeadLossShape& shape = args.shape;
  const ForwardLayout layout(shape);
  const HeadRows rows = {
      .max = reinterpret_cast<float*>(At(args.workspace, layout.max)),
      .sum = reinterpret_cast<double*>(At(args.workspace, layout.sum)),
      .target = reinterpret_cast<float*>(At(args.workspace, layout.target))};
  float* logits = reinterpret_cast<float*>(At(args.workspace, layout.logits));
  for (int64_t begin = 0; shape.rows > 0 && begin < shape.vocabulary;
       begin += layout.columns) {
    const int64_t columns = std::min(layout.columns, shape.vocabulary - begin);
    CASTOR_RETURN_IF_ERROR(FormLogits(context, shape, args.x, args.w, begin,
                                      columns, logits, layout.ld,
                                      At(args.workspace, layout.gemm)));
    CASTOR_RETURN_IF_ERROR(
        Launch(context, "HeadLossForward (statistics)", shape.rows,
               HeadStatisticsProgram{
                   .logits = logits,
                   .ld = layout.ld,
                   .begin = begin,
                   .columns = columns,
                   .vocabulary = shape.vocabulary,
                   .targets = args.targets,
                   .rows = rows,
                   .fault = FaultOf<HeadLossForwardArgs>(*context.gpu)}));
  }
  return Launch(context, "HeadLossForward (loss)", 1,
                HeadFinishProgram{.size = shape.rows,
                                  .vocabulary = shape.vocabulary,
                                  .targets = args.targets,
                                  .rows = rows,
                                  .lse = args.lse,
                                  .loss = args.loss});
}

absl::Status Backward(const ExecContext& context,
                      const HeadLossBackwardArgs& args) {
  const HeadLossShape& shape = args.shape;
  const BackwardLayout layout(shape);
  if (shape.rows == 0) {
    if (args.dw == nullptr || args.accumulate_dw) return absl::OkStatus();
    // A product of depth 0.
    return MatmulArgs{.m = shape.vocabulary,
                      .n = shape.channels,
                      .lda = shape.vocabulary,
                      .transpose_a = true,
                      .ldb = shape.channels,
                      .c = args.dw,
                      .ldc = shape.channels,
                      .dtype = shape.dtype}
        .RunOnGpu(context);
  }
  for (int64_t begin = 0; begin < shape.vocabulary; begin += layout.columns) {
    const int64_t columns = std::min(layout.columns, shape.vocabulary - begin);
    CASTOR_RETURN_IF_ERROR(
        FormLogits(context, shape, args.x, args.w, begin, columns,
                   reinterpret_cast<float*>(At(args.workspace, layout.logits)),
                   layout.ld, At(args.workspace, layout.gemm)));
    CASTOR_RETURN_IF_ERROR(WithType(shape.dtype, [&]<class T>(T) {
      return Gradients<T>(context, args, layout, begin, columns);
    }));
    CASTOR_RETURN_IF_ERROR(AddTile(context, args, layout, begin, columns));
  }
  if (args.dx == nullptr || shape.dtype == DType::kFloat32) {
    return absl::OkStatus();
  }
  return CastArgs{.size = shape.rows * shape.channels,
                  .from = DType::kFloat32,
                  .x = At(args.workspace, layout.dx),
                  .to = shape.dtype,
                  .y = args.dx}
      .RunOnGpu(context);
}

}  // namespace
}  // namespace cuda

int64_t HeadLossForwardArgs::GpuWorkspaceBytes() const {
  return cuda::ForwardLayout(shape).size;
}

absl::Status HeadLossForwardArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::Forward(context, *this);
}

int64_t HeadLossBackwardArgs::GpuWorkspaceBytes() const {
  return cuda::BackwardLayout(shape).size;
}

absl::Status HeadLossBackwardArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::Backward(context, *this);
}

}  // namespace castor::kernels
