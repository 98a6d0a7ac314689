// Which sample stands at a position of a run that goes through n samples again
// and again: without shuffling, position p has sample p mod n; with it, the
// place of p mod n in the permutation (permutation.h) of epoch p / n, keyed by
// the seed and the epoch. So a position is all there is to save and to resume.
#ifndef CASTOR_RUNTIME_DATA_SAMPLE_ORDER_H_
#define CASTOR_RUNTIME_DATA_SAMPLE_ORDER_H_

#include <cstdint>

namespace castor {

struct SampleOrder {
  int64_t num_samples = 1;  // n
  bool shuffle = false;
  uint64_t seed = 0;

  // In [0, n).
  int64_t At(int64_t position) const;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_SAMPLE_ORDER_H_
