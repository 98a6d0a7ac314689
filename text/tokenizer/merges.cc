#include "text/tokenizer/merges.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace castor::text {
namespace {

// Up to so many tokens, looking at all of them takes less time than a heap.
constexpr size_t kFew = 32;

// One token of a list from which tokens are taken out.
struct Link {
  int32_t id;
  int32_t previous, next;  // kEnd: none
};
constexpr int32_t kEnd = -1;

struct Candidate {
  uint64_t merge;
  int32_t place;  // of the left token
};

// A heap's top is its largest.
struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.merge != b.merge ? a.merge > b.merge : a.place > b.place;
  }
};

}  // namespace

void Merges::Apply(size_t begin, std::vector<int32_t>* ids) const {
  const size_t size = ids->size() - begin;
  if (size <= kFew) return ApplyToFew(begin, ids);
  std::vector<Link> links(size);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < size; ++i) {
    const auto place = static_cast<int32_t>(i);
    links[i] = {(*ids)[begin + i], place - 1, place + 1};
    if (i == 0) continue;
    const uint64_t merge = MergeOf(links[i - 1].id, links[i].id);
    if (merge != kNoMerge) candidates.push_back({merge, place - 1});
  }
  links[size - 1].next = kEnd;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue(
      Later(), std::move(candidates));
  const auto offer = [&](int32_t left, int32_t right) {
    if (left == kEnd || right == kEnd) return;
    const uint64_t merge = MergeOf(links[left].id, links[right].id);
    if (merge != kNoMerge) queue.push({merge, left});
  };
  while (!queue.empty()) {
    const Candidate first = queue.top();
    queue.pop();
    Link& left = links[first.place];
    // A token that was taken out points to itself.
    if (left.next == first.place || left.next == kEnd) continue;
    const int32_t right_place = left.next;
    Link& right = links[right_place];
    // The neighbours may be others than when this was offered.
    if (MergeOf(left.id, right.id) != first.merge) continue;
    left.id = static_cast<int32_t>(first.merge & 0xffffffff);
    left.next = right.next;
    if (right.next != kEnd) links[right.next].previous = first.place;
    right.next = right_place;
    offer(left.previous, first.place);
    offer(first.place, left.next);
  }
  ids->resize(begin);
  for (int32_t place = 0; place != kEnd; place = links[place].next) {
    ids->push_back(links[place].id);
  }
}

void Merges::ApplyToFew(size_t begin, std::vector<int32_t>* ids) const {
  int32_t* tokens = ids->data() + begin;
  size_t size = ids->size() - begin;
  if (size < 2) return;
  uint64_t merges[kFew];  // of each token and the next
  for (size_t i = 0; i + 1 < size; ++i) {
    merges[i] = MergeOf(tokens[i], tokens[i + 1]);
  }
  while (size > 1) {
    const size_t first = std::min_element(merges, merges + size - 1) - merges;
    if (merges[first] == kNoMerge) break;
    tokens[first] = static_cast<int32_t>(merges[first] & 0xffffffff);
    std::copy(tokens + first + 2, tokens + size, tokens + first + 1);
    std::copy(merges + first + 1, merges + size - 1, merges + first);
    --size;
    if (first + 1 < size) {
      merges[first] = MergeOf(tokens[first], tokens[first + 1]);
    }
    if (first > 0) {
      merges[first - 1] = MergeOf(tokens[first - 1], tokens[first]);
    }
  }
  ids->resize(begin + size);
}

}  // namespace castor::text
