#include "kernels/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "kernels/checks.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/gpu_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/exact_sum.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
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
// From element `begin` on.
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

namespace {
// The exponent of a double's least bit.
constexpr int kLeastExponent = -1074;
}  // namespace

void ExactSum::Add(double value) {
  // Also false for a NaN.
  if (!(value >= 0) || std::isinf(value)) {
    ++invalid;
    return;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(value) & ~(uint64_t{1} << 63);
  const int exponent = static_cast<int>(bits >> 52);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  int position = 0;  // of the mantissa's lowest bit, from kLeastExponent
  if (exponent != 0) {
    mantissa |= uint64_t{1} << 52;
    position = exponent - 1;
  }
  // 53 bits from bit 0 .. 31 of a limb: three limbs at most.
  const unsigned __int128 wide = static_cast<unsigned __int128>(mantissa)
                                 << (position % 32);
  int64_t* limb = &limbs[position / 32];
  limb[0] += static_cast<uint32_t>(wide);
  limb[1] += static_cast<uint32_t>(wide >> 32);
  limb[2] += static_cast<uint32_t>(wide >> 64);
}

void ExactSum::Add(const ExactSum& other) {
  // Two limbs of less than 2^63 and a carry of less than 2^32 fit an unsigned
  // word. The last limb keeps what is beyond it, which no double reaches.
  uint64_t carry = 0;
  for (int i = 0; i < kLimbs; ++i) {
    const uint64_t total = static_cast<uint64_t>(limbs[i]) +
                           static_cast<uint64_t>(other.limbs[i]) + carry;
    const bool last = i + 1 == kLimbs;
    limbs[i] = static_cast<int64_t>(last ? total : total & 0xffffffff);
    carry = total >> 32;
  }
  invalid += other.invalid;
  invalid_label = std::max(invalid_label, other.invalid_label);
}

double ExactSum::Value() const {
  if (invalid != 0) return std::numeric_limits<double>::quiet_NaN();
  // Digits of base 2^32. The last carry is below 2^32 too: limbs hold at most
  // 2^63.
  std::array<uint32_t, kLimbs + 1> digits;
  uint64_t carry = 0;
  for (int i = 0; i < kLimbs; ++i) {
    // At most 2^63 + 2^32: no overflow.
    const uint64_t sum = static_cast<uint64_t>(limbs[i]) + carry;
    digits[i] = static_cast<uint32_t>(sum);
    carry = sum >> 32;
  }
  digits[kLimbs] = static_cast<uint32_t>(carry);
  int top = kLimbs;
  while (top > 0 && digits[top] == 0) --top;
  const int highest =
      32 * top + 31 - std::countl_zero(digits[top] | (top == 0 ? 1u : 0u));
  if (highest < 53) {
    const uint64_t small = digits[0] | (uint64_t{digits[1]} << 32);
    return std::ldexp(static_cast<double>(small), kLeastExponent);
  }
  const auto bit = [&](int position) -> uint64_t {
    return (digits[position / 32] >> (position % 32)) & 1u;
  };
  uint64_t mantissa = 0;
  for (int i = 0; i < 53; ++i) mantissa = 2 * mantissa + bit(highest - i);
  const int half = highest - 53;
  bool sticky = (digits[half / 32] & ((uint32_t{1} << (half % 32)) - 1)) != 0;
  for (int i = 0; i < half / 32 && !sticky; ++i) sticky = digits[i] != 0;
  if (bit(half) && (sticky || (mantissa & 1))) ++mantissa;
  // At most 2^53, exact in double; ldexp gives infinity where it must.
  return std::ldexp(static_cast<double>(mantissa),
                    highest - 52 + kLeastExponent);
}

absl::Status AddSquares(const ExecContext& context, int64_t size, DType dtype,
                        const void* x, ExactSum* sum, int64_t label) {
  if (size / kNormTile >= ExactSum::kMaxAddends) {
    return absl::InvalidArgumentError(absl::StrCat(
        "AddSquares: ", size, " elements are more than the ",
        ExactSum::kMaxAddends, " tiles that an exact sum takes at once"));
  }
  if (context.gpu != nullptr) {
    return context.gpu->kernels->add_squares(context, size, dtype, x, sum,
                                             label);
  }
  if (absl::Status s = CheckSize("AddSquares", size); !s.ok()) return s;
  static_assert(cpu::kElementTile % kNormTile == 0);
  std::mutex mutex;  // of *sum; the order of tasks does not matter
  cpu::ParallelTiles(
      context, size, cpu::kElementTile, [&](int64_t begin, int64_t end) {
        double sums[cpu::kElementTile / kNormTile];
        HWY_DYNAMIC_DISPATCH(cpu::TilesSquaresImpl)
        (dtype, begin, end - begin, x, sums);
        ExactSum local;
        const int64_t tiles = (end - begin + kNormTile - 1) / kNormTile;
        for (int64_t t = 0; t < tiles; ++t) local.Add(sums[t]);
        if (local.invalid != 0) local.invalid_label = label;
        std::lock_guard<std::mutex> lock(mutex);
        sum->Add(local);
      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
