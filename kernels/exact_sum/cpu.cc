#include <algorithm>
#include <cstddef>
#include <mutex>

#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/exact_sum/exact_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exact_sum/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// A tile's sum of squares: element i in partial sum i mod 8, partial sums added
// 0 + 4, 1 + 5, 2 + 6, 3 + 7, then these 0 + 2, 1 + 3, then the two. The square
// of a float is exact in double, so only additions round.
inline constexpr int64_t kPartialSums = 8;
using F64 = hn::CappedTag<double, 8>;
using HalfF32 = hn::Rebind<float, F64>;
inline constexpr int64_t kDoubles = static_cast<int64_t>(hn::MaxLanes(F64()));

template <class T>
HWY_INLINE double TileSquares(const T* x) {
  constexpr int64_t kVectors = kPartialSums / kDoubles;
  const F64 d;
  hn::Vec<F64> sum[kVectors];
  for (auto& v : sum) v = hn::Zero(d);
  for (int64_t i = 0; i < kNormTile; i += kPartialSums) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto e = hn::PromoteTo(d, LoadAs(HalfF32(), x + i + v * kDoubles));
      sum[v] = hn::Add(sum[v], hn::Mul(e, e));
    }
  }
  double s[kPartialSums];
  for (int64_t v = 0; v < kVectors; ++v) {
    hn::StoreU(sum[v], d, s + v * kDoubles);
  }
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

// sums[t] for the tiles of x [size]; the last may be partial.
template <class T>
HWY_INLINE void TilesSquares(int64_t size, const T* x, double* sums) {
  int64_t i = 0;
  for (; i + kNormTile <= size; i += kNormTile) *sums++ = TileSquares(x + i);
  if (i < size) {
    T padded[kNormTile] = {};
    std::memcpy(padded, x + i, (size - i) * sizeof(T));
    *sums = TileSquares(padded);
  }
}
// The same for the elements from `begin` on.
void TilesSquaresImpl(DType dtype, int64_t begin, int64_t size, const void* x,
                      double* sums) {
  WithType(dtype, [&]<class T>(T)
                      HWY_ATTR { TilesSquares(size, At<T>(x, begin), sums); });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(TilesSquaresImpl);
}  // namespace cpu

void AddTilesSquares(DType dtype, int64_t size, const void* x, ExactSum* sum) {
  constexpr int64_t kTiles = 512;
  double sums[kTiles];
  for (int64_t begin = 0; begin < size; begin += kTiles * kNormTile) {
    const int64_t elements = std::min(kTiles * kNormTile, size - begin);
    CASTOR_CPU_DISPATCH(TilesSquaresImpl)
    (dtype, begin, elements, x, sums);
    const int64_t tiles = (elements + kNormTile - 1) / kNormTile;
    for (int64_t t = 0; t < tiles; ++t) sum->Add(sums[t]);
  }
}

absl::Status AddSquaresArgs::RunOnCpu(const ExecContext& context) const {
  static_assert(cpu::kElementTile % kNormTile == 0);
  std::mutex mutex;  // of *sum; the order of tasks does not matter
  cpu::ParallelTiles(
      context, size, cpu::kElementTile, [&](int64_t begin, int64_t end) {
        ExactSum local;
        AddTilesSquares(
            dtype, end - begin,
            static_cast<const std::byte*>(x) + begin * SizeOf(dtype), &local);
        if (local.invalid != 0) local.invalid_label = label;
        std::lock_guard<std::mutex> lock(mutex);
        sum->Add(local);
      });
  return absl::OkStatus();
}

absl::Status ExactSumValuesArgs::RunOnCpu(const ExecContext&) const {
  for (int64_t i = 0; i < count; ++i) values[i] = sums[i].Value();
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
