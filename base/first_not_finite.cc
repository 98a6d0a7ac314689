#include "base/first_not_finite.h"

#include <bit>
#include <cmath>

namespace castor {
namespace {

// Values that are looked at together. A count that compilers know lets them use
// vectors.
constexpr int64_t kTogether = 256;

bool AllFinite(const float* values) {
  // All bits of the exponent are set where a value is not finite.
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t found = 0;
  for (int64_t i = 0; i < kTogether; ++i) {
    const uint32_t exponent = std::bit_cast<uint32_t>(values[i]) & kExponent;
    found |= exponent == kExponent ? 1 : 0;
  }
  return found == 0;
}

}  // namespace

int64_t FirstNotFinite(absl::Span<const float> values) {
  const int64_t size = static_cast<int64_t>(values.size());
  int64_t i = 0;
  while (size - i >= kTogether && AllFinite(values.data() + i)) i += kTogether;
  for (; i < size; ++i) {
    if (!std::isfinite(values[i])) return i;
  }
  return -1;
}

}  // namespace castor
