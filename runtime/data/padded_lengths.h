// The lengths to which batches are padded: few, since a step of each length is
// traced and planned by itself, and such that little is padded.
#ifndef CASTOR_RUNTIME_DATA_PADDED_LENGTHS_H_
#define CASTOR_RUNTIME_DATA_PADDED_LENGTHS_H_

#include <cstdint>
#include <vector>

namespace castor {

// Counts samples by their lengths, which it tells apart in at most 64 classes:
// of multiples of 8 tokens, or of as many more as it takes.
class LengthCounts {
 public:
  static constexpr int64_t kMostLengths = 5;
  // The cost that fewer lengths may have, as a share of the tokens of
  // kMostLengths lengths.
  static constexpr double kAllowance = 0.05;

  // Lengths are in [1, longest], and padded to no more than `most`, at least
  // `longest`.
  LengthCounts(int64_t longest, int64_t most);

  void Add(int64_t length) { ++counts_[(length - 1) / unit_]; }

  // The padded lengths, ascending, of which the last one has room for the
  // longest sample. They are the fewest, of at most kMostLengths, for which
  // samples, each padded to the next of them, have at most kAllowance more
  // tokens than for the best choice of kMostLengths. That choice is found
  // exactly, class by class.
  std::vector<int64_t> PaddedLengths() const;

 private:
  int64_t LengthOf(int64_t cell) const;

  const int64_t most_;
  const int64_t unit_;
  std::vector<int64_t> counts_;  // of lengths in (unit i, unit (i + 1)]
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_PADDED_LENGTHS_H_
