#include "kernels/exact_sum/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/check_size.h"
#include "kernels/exact_sum/nearest_double.h"

namespace castor::kernels {

static_assert(kExactLimbs == ExactSum::kLimbs);

void ExactSum::Add(double value) {
  // The comparison is false for a NaN, too.
  if (!(value >= 0) || std::isinf(value)) {
    ++invalid;
    return;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(value) & ~(uint64_t{1} << 63);
  const int exponent = static_cast<int>(bits >> 52);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  int position = 0;  // of the mantissa's lowest bit, from 2^-1074
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
  return NearestDouble(limbs.data());
}

absl::Status AddSquaresArgs::Check() const {
  if (size / kNormTile >= ExactSum::kMaxAddends) {
    return absl::InvalidArgumentError(absl::StrCat(
        "AddSquares: ", size, " elements are more than the ",
        ExactSum::kMaxAddends, " tiles that an exact sum takes at once"));
  }
  return CheckSize("AddSquares", size);
}

absl::Status ExactSumValuesArgs::Check() const {
  return CheckSize("ExactSumValues", count);
}

}  // namespace castor::kernels
