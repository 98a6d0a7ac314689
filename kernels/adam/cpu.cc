// These operations round, per element, in fp32 (fma: once; every other
// operation rounds on its own):
//
//   g = grad * grad_scale
//   L2 decay:   g = fma(weight_decay, p, g)
//   decoupled:  p = p * (1 - lr weight_decay)
//   m, v: kernels/adam/moments.h
//   p = p + (-step_size * m) / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// step_size = lr / (1 - beta1^t). Every coefficient (-step_size, ...) is formed
// in double and rounded to fp32, as PyTorch does with the scalars of a float
// tensor's operation.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hwy/cache_control.h"
#include "kernels/adam/adam.h"
#include "kernels/adam/adam_math.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/range_pieces.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adam/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/adam/adam-inl.h"
#include "kernels/adam/moments-inl.h"
#include "kernels/cpu/finite_watch-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// The arrays that are read beside the gradient, and those that are written. In
// place the two are the same.
struct AdamStates {
  const float* from_master;
  const float* from_m;
  const float* from_v;
  float* master;
  float* m;
  float* v;

  AdamStates At(int64_t begin) const {
    return {from_master + begin, from_m + begin, from_v + begin,
            master + begin,      m + begin,      v + begin};
  }
  // Out of place, lines that are written are not read before: past the caches,
  // a line need not be fetched to be overwritten. Stores of that kind are
  // aligned.
  bool Streams() const {
    const auto aligned = [](const float* p) {
      return reinterpret_cast<uintptr_t>(p) % (kLanes * sizeof(float)) == 0;
    };
    return from_master != master && aligned(master) && aligned(m) && aligned(v);
  }
};

// One pass: 16 (fp32) or 14 (bf16, fp16) bytes in and as many out per element,
// less where the gradient's own memory is written only. Prefetching and
// unrolling were tried and measured no faster: memory is the limit, not the
// loop (an AVX-512 core updates 4 to 5 elements per ns from its cache, 2 from
// memory). Returns whether all that is written is finite: where m is not, v is
// not either, whose terms are squares.
template <bool kL2, bool kLerpFromM, class TG, class TP>
HWY_INLINE bool AdamLoop(const AdamScalars& scalars, int64_t size,
                         const TG* grad, TP* payload, const AdamStates& x) {
  const AdamStep<kL2, kLerpFromM> step(scalars);
  const bool streams = x.Streams();
  const F32 d;
  FiniteWatch watch;
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    VF32 vp = Load(x.from_master + i);
    VF32 vm = Load(x.from_m + i);
    VF32 vv = Load(x.from_v + i);
    step(Load(grad + i), vp, vm, vv);
    watch.See(vp);
    watch.See(vv);
    if (streams) {
      hn::Stream(vm, d, x.m + i);
      hn::Stream(vv, d, x.v + i);
      hn::Stream(vp, d, x.master + i);
    } else {
      Store(vm, x.m + i);
      Store(vv, x.v + i);
      Store(vp, x.master + i);
    }
    Store(vp, payload + i);
  }
  if (i < size) {
    const int64_t left = size - i;
    VF32 vp = LoadPart(x.from_master + i, left);
    VF32 vm = LoadPart(x.from_m + i, left);
    VF32 vv = LoadPart(x.from_v + i, left);
    step(LoadPart(grad + i, left), vp, vm, vv);
    watch.SeePart(vp, left);
    watch.SeePart(vv, left);
    StorePart(vm, x.m + i, left);
    StorePart(vv, x.v + i, left);
    StorePart(vp, x.master + i, left);
    StorePart(vp, payload + i, left);
  }
  if (streams) hwy::FlushStream();
  return watch.all_finite();
}

template <class TG, class TP>
HWY_INLINE bool AdamAny(const AdamScalars& s, int64_t size, const TG* grad,
                        TP* payload, const AdamStates& x) {
  if (s.l2) {
    return s.moments.lerp_from_m
               ? AdamLoop<true, true>(s, size, grad, payload, x)
               : AdamLoop<true, false>(s, size, grad, payload, x);
  }
  return s.moments.lerp_from_m
             ? AdamLoop<false, true>(s, size, grad, payload, x)
             : AdamLoop<false, false>(s, size, grad, payload, x);
}

// Elements [begin, begin + size) of the arrays.
void AdamImpl(const AdamArgs& args, const AdamScalars& s, int64_t begin,
              int64_t size) {
  const bool aside = args.from.master != nullptr;
  const AdamStates states = AdamStates{aside ? args.from.master : args.master,
                                       aside ? args.from.m : args.m,
                                       aside ? args.from.v : args.v,
                                       args.master,
                                       args.m,
                                       args.v}
                                .At(begin);
  bool finite = true;
  WithType(args.dtype, [&]<class T>(T) HWY_ATTR {
    T* to = At<T>(args.payload, begin);
    if (args.gradient_sum != nullptr) {
      finite = AdamAny(s, size, args.gradient_sum + begin, to, states);
    } else if (args.gradient != nullptr) {
      finite = AdamAny(s, size, static_cast<const T*>(args.gradient) + begin,
                       to, states);
    } else {
      finite = AdamAny(s, size, to, to, states);
    }
  });
  if (!finite) Mark(args.not_finite);
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(AdamImpl);
}  // namespace cpu

namespace {

void Skip(const AdamArgs& args, int64_t begin, int64_t end) {
  if (args.from.master != nullptr) {
    const size_t bytes = (end - begin) * sizeof(float);
    std::memcpy(args.master + begin, args.from.master + begin, bytes);
    std::memcpy(args.m + begin, args.from.m + begin, bytes);
    std::memcpy(args.v + begin, args.from.v + begin, bytes);
  }
  cpu::FromFloat(args.dtype, args.master + begin, end - begin,
                 cpu::Offset(args.dtype, args.payload, begin));
}

}  // namespace

absl::Status AdamArgs::RunOnCpu(const ExecContext& context) const {
  if (num_ranges == 0) return absl::OkStatus();
  const bool skip = !std::isfinite(*grad_scale);
  std::vector<AdamScalars> scalars(num_ranges);
  for (int64_t r = 0; r < num_ranges; ++r) {
    scalars[r] = MakeAdamScalars(ranges[r].hyper);
    scalars[r].grad_scale = *grad_scale;
  }
  cpu::ParallelPieces(context, ranges, num_ranges,
                      [&](int64_t r, int64_t begin, int64_t end) {
                        if (skip) {
                          Skip(*this, begin, end);
                          return;
                        }
                        CASTOR_CPU_DISPATCH(AdamImpl)
                        (*this, scalars[r], begin, end - begin);
                      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
