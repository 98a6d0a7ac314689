#include "kernels/exact_sum/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/check_size.h"

namespace castor::kernels {
namespace {

// The exponent of a double's least bit.
constexpr int kLeastExponent = -1074;

}  // namespace

void ExactSum::Add(double value) {
  // The comparison is false for a NaN, too.
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
    // The sum is at most 2^63 + 2^32: it cannot overflow.
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
  // The mantissa is at most 2^53 and exact in double; ldexp gives infinity
  // where it must.
  return std::ldexp(static_cast<double>(mantissa),
                    highest - 52 + kLeastExponent);
}

absl::Status AddSquaresArgs::Check() const {
  if (size / kNormTile >= ExactSum::kMaxAddends) {
    return absl::InvalidArgumentError(absl::StrCat(
        "AddSquares: ", size, " elements are more than the ",
        ExactSum::kMaxAddends, " tiles that an exact sum takes at once"));
  }
  return CheckSize("AddSquares", size);
}

}  // namespace castor::kernels
