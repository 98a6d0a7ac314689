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
          .documents = args.documents,
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
template <class T, int kD, bool kDrops>
using AttentionBackwardOf =
    std::conditional_t<std::is_same_v<T, float>, AttentionBackwardProgram<kD>,
                       AttentionMmaBackwardProgram<T, kD, kDrops>>;

// Calls f with the least head size that programs are made for, and with whether
// they drop, as constants.
template <class F>
auto WithProgram(const AttentionShape& shape, const F& f) {
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

// The backward pass's workspace: delta, dq's sums, the counters of turns.
struct BackwardWorkspace {
  int64_t delta_bytes, sums_bytes, counters_of_head, counters;
  int64_t steps;

  template <class Program>
  static BackwardWorkspace Of(const AttentionShape& filled) {
    const int64_t heads = filled.batch * filled.heads;
    const int64_t steps = CeilDiv(filled.positions, Program::kStep);
    const int64_t parts = steps * Program::kParts;
    const int64_t sums =
        filled.keys <= Program::kRows ? 0 : parts * Program::kStepSums;
    return {.delta_bytes = CeilDiv(heads * filled.positions, 4) * 16,
            .sums_bytes = heads * sums * int64_t{sizeof(float)},
            .counters_of_head = parts * Program::kWarps,
            .counters = heads * parts * Program::kWarps,
            .steps = steps};
  }
  int64_t bytes() const {
    return delta_bytes + sums_bytes +
           (counters + 1) * int64_t{sizeof(uint32_t)};
  }
  float* sums(void* workspace) const {
    return reinterpret_cast<float*>(static_cast<char*>(workspace) +
                                    delta_bytes);
  }
  uint32_t* first_counter(void* workspace) const {
    return reinterpret_cast<uint32_t*>(static_cast<char*>(workspace) +
                                       delta_bytes + sums_bytes);
  }
};

template <class T, class Program>
absl::Status Gradients(const ExecContext& context,
                       const AttentionBackwardArgs& args,
                       const BackwardWorkspace& workspace) {
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
                   const BackwardWorkspace& workspace) {
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

int64_t AttentionBackwardArgs::GpuWorkspaceBytes() const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::WithProgram(shape, [&](auto size, auto drops) {
      using Program = cuda::AttentionBackwardOf<T, size, drops>;
      return cuda::BackwardWorkspace::Of<Program>(shape.Filled()).bytes();
    });
  });
}

absl::Status AttentionBackwardArgs::RunOnGpu(const ExecContext& context) const {
  CASTOR_RETURN_IF_ERROR(CheckAttentionShapeOnGpu(shape));
  const AttentionShape filled = shape.Filled();
  if (filled.heads == 0 || filled.keys == 0) return absl::OkStatus();
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::WithProgram(shape, [&](auto size, auto drops) {
      using Program = cuda::AttentionBackwardOf<T, size, drops>;
      const auto at = cuda::BackwardWorkspace::Of<Program>(filled);
      CASTOR_RETURN_IF_ERROR(cuda::Delta<T>(context, *this, at));
      return cuda::Gradients<T, Program>(context, *this, at);
    });
  });
}

}  // namespace castor::kernels
