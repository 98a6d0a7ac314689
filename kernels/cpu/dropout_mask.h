// Random words and dropout masks, many at a time.
#ifndef CASTOR_KERNELS_CPU_DROPOUT_MASK_H_
#define CASTOR_KERNELS_CPU_DROPOUT_MASK_H_

#include <cstdint>

#include "base/philox.h"

namespace castor::kernels::cpu {

// words[i] = RandomWord(key, begin + i) for i in [0, size). `begin` need not be
// a multiple of anything.
void RandomWords(RandomKey key, uint64_t begin, int64_t size, uint32_t* words);

// mask[i] = scale if RandomWord(key, begin + i) >= threshold, else 0.
void DropoutMask(RandomKey key, uint64_t begin, int64_t size,
                 uint32_t threshold, float scale, float* mask);

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_CPU_DROPOUT_MASK_H_
