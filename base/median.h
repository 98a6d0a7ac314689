#ifndef CASTOR_BASE_MEDIAN_H_
#define CASTOR_BASE_MEDIAN_H_

#include <algorithm>
#include <vector>

namespace castor {

// Returns the median: the lower one of two in the middle; T() without values.
template <typename T>
T Median(std::vector<T> values) {
  if (values.empty()) return T();
  const auto middle = values.begin() + (values.size() - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace castor

#endif  // CASTOR_BASE_MEDIAN_H_
