#include "text/data/line_documents.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace castor {

absl::StatusOr<std::vector<int64_t>> DocumentStarts(
    DocumentKey key, const std::vector<int64_t>& values, int64_t tokens) {
  const auto bad = [&](auto... what) {
    return absl::InvalidArgumentError(
        absl::StrCat(kDocumentKeys[static_cast<size_t>(key)], ": ", what...));
  };
  const auto count = static_cast<int64_t>(values.size());
  if (key != DocumentKey::kLengths && count != tokens) {
    return bad("has ", count, " values, and input_ids ", tokens);
  }
  std::vector<int64_t> starts;
  // Each document's number and where it begins, for kNumbers.
  std::vector<std::pair<int64_t, int64_t>> numbers;
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = values[static_cast<size_t>(i)];
    const int64_t before = i > 0 ? values[static_cast<size_t>(i - 1)] : -1;
    switch (key) {
      case DocumentKey::kPositions:
        if (value == 0) {
          starts.push_back(i);
        } else if (i == 0 || value != before + 1) {
          return bad(value, " at position ", i,
                     " is neither 0, where a document begins, nor one more "
                     "than what is before it");
        }
        break;
      case DocumentKey::kNumbers:
        if (i > 0 && value == before) break;
        numbers.emplace_back(value, i);
        starts.push_back(i);
        break;
      case DocumentKey::kLengths:
        if (value < 1 || value > tokens - sum) {
          return bad(value, " at position ", i, " is no length of what is left",
                     " of the ", tokens, " input_ids");
        }
        starts.push_back(sum);
        sum += value;
        break;
    }
  }
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 1; i < numbers.size(); ++i) {
    const auto& [number, at] = numbers[i];
    if (number != numbers[i - 1].first) continue;
    return bad("document ", number, " goes on at position ", at,
               ", after others: a document's tokens must be adjacent");
  }
  if (key == DocumentKey::kLengths && sum != tokens) {
    return bad("has a sum of ", sum, ", and there are ", tokens, " input_ids");
  }
  return starts;
}

}  // namespace castor
