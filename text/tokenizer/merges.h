// The rules by which two neighbouring tokens become one, and their order: the
// learned part of byte pair encoding.
#ifndef CASTOR_TEXT_TOKENIZER_MERGES_H_
#define CASTOR_TEXT_TOKENIZER_MERGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/tokenizer/open_table.h"

namespace castor::text {

class Merges {
 public:
  explicit Merges(size_t expected) : table_(expected) {}

  // Adds a merge, which comes before all that are added later. One of the same
  // pair replaces an earlier one.
  void Add(int32_t left, int32_t right, int32_t result) {
    table_.Set(KeyOf(left, right),
               uint64_t{num_added_++} << 32 | static_cast<uint32_t>(result));
    results_.push_back(result);
  }
  const std::vector<int32_t>& results() const { return results_; }

  // Merges the tokens of *ids from `begin` on, until no two neighbours have a
  // merge. n tokens cost n log n.
  void Apply(size_t begin, std::vector<int32_t>* ids) const;

 private:
  // A merge of two neighbours: its order in the upper half, the resulting token
  // in the lower. The least comes first.
  static constexpr uint64_t kNoMerge = ~uint64_t{0};

  static uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 |
           static_cast<uint32_t>(right);
  }
  uint64_t MergeOf(int32_t left, int32_t right) const {
    const uint64_t* merge = table_.Find(KeyOf(left, right));
    return merge == nullptr ? kNoMerge : *merge;
  }
  // Uses a queue of places that may be merged (merges.cc).
  template <class Queue>
  void ApplyToMany(size_t begin, std::vector<int32_t>* ids) const;
  // For few tokens: looks for the first merge among all, each time.
  void ApplyToFew(size_t begin, std::vector<int32_t>* ids) const;

  OpenTable table_;
  std::vector<int32_t> results_;
  uint32_t num_added_ = 0;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_MERGES_H_
