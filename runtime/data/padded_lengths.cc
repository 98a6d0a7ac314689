#include "runtime/data/padded_lengths.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/units.h"

namespace castor {
namespace {

constexpr int64_t kMostClasses = 64;
constexpr int64_t kLeastUnit = 8;

}  // namespace

LengthCounts::LengthCounts(int64_t longest, int64_t most)
    : most_(most),
      unit_(RoundUp(CeilDiv(longest, kMostClasses), kLeastUnit)),
      counts_(static_cast<size_t>(CeilDiv(longest, unit_)), 0) {
  CASTOR_CHECK(longest >= 1 && longest <= most);
}

int64_t LengthCounts::LengthOf(int64_t cell) const {
  return std::min(most_, unit_ * (cell + 1));
}

std::vector<int64_t> LengthCounts::PaddedLengths() const {
  const auto classes = static_cast<int64_t>(counts_.size());
  // best[k][c]: the tokens of the samples of the classes up to c, padded to the
  // best k + 1 lengths of which c's is the last; before[k][c]: the class of the
  // length before it, or -1.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(
      kMostLengths, std::vector<double>(counts_.size(), kNever));
  std::vector<std::vector<int64_t>> before(
      kMostLengths, std::vector<int64_t>(counts_.size(), -1));
  for (int64_t k = 0; k < kMostLengths; ++k) {
    for (int64_t c = 0; c < classes; ++c) {
      // Samples of the classes in (b, c].
      double samples = 0;
      for (int64_t b = c - 1; b >= -1; --b) {
        samples += static_cast<double>(counts_[b + 1]);
        if (k == 0 && b >= 0) continue;
        if (k > 0 && b < 0) continue;
        const double tokens = samples * static_cast<double>(LengthOf(c)) +
                              (k > 0 ? best[k - 1][b] : 0);
        if (tokens >= best[k][c]) continue;
        best[k][c] = tokens;
        before[k][c] = b;
      }
    }
  }
  double least = kNever;
  for (int64_t k = 0; k < kMostLengths; ++k) {
    least = std::min(least, best[k][classes - 1]);
  }
  int64_t k = 0;
  while (best[k][classes - 1] > (1 + kAllowance) * least) ++k;
  std::vector<int64_t> lengths;
  for (int64_t c = classes - 1; c >= 0; c = before[k--][c]) {
    lengths.push_back(LengthOf(c));
  }
  std::reverse(lengths.begin(), lengths.end());
  return lengths;
}

}  // namespace castor
