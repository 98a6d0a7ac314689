#include <algorithm>

#include "base/status_macros.h"
#include "base/units.h"
#include "base/with_type.h"
#include "kernels/bias_gradient/bias_gradient.h"
#include "kernels/bias_gradient/bias_gradient_program.h"
#include "kernels/cast/cast.h"
#include "kernels/cpu/convert.h"
#include "kernels/cuda/fault_code.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/head_loss/gpu_sizes.h"
#include "kernels/head_loss/head_loss.h"
#include "kernels/head_loss/head_loss_program.h"
#include "kernels/matmul/matmul.h"

namespace castor::kernels {
namespace cuda {
namespace {

using cpu::Offset;

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
                     const HeadBackwardLayout& layout, int64_t begin,
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
  // db = the sums of dlogits' columns.
  if (args.db != nullptr) {
    CASTOR_RETURN_IF_ERROR(WithType(dtype, [&]<class T>(T) {
      using Program = BiasGradientProgram<T>;
      const typename Program::Sums sums = {
          .rows = shape.rows,
          .columns = columns,
          .stride = ld,
          .matrices = {static_cast<const T*>(dlogits)},
          .vectors = {}};
      return Launch(context, "HeadLossBackward (bias)", ColumnBlocks(columns),
                    Program{.sums = sums,
                            .db = static_cast<T*>(args.db) + begin,
                            .accumulate = args.accumulate_db});
    }));
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
                       const HeadBackwardLayout& layout, int64_t begin,
                       int64_t columns) {
  return Launch(
      context, "HeadLossBackward (gradients)",
      CeilDiv(args.shape.rows, kHeadRows),
      HeadGradientProgram<T>{
          .rows = args.shape.rows,
          .logits = reinterpret_cast<float*>(At(args.workspace, layout.logits)),
          .ld = layout.ld,
          .bias = static_cast<const T*>(args.bias),
          .begin = begin,
          .columns = columns,
          .vocabulary = args.shape.vocabulary,
          .targets = args.targets,
          .lse = args.lse,
          .loss_grad = args.loss_grad,
          .fault = FaultOf<HeadLossBackwardArgs>(*context.gpu)});
}

template <class T>
absl::Status Forward(const ExecContext& context,
                     const HeadLossForwardArgs& args) {
  const HeadLossShape& shape = args.shape;
  const HeadForwardLayout layout(shape);
  const HeadSegments segments = {
      .max = reinterpret_cast<float*>(At(args.workspace, layout.max)),
      .sum = reinterpret_cast<float*>(At(args.workspace, layout.sum)),
      .target = reinterpret_cast<float*>(At(args.workspace, layout.target))};
  const int64_t row_blocks = CeilDiv(shape.rows, kHeadRows);
  float* logits = reinterpret_cast<float*>(At(args.workspace, layout.logits));
  for (int64_t begin = 0; shape.rows > 0 && begin < shape.vocabulary;
       begin += layout.columns) {
    const int64_t columns = std::min(layout.columns, shape.vocabulary - begin);
    CASTOR_RETURN_IF_ERROR(FormLogits(context, shape, args.x, args.w, begin,
                                      columns, logits, layout.ld,
                                      At(args.workspace, layout.gemm)));
    CASTOR_RETURN_IF_ERROR(
        Launch(context, "HeadLossForward (statistics)",
               row_blocks * CeilDiv(columns, kHeadSegment),
               HeadStatisticsProgram<T>{
                   .rows = shape.rows,
                   .row_blocks = row_blocks,
                   .logits = logits,
                   .ld = layout.ld,
                   .bias = static_cast<const T*>(args.bias),
                   .begin = begin,
                   .columns = columns,
                   .vocabulary = shape.vocabulary,
                   .targets = args.targets,
                   .to = segments,
                   .fault = FaultOf<HeadLossForwardArgs>(*context.gpu)}));
  }
  CASTOR_RETURN_IF_ERROR(
      Launch(context, "HeadLossForward (log-sum-exp)",
             CeilDiv(shape.rows, HeadLogSumExpProgram::kThreads),
             HeadLogSumExpProgram{.rows = shape.rows,
                                  .segments = layout.segments,
                                  .from = segments,
                                  .lse = args.lse}));
  CASTOR_RETURN_IF_ERROR(
      Launch(context, "HeadLossForward (loss)", 1,
             HeadFinishProgram{.size = shape.rows,
                               .vocabulary = shape.vocabulary,
                               .targets = args.targets,
                               .target_logits = segments.target,
                               .lse = args.lse,
                               .loss = args.loss}));
  if (args.correct == nullptr) return absl::OkStatus();
  return Launch(context, "HeadLossForward (correct)", 1,
                HeadCorrectProgram{.rows = shape.rows,
                                   .segments = layout.segments,
                                   .vocabulary = shape.vocabulary,
                                   .targets = args.targets,
                                   .from = segments,
                                   .correct = args.correct});
}

absl::Status Backward(const ExecContext& context,
                      const HeadLossBackwardArgs& args) {
  const HeadLossShape& shape = args.shape;
  const HeadBackwardLayout layout(shape);
  if (shape.rows == 0) {
    if (args.db != nullptr) {
      // A sum of no rows.
      const BiasGradientArgs sums = {.dtype = shape.dtype,
                                     .channels = shape.vocabulary,
                                     .db = args.db,
                                     .accumulate = args.accumulate_db};
      CASTOR_RETURN_IF_ERROR(sums.RunOnGpu(context));
    }
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

absl::Status HeadLossForwardArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(shape.dtype,
                  [&]<class T>(T) { return cuda::Forward<T>(context, *this); });
}

absl::Status HeadLossBackwardArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::Backward(context, *this);
}

}  // namespace castor::kernels
