#include <algorithm>

#include "kernels/bias_gradient/bias_gradient.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bias_gradient/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// db[c] (+)= sum over rows of dy[n, c] for up to kColumnTile columns. Rows are
// summed in tiles of kSumRows, and the tiles' sums in order.
template <class T>
HWY_INLINE void SumColumns(int64_t rows, int64_t stride, int64_t columns,
                           const T* dy, T* db, bool accumulate) {
  constexpr int64_t kVectors = kColumnTile / kLanes;
  const F32 d;
  VF32 total[kVectors];
  for (VF32& v : total) v = hn::Zero(d);
  for (int64_t begin = 0; begin < rows; begin += kSumRows) {
    VF32 sum[kVectors];
    for (VF32& v : sum) v = hn::Zero(d);
    const int64_t end = HWY_MIN(rows, begin + kSumRows);
    for (int64_t n = begin; n < end; ++n) {
      const T* row = dy + n * stride;
      if (columns == kColumnTile) {
        for (int64_t v = 0; v < kVectors; ++v) {
          sum[v] = hn::Add(sum[v], Load(row + v * kLanes));
        }
      } else {
        for (int64_t v = 0; v * kLanes < columns; ++v) {
          sum[v] =
              hn::Add(sum[v], LoadPart(row + v * kLanes, columns - v * kLanes));
        }
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) total[v] = hn::Add(total[v], sum[v]);
  }
  for (int64_t v = 0; v * kLanes < columns; ++v) {
    const int64_t count = columns - v * kLanes;
    T* out = db + v * kLanes;
    if (accumulate) total[v] = hn::Add(LoadPart(out, count), total[v]);
    StorePart(total[v], out, count);
  }
}
// The columns from `begin` on.
void SumColumnsImpl(DType dtype, int64_t begin, int64_t rows, int64_t stride,
                    int64_t columns, const void* dy, void* db,
                    bool accumulate) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    SumColumns(rows, stride, columns, At<T>(dy, begin), At<T>(db, begin),
               accumulate);
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(SumColumnsImpl);
}  // namespace cpu

absl::Status BiasGradientArgs::RunOnCpu(const ExecContext& context) const {
  cpu::ParallelTiles(
      context, channels, cpu::ColumnsPerTask(rows),
      [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; c += cpu::kColumnTile) {
          const int64_t columns = std::min(cpu::kColumnTile, end - c);
          CASTOR_CPU_DISPATCH(SumColumnsImpl)
          (dtype, c, rows, channels, columns, dy, db, accumulate);
        }
      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
