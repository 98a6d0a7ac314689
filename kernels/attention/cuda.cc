#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "base/status_macros.h"
#include "base/units.h"
#include "base/with_type.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/delta_program.h"
#include "kernels/attention/gpu_sizes.h"
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
          .documents = args.documents,
          .q = static_cast<const T*>(args.q),
          .k = static_cast<const T*>(args.k),
          .v = static_cast<const T*>(args.v)};
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

template <class T>
absl::Status ForwardInRanges(const ExecContext& context,
                             const AttentionForwardArgs& args) {
  const AttentionOperands<T> of = Operands<T>(args, {args.out});
  const auto keys = of.KeysOf(0, 0, 1);
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

// As many of the sums that blocks add to, 16 MiB, as a GPU's cache holds beside
// other things: an A100's has 40 MB.
constexpr int64_t kMostSumsAtOnce = int64_t{4} << 20;

template <class T, class Program>
absl::Status Gradients(const ExecContext& context,
                       const AttentionBackwardArgs& args,
                       const AttentionWorkspace& workspace) {
  const AttentionOperands<T> of =
      Operands<T>(args, {args.dout, args.dq, args.dk, args.dv});
  const int64_t batch_heads = args.shape.batch * of.kv_heads;
  const int64_t tiles = of.Tiles(of.band.keys, Program::kRows);
  const int64_t at_once =
      kMostSumsAtOnce /
      std::max<int64_t>(1, of.group * of.band.queries * of.head_size);
  uint32_t* const counters = workspace.first_counter(args.workspace);
  return Launch(context, "AttentionBackward",
                batch_heads * tiles * Program::kParts,
                Program{.of = of,
                        .turns = {.tiles = tiles,
                                  .batch_heads = batch_heads,
                                  .parts = Program::kParts,
                                  .heads_at_once = std::max<int64_t>(
                                      1, std::min(batch_heads, at_once)),
                                  .steps = workspace.steps,
                                  .warps = Program::kWarps,
                                  .first = counters,
                                  .begun = counters + workspace.counters},
                        .dout = static_cast<const T*>(args.dout),
                        .lse = args.lse,
                        .delta = static_cast<const float*>(args.workspace),
                        .sums = workspace.sums(args.workspace),
                        .dq = static_cast<T*>(args.dq),
                        .dk = static_cast<T*>(args.dk),
                        .dv = static_cast<T*>(args.dv)});
}

template <class T>
absl::Status Delta(const ExecContext& context,
                   const AttentionBackwardArgs& args,
                   const AttentionWorkspace& workspace) {
  using Program = AttentionDeltaProgram<T>;
  const AttentionOperands<T> of = Operands<T>(args, {args.out, args.dout});
  // Without queries, too, counters must be cleared.
  const int64_t tiles =
      std::max<int64_t>(1, of.Tiles(of.band.queries, Program::kRows));
  return Launch(
      context, "AttentionBackward (delta)", args.shape.batch * of.heads * tiles,
      Program{.of = of,
              .tiles = tiles,
              .out = static_cast<const T*>(args.out),
              .dout = static_cast<const T*>(args.dout),
              .delta = static_cast<float*>(args.workspace),
              .counters = workspace.first_counter(args.workspace),
              .counters_of_head = workspace.counters_of_head,
              .counters_of_block = CeilDiv(workspace.counters_of_head, tiles),
              .all_counters = workspace.counters});
}

}  // namespace
}  // namespace cuda

absl::Status AttentionForwardArgs::RunOnGpu(const ExecContext& context) const {
  CASTOR_RETURN_IF_ERROR(CheckAttentionShapeOnGpu(shape));
  if (shape.heads == 0) return absl::OkStatus();
  return WithType(shape.dtype, [&]<class T>(T) {
    if (cuda::AttentionInRanges(shape.Filled())) {
      return cuda::ForwardInRanges<T>(context, *this);
    }
    return cuda::WithAttentionProgram(shape, [&](auto size, auto drops) {
      return cuda::Forward<T, cuda::AttentionForwardOf<T, size, drops>>(context,
                                                                        *this);
    });
  });
}

absl::Status AttentionBackwardArgs::RunOnGpu(const ExecContext& context) const {
  CASTOR_RETURN_IF_ERROR(CheckAttentionShapeOnGpu(shape));
  const AttentionShape filled = shape.Filled();
  if (filled.heads == 0 || filled.keys == 0) return absl::OkStatus();
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::WithAttentionProgram(shape, [&](auto size, auto drops) {
      using Program = cuda::AttentionBackwardOf<T, size, drops>;
      const auto at = cuda::AttentionWorkspace::Of<Program>(filled);
      CASTOR_RETURN_IF_ERROR(cuda::Delta<T>(context, *this, at));
      return cuda::Gradients<T, Program>(context, *this, at);
    });
  });
}

}  // namespace castor::kernels
