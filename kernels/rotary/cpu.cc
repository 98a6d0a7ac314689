#include <algorithm>

#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/rotary/rotary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// Turns the first `count` of kLanes pairs whose first channels are at x, their
// others `half` further on. y may be x.
template <class T>
HWY_INLINE void TurnPairs(const T* x, int64_t half, int64_t count, VF32 c,
                          VF32 s, T* y) {
  const VF32 a = LoadPart(x, count);
  const VF32 b = LoadPart(x + half, count);
  StorePart(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), y, count);
  StorePart(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), y + half, count);
}

// Rows [first, end) of the matrix.
template <class T>
HWY_INLINE void TurnRows(const RotaryArgs& args, int64_t first, int64_t end) {
  const F32 d;
  const VF32 sign = hn::Set(d, args.inverse ? -1.0f : 1.0f);
  const int64_t half = args.channels / 2;
  for (int64_t n = first; n < end; ++n) {
    const T* x = At<T>(args.x, n * args.stride);
    T* y = At<T>(args.y, n * args.stride);
    int64_t position = args.begin + n % args.length;
    if (args.documents != nullptr) position -= args.documents[n].begin;
    const int64_t at = position * half;
    // One vector of the tables serves all heads.
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t count = std::min(kLanes, half - i);
      const VF32 c = LoadPart(args.cos + at + i, count);
      const VF32 s = hn::Mul(sign, LoadPart(args.sin + at + i, count));
      for (int64_t h = 0; h < args.heads; ++h) {
        const int64_t e = h * args.head_size + i;
        TurnPairs(x + e, half, count, c, s, y + e);
      }
    }
    const int64_t rest = args.head_size - args.channels;
    if (x == y || rest == 0) continue;
    for (int64_t h = 0; h < args.heads; ++h) {
      const int64_t e = h * args.head_size + args.channels;
      std::copy(x + e, x + e + rest, y + e);
    }
  }
}

void RotaryImpl(const RotaryArgs& args, int64_t first, int64_t end) {
  WithType(args.dtype,
           [&]<class T>(T) HWY_ATTR { TurnRows<T>(args, first, end); });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(RotaryImpl);
}  // namespace cpu

absl::Status RotaryArgs::RunOnCpu(const ExecContext& context) const {
  cpu::ParallelTiles(context, rows, cpu::RowTile(heads * head_size),
                     [&](int64_t first, int64_t end) {
                       CASTOR_CPU_DISPATCH(RotaryImpl)(*this, first, end);
                     });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
