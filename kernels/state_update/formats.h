// The formats in which an update's states can be kept. Light: CUDA sources
// include this.
#ifndef CASTOR_KERNELS_STATE_UPDATE_FORMATS_H_
#define CASTOR_KERNELS_STATE_UPDATE_FORMATS_H_

#include <bit>
#include <cstdint>

#include "base/philox.h"
#include "base/state_format.h"

namespace castor::kernels {

// The most states that an update of this kind has of each element.
inline constexpr int kMostStates = 2;

// The format of a state whose elements have 8, 16 or 32 bits. State 0 has both
// signs, as a mean of gradients has; state 1 has none, as a mean of their
// squares.
constexpr StateFormat FormatOfState(int bits, int state) {
  return bits == 32   ? StateFormat::kFloat32
         : bits == 16 ? StateFormat::kBFloat16
         : state == 0 ? StateFormat::kSigned8
                      : StateFormat::kUnsigned8;
}

// Returns the key of the words that round masters, made from a range's key.
constexpr RandomKey MasterKey(RandomKey key) {
  return {key.seed, MixKey(key.stream, 1)};
}

// Returns the random word of a parameter's element. Elements of a tile that are
// half a tile apart share one, whose halves are swapped for the second.
constexpr uint32_t StateWord(RandomKey key, uint64_t element) {
  constexpr uint64_t kTile = kStateTile, kHalf = kTile / 2;
  const uint32_t word =
      RandomWord(key, element / kTile * kHalf + element % kHalf);
  return element % kTile < kHalf ? word : std::rotl(word, 16);
}
// Returns the bits of an element's word that round a state (FormatOfState) or,
// as state 0 of its own word, a master.
constexpr uint32_t RoundingBits(StateFormat format, int state, uint32_t word) {
  if (format == StateFormat::kSplit) return word >> 24;
  if (format == StateFormat::kBFloat16) {
    return state == 0 ? word >> 16 : word & 0xffffu;
  }
  return state == 0 ? word >> 12 : word & 0xfffffu;
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_STATE_UPDATE_FORMATS_H_
