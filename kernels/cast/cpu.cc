#include <cstring>

#include "kernels/cast/cast.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cast/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// Elements [begin, begin + size) of the arrays.
void CastImpl(int64_t begin, int64_t size, DType from, const void* x, DType to,
              void* y) {
  WithType(from, [&]<class X>(X) HWY_ATTR {
    WithType(to, [&]<class Y>(Y) HWY_ATTR {
      Map(CopyOp(), size, At<Y>(y, begin), At<X>(x, begin));
    });
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(CastImpl);
}  // namespace cpu

absl::Status CastArgs::RunOnCpu(const ExecContext& context) const {
  cpu::ParallelTiles(
      context, size, cpu::kElementTile, [&](int64_t begin, int64_t end) {
        const int64_t count = end - begin;
        if (from != to) {
          CASTOR_CPU_DISPATCH(CastImpl)(begin, count, from, x, to, y);
        } else if (x != y && count > 0) {
          const int64_t element = SizeOf(to);
          std::memcpy(static_cast<char*>(y) + begin * element,
                      static_cast<const char*>(x) + begin * element,
                      count * element);
        }
      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
