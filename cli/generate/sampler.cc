#include "cli/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/philox.h"

namespace castor::cli {

int32_t Sampler::Next(absl::Span<const float> logits, int64_t position) const {
  const auto likeliest_at = std::max_element(logits.begin(), logits.end());
  const int32_t likeliest = static_cast<int32_t>(likeliest_at - logits.begin());
  const float most = *likeliest_at;
  if (options_.temperature == 0) return likeliest;
  std::vector<double> weights(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((static_cast<double>(logits[i]) - most) /
                          options_.temperature);
    total += weights[i];
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (options_.top_p < 1) {
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return weights[a] > weights[b];
    });
    double sum = 0;
    size_t size = 0;
    while (size < order.size() && sum < options_.top_p * total) {
      sum += weights[order[size++]];
    }
    order.resize(size);
    total = sum;
  }
  const uint32_t word = RandomWord({.seed = options_.seed, .stream = 0},
                                   static_cast<uint64_t>(position));
  double left = (static_cast<double>(word) + 0.5) * 0x1p-32 * total;
  for (const int32_t token : order) {
    left -= weights[token];
    if (left < 0) return token;
  }
  // Only rounding leads here.
  return likeliest;
}

}  // namespace castor::cli
