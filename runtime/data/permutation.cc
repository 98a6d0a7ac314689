#include "runtime/data/permutation.h"

#include <bit>

#include "base/check.h"

namespace castor {
namespace {

constexpr int kRounds = 6;

}  // namespace

int64_t PermutedIndex(RandomKey key, int64_t n, int64_t index) {
  CASTOR_CHECK(n >= 1 && index >= 0 && index < n);
  const int bits = std::bit_width(static_cast<uint64_t>(n - 1));
  const int half = (bits + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const auto words = Philox4x32(key, (round << 32) | right);
      const uint64_t mixed = left ^ (words[0] & mask);
      left = right;
      right = mixed;
    }
    value = (left << half) | right;
  } while (value >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(value);
}

}  // namespace castor
