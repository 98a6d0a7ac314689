#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/status_macros.h"
#include "base/units.h"
#include "base/with_type.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/backward_program.h"
#include "kernels/attention/delta_program.h"
#include "kernels/attention/forward_program.h"
#include "kernels/attention/mma_backward_program.h"
#include "kernels/attention/mma_forward_program.h"
#include "kernels/attention/ranges_program.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/dropout/dropout.h"

namespace castor::kernels {
namespace cuda {
namespace {

// The operands of `args`, either pass's, which computes with `others` besides.
template <class T, class Args>
AttentionOperands<T> Operands(const Args& args,
                              std::initializer_list<const void*> others) {
  const AttentionShape shape = args.shape.Filled();
  const auto whole = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % 16 == 0;
  };
  return {.band = shape.band(),
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .group = shape.group(),
          .head_size = shape.head_size,
          .q_stride = shape.q_stride,
          .kv_stride = shape.kv_stride,
          .key_rows = shape.key_rows,
          .whole_vectors = shape.head_size % kVectorElements == 0 &&
                           shape.q_stride % kVectorElements == 0 &&
                           shape.kv_stride % kVectorElements == 0 &&
                           whole(args.q) && whole(args.k) && whole(args.v) &&
                           std::all_of(others.begin(), others.end(), whole),
          .scale = shape.scale,
          .softcap = shape.softcap,
          .drops = shape.dropout > 0,
          .threshold = DropoutThreshold(shape.dropout),
          .kept = DropoutScale(shape.dropout),
          .key = shape.key,
          .q = static_cast<const T*>(args.q),
          .k = static_cast<const T*>(args.k),
          .v = static_cast<const T*>(args.v)};
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
    if (shape.head_size <= 128) {
      return f(std::integral_constant<int, 128>(), drops);
    }
    static_assert(kMaxGpuHeadSize == 256);
    return f(std::integral_constant<int, kMaxGpuHeadSize>(), drops);
  };
  return shape.dropout > 0 ? with_size(std::true_type())
                           : with_size(std::false_type());
}

template <class T, class Program>
absl::Status Forward(const ExecContext& context,
                     const AttentionForwardArgs& args) {
  const AttentionOperands<T> of = Operands<T>(args, {args.out});
  const int64_t batch_heads = args.shape.batch * of.heads;
  return Launch(context, "AttentionForward",
                batch_heads * of.Tiles(of.band.queries, Program::kRows),
                Program{.of = of,
                        .batch_heads = batch_heads,
                        .out = static_cast<T*>(args.out),
                        .lse = args.lse});
}

// Whether a single query's keys are looked at in ranges. What there is room for
// decides, since a key-value cache's passes must need the same workspace.
bool InRanges(const AttentionShape& filled) {
  return filled.positions == 1 && filled.dropout == 0 &&
         filled.key_rows > kRangeKeys;
}

template <class T>
absl::Status ForwardInRanges(const ExecContext& context,
                             const AttentionForwardArgs& args) {
  const AttentionOperands<T> of = Operands<T>(args, {args.out});
  const auto keys = of.KeysOf(0, 1);
  const AttentionRanges ranges = {
      .first = static_cast<float*>(args.workspace),
      .ranges = CeilDiv(keys.end - keys.begin, kRangeKeys),
      .head_size = of.head_size};
  const int64_t batch_heads = args.shape.batch * of.heads;
  CASTOR_RETURN_IF_ERROR(
      Launch(context, "AttentionForward (ranges)", batch_heads * ranges.ranges,
             AttentionRangeProgram<T>{.of = of, .to = ranges}));
  return Launch(context, "AttentionForward (join)", batch_heads,
                AttentionJoinProgram<T>{.of = of,
                                        .from = ranges,
                                        .out = static_cast<T*>(args.out),
                                        .lse = args.lse});
}

// dk and dv if kKeys, otherwise dq.
template <class T, class Program, bool kKeys>
absl::Status Gradients(const ExecContext& context,
                       const AttentionBackwardArgs& args) {
  const AttentionOperands<T> of =
      Operands<T>(args, {args.dout, args.dq, args.dk, args.dv});
  const int64_t batch_heads =
      args.shape.batch * (kKeys ? of.kv_heads : of.heads);
  const int64_t rows = kKeys ? of.band.keys : of.band.queries;
  return Launch(
      context,
      kKeys ? "AttentionBackward (keys)" : "AttentionBackward (queries)",
      batch_heads * of.Tiles(rows, Program::kRows) * Program::kParts,
      Program{.of = of,
              .batch_heads = batch_heads,
              .dout = static_cast<const T*>(args.dout),
              .lse = args.lse,
              .delta = static_cast<const float*>(args.workspace),
              .dq = static_cast<T*>(args.dq),
              .dk = static_cast<T*>(args.dk),
              .dv = static_cast<T*>(args.dv)});
}

template <class T>
absl::Status Delta(const ExecContext& context,
                   const AttentionBackwardArgs& args) {
  using Program = AttentionDeltaProgram<T>;
  const AttentionOperands<T> of = Operands<T>(args, {args.out, args.dout});
  const int64_t tiles = of.Tiles(of.band.queries, Program::kRows);
  return Launch(context, "AttentionBackward (delta)",
                args.shape.batch * of.heads * tiles,
                Program{.of = of,
                        .tiles = tiles,
                        .out = static_cast<const T*>(args.out),
                        .dout = static_cast<const T*>(args.dout),
                        .delta = static_cast<float*>(args.workspace)});
}

}  // namespace
}  // namespace cuda

// AttentionRanges.
int64_t AttentionForwardArgs::GpuWorkspaceBytes() const {
  const AttentionShape filled = shape.Filled();
  if (!cuda::InRanges(filled)) return 0;
  return cuda::Rows(filled) * CeilDiv(filled.key_rows, cuda::kRangeKeys) *
         (filled.head_size + 2) * static_cast<int64_t>(sizeof(float));
}

absl::Status AttentionForwardArgs::RunOnGpu(const ExecContext& context) const {
  CASTOR_RETURN_IF_ERROR(CheckAttentionShapeOnGpu(shape));
  if (shape.heads == 0) return absl::OkStatus();
  return WithType(shape.dtype, [&]<class T>(T) {
    if (cuda::InRanges(shape.Filled())) {
      return cuda::ForwardInRanges<T>(context, *this);
    }
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
  CASTOR_RETURN_IF_ERROR(CheckAttentionShapeOnGpu(shape));
  if (shape.heads == 0) return absl::OkStatus();
  return WithType(shape.dtype, [&]<class T>(T) {
    CASTOR_RETURN_IF_ERROR(cuda::Delta<T>(context, *this));
    return cuda::WithProgram(shape, [&](auto size, auto drops) {
      CASTOR_RETURN_IF_ERROR(
          (cuda::Gradients<T, cuda::AttentionBackwardOf<T, size, true, drops>,
                           true>(context, *this)));
      return cuda::Gradients<
          T, cuda::AttentionBackwardOf<T, size, false, drops>, false>(context,
                                                                      *this);
    });
  });
}

}  // namespace castor::kernels
