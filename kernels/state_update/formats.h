// The formats in which an update's states can be kept. Light: CUDA sources
// include this.
#ifndef CASTOR_KERNELS_STATE_UPDATE_FORMATS_H_
#define CASTOR_KERNELS_STATE_UPDATE_FORMATS_H_

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

// The key of the words that round masters, of a range's key.
constexpr RandomKey MasterKey(RandomKey key) {
  return {key.seed, MixKey(key.stream, 1)};
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_STATE_UPDATE_FORMATS_H_
