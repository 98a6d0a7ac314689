#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/backward_program.h"
#include "kernels/attention/delta_program.h"
#include "kernels/attention/forward_program.h"
#include "kernels/attention/mma_backward_program.h"
#include "kernels/attention/mma_forward_program.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/dropout/dropout.h"

namespace castor::kernels {
namespace cuda {
namespace {

// What Check does not ask, since only a GPU does.
absl::Status CheckHeadSize(const AttentionShape& shape) {
  if (shape.head_size <= kMaxGpuHeadSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "attention with heads of ", shape.head_size,
      ": on a GPU a head has at most ", kMaxGpuHeadSize, " channels"));
}

template <class T>
AttentionOperands<T> Operands(const AttentionShape& shape, const void* qkv,
                              std::initializer_list<const void*> others) {
  const auto whole = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % 16 == 0;
  };
  return {.positions = shape.positions,
          .heads = shape.heads,
          .head_size = shape.head_size,
          .causal = shape.causal,
          .whole_vectors = shape.head_size % kVectorElements == 0 &&
                           whole(qkv) &&
                           std::all_of(others.begin(), others.end(), whole),
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size)),
          .drops = shape.dropout > 0,
          .threshold = DropoutThreshold(shape.dropout),
          .kept = DropoutScale(shape.dropout),
          .key = shape.key,
          .qkv = static_cast<const T*>(qkv)};
}

int64_t Rows(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.positions;
}

// fp32 in fp32; 16-bit types on the matrix units.
template <class T, int kD, bool kDrops>
using AttentionForwardOf =
    std::conditional_t<std::is_same_v<T, float>, AttentionForwardProgram<kD>,
                       AttentionMmaForwardProgram<T, kD, kDrops>>;
template <class T, int kD, bool kKeys, bool kDrops>
using AttentionBackwardOf =
    std::conditional_t<std::is_same_v<T, float>,
                       AttentionBackwardProgram<kD, kKeys>,
                       AttentionMmaBackwardProgram<T, kD, kKeys, kDrops>>;

// Calls f with the least head size that programs are made for, and with whether
// they drop, as constants.
template <class F>
absl::Status WithProgram(const AttentionShape& shape, const F& f) {
  const auto with_size = [&](auto drops) {
    if (shape.head_size <= 64) {
      return f(std::integral_constant<int, 64>(), drops);
    }
    static_assert(kMaxGpuHeadSize == 128);
    return f(std::integral_constant<int, kMaxGpuHeadSize>(), drops);
  };
  return shape.dropout > 0 ? with_size(std::true_type())
                           : with_size(std::false_type());
}

template <class T, class Program>
absl::Status Forward(const ExecContext& context,
                     const AttentionForwardArgs& args) {
  const AttentionOperands<T> of = Operands<T>(args.shape, args.qkv, {args.out});
  const int64_t batch_heads = args.shape.batch * args.shape.heads;
  return Launch(context, "AttentionForward",
                batch_heads * of.tiles(Program::kRows),
                Program{.of = of,
                        .batch_heads = batch_heads,
                        .out = static_cast<T*>(args.out),
                        .lse = args.lse});
}

template <class T, class Program>
absl::Status Gradients(const ExecContext& context,
                       const AttentionBackwardArgs& args, const char* kernel) {
  const AttentionOperands<T> of =
      Operands<T>(args.shape, args.qkv, {args.dout, args.dqkv});
  const int64_t batch_heads = args.shape.batch * args.shape.heads;
  return Launch(context, kernel, batch_heads * of.tiles(Program::kRows),
                Program{.of = of,
                        .batch_heads = batch_heads,
                        .dout = static_cast<const T*>(args.dout),
                        .lse = args.lse,
                        .delta = static_cast<const float*>(args.workspace),
                        .dqkv = static_cast<T*>(args.dqkv)});
}

template <class T>
absl::Status Delta(const ExecContext& context,
                   const AttentionBackwardArgs& args) {
  using Program = AttentionDeltaProgram<T>;
  const int64_t rows = Rows(args.shape);
  return Launch(
      context, "AttentionBackward (delta)",
      (rows + Program::kRows - 1) / Program::kRows,
      Program{.of = Operands<T>(args.shape, args.qkv, {args.out, args.dout}),
              .rows = rows,
              .out = static_cast<const T*>(args.out),
              .dout = static_cast<const T*>(args.dout),
              .delta = static_cast<float*>(args.workspace)});
}

}  // namespace
}  // namespace cuda

int64_t AttentionForwardArgs::GpuWorkspaceBytes() const { return 0; }

absl::Status AttentionForwardArgs::RunOnGpu(const ExecContext& context) const {
  CASTOR_RETURN_IF_ERROR(cuda::CheckHeadSize(shape));
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::WithProgram(shape, [&](auto size, auto drops) {
      return cuda::Forward<T, cuda::AttentionForwardOf<T, size, drops>>(context,
                                                                        *this);
    });
  });
}

// delta [B, H, T].
int64_t AttentionBackwardArgs::GpuWorkspaceBytes() const {
  return cuda::Rows(shape) * static_cast<int64_t>(sizeof(float));
}

absl::Status AttentionBackwardArgs::RunOnGpu(const ExecContext& context) const {
  CASTOR_RETURN_IF_ERROR(cuda::CheckHeadSize(shape));
  return WithType(shape.dtype, [&]<class T>(T) {
    CASTOR_RETURN_IF_ERROR(cuda::Delta<T>(context, *this));
    return cuda::WithProgram(shape, [&](auto size, auto drops) {
      CASTOR_RETURN_IF_ERROR(
          (cuda::Gradients<T, cuda::AttentionBackwardOf<T, size, true, drops>>(
              context, *this, "AttentionBackward (keys)")));
      return cuda::Gradients<T,
                             cuda::AttentionBackwardOf<T, size, false, drops>>(
          context, *this, "AttentionBackward (queries)");
    });
  });
}

}  // namespace castor::kernels
