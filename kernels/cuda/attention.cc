#include "kernels/attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cuda/attention_backward_program.h"
#include "kernels/cuda/attention_forward_program.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/status.h"
#include "kernels/elementwise.h"

namespace castor::kernels::cuda {
namespace {

absl::Status Check(const AttentionShape& shape) {
  CASTOR_RETURN_IF_ERROR(CheckAttentionShape(shape));
  if (shape.head_size <= kMaxHeadSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "attention with heads of ", shape.head_size,
      ": on a GPU a head has at most ", kMaxHeadSize, " channels"));
}

template <class T>
AttentionOperands<T> Operands(const AttentionShape& shape, const void* qkv) {
  return {.positions = shape.positions,
          .heads = shape.heads,
          .head_size = shape.head_size,
          .causal = shape.causal,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size)),
          .drops = shape.dropout > 0,
          .threshold = DropoutThreshold(shape.dropout),
          .kept = cpu::DropoutScale(shape.dropout),
          .key = shape.key,
          .qkv = static_cast<const T*>(qkv)};
}

int64_t Rows(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.positions;
}

template <class T, int kD>
absl::Status Forward(const ExecContext& context,
                     const AttentionForwardArgs& args) {
  const AttentionOperands<T> of = Operands<T>(args.shape, args.qkv);
  const int64_t batch_heads = args.shape.batch * args.shape.heads;
  return Launch(context, "AttentionForward", batch_heads * of.tiles(),
                AttentionForwardProgram<T, kD>{.of = of,
                                               .batch_heads = batch_heads,
                                               .out = static_cast<T*>(args.out),
                                               .lse = args.lse});
}

template <class T, int kD, bool kKeys>
absl::Status Gradients(const ExecContext& context,
                       const AttentionBackwardArgs& args, const char* kernel) {
  const AttentionOperands<T> of = Operands<T>(args.shape, args.qkv);
  const int64_t batch_heads = args.shape.batch * args.shape.heads;
  return Launch(context, kernel, batch_heads * of.tiles(),
                AttentionBackwardProgram<T, kD, kKeys>{
                    .of = of,
                    .batch_heads = batch_heads,
                    .dout = static_cast<const T*>(args.dout),
                    .lse = args.lse,
                    .delta = static_cast<const float*>(args.workspace),
                    .dqkv = static_cast<T*>(args.dqkv)});
}

template <class T, int kD>
absl::Status Backward(const ExecContext& context,
                      const AttentionBackwardArgs& args) {
  using Delta = AttentionDeltaProgram<T>;
  const int64_t rows = Rows(args.shape);
  CASTOR_RETURN_IF_ERROR(
      Launch(context, "AttentionBackward (delta)",
             (rows + Delta::kRows - 1) / Delta::kRows,
             Delta{.of = Operands<T>(args.shape, args.qkv),
                   .rows = rows,
                   .out = static_cast<const T*>(args.out),
                   .dout = static_cast<const T*>(args.dout),
                   .delta = static_cast<float*>(args.workspace)}));
  CASTOR_RETURN_IF_ERROR(
      (Gradients<T, kD, true>(context, args, "AttentionBackward (keys)")));
  return Gradients<T, kD, false>(context, args, "AttentionBackward (queries)");
}

}  // namespace

int64_t AttentionForwardWorkspaceBytes(const AttentionShape&) { return 0; }

absl::Status AttentionForward(const ExecContext& context,
                              const AttentionForwardArgs& args) {
  CASTOR_RETURN_IF_ERROR(Check(args.shape));
  return WithType(args.shape.dtype, [&]<class T>(T) {
    return args.shape.head_size <= 64 ? Forward<T, 64>(context, args)
                                      : Forward<T, 128>(context, args);
  });
}

// delta [B, H, T].
int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape) {
  return Rows(shape) * static_cast<int64_t>(sizeof(float));
}

absl::Status AttentionBackward(const ExecContext& context,
                               const AttentionBackwardArgs& args) {
  CASTOR_RETURN_IF_ERROR(Check(args.shape));
  return WithType(args.shape.dtype, [&]<class T>(T) {
    return args.shape.head_size <= 64 ? Backward<T, 64>(context, args)
                                      : Backward<T, 128>(context, args);
  });
}

}  // namespace castor::kernels::cuda
