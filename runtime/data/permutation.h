// A random order of n things that is computed, not stored: where each goes
// depends on the key and n alone, so a position is all there is to resume.
//
// A Feistel network of 6 rounds, with Philox as the round function, permutes
// the smallest power of four that is at least n; a value that falls outside
// [0, n) goes through it again until it falls inside (cycle walking), which
// leaves a permutation of [0, n). Fewer than 4 passes on average.
// Sources: Luby, Rackoff, "How to construct pseudorandom permutations from
// pseudorandom functions", 1988; Black, Rogaway, "Ciphers with arbitrary
// finite domains", 2002, section 3 (cycle walking).
#ifndef CASTOR_RUNTIME_DATA_PERMUTATION_H_
#define CASTOR_RUNTIME_DATA_PERMUTATION_H_

#include <cstdint>

#include "base/philox.h"

namespace castor {

// The image of `index` in [0, n) under the permutation of [0, n) that `key`
// selects.
int64_t PermutedIndex(RandomKey key, int64_t n, int64_t index);

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_PERMUTATION_H_
