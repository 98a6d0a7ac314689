#include "text/tokenizer/unicode/code_point_set.h"

#include <algorithm>
#include <map>

#include "absl/strings/string_view.h"
#include "base/check.h"

namespace castor::text {

CodePointSet::CodePointSet(char32_t begin, char32_t end) {
  if (begin < end) ranges_.push_back({begin, end});
}

CodePointSet CodePointSet::FromGaps(absl::Span<const uint32_t> gaps) {
  CodePointSet set;
  char32_t end = 0;
  for (size_t i = 0; i + 1 < gaps.size(); i += 2) {
    const char32_t begin = end + gaps[i];
    end = begin + gaps[i + 1];
    set.ranges_.push_back({begin, end});
  }
  return set;
}

bool CodePointSet::Contains(char32_t code_point) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), code_point,
      [](char32_t c, const Range& range) { return c < range.begin; });
  return after != ranges_.begin() && code_point < std::prev(after)->end;
}

CodePointSet CodePointSet::Union(const CodePointSet& other) const {
  std::vector<Range> all;
  std::merge(ranges_.begin(), ranges_.end(), other.ranges_.begin(),
             other.ranges_.end(), std::back_inserter(all),
             [](const Range& a, const Range& b) { return a.begin < b.begin; });
  CodePointSet result;
  for (const Range& range : all) {
    if (!result.ranges_.empty() && range.begin <= result.ranges_.back().end) {
      result.ranges_.back().end =
          std::max(result.ranges_.back().end, range.end);
    } else {
      result.ranges_.push_back(range);
    }
  }
  return result;
}

CodePointSet CodePointSet::Intersection(const CodePointSet& other) const {
  return Complement().Union(other.Complement()).Complement();
}

CodePointSet CodePointSet::Complement() const {
  CodePointSet result;
  char32_t end = 0;
  for (const Range& range : ranges_) {
    if (end < range.begin) result.ranges_.push_back({end, range.begin});
    end = range.end;
  }
  if (end < kNumCodePoints) result.ranges_.push_back({end, kNumCodePoints});
  return result;
}

CodePointTable::CodePointTable(const std::vector<uint8_t>& values) {
  CASTOR_CHECK(values.size() == kNumCodePoints);
  std::map<absl::string_view, uint16_t> known;
  for (size_t i = 0; i < block_of_.size(); ++i) {
    const uint8_t* block = values.data() + i * 256;
    const auto [place, is_new] = known.emplace(
        absl::string_view(reinterpret_cast<const char*>(block), 256),
        static_cast<uint16_t>(known.size()));
    if (is_new) blocks_.insert(blocks_.end(), block, block + 256);
    block_of_[i] = place->second;
  }
}

}  // namespace castor::text
