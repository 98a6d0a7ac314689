#include "runtime/data/sample_order.h"

#include "base/check.h"
#include "base/philox.h"
#include "runtime/data/permutation.h"

namespace castor {
namespace {

constexpr char kShuffle[] = "data/shuffle";

}  // namespace

int64_t SampleOrder::At(int64_t position) const {
  CASTOR_CHECK(position >= 0);
  const int64_t index = position % num_samples;
  if (!shuffle) return index;
  const uint64_t epoch = static_cast<uint64_t>(position / num_samples);
  const RandomKey key{seed,
                      MixKey(HashName(kShuffle, sizeof(kShuffle) - 1), epoch)};
  return PermutedIndex(key, num_samples, index);
}

}  // namespace castor
