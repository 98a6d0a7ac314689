#include "text/tokenizer/merges.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>

namespace castor::text {
namespace {

// Up to so many tokens, looking at all of them takes less time than a heap.
constexpr size_t kFew = 32;
// More than so many have lists instead of a heap.
constexpr size_t kMany = size_t{1} << 15;

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

// A heap keeps what waits to be merged, the first merge's leftmost place first.
// It is quick as long as the processor's caches hold it.
class Heap {
 public:
  bool empty() const { return heap_.empty(); }
  void Push(const Candidate& candidate) { heap_.push(candidate); }
  Candidate Pop() {
    const Candidate first = heap_.top();
    heap_.pop();
    return first;
  }

 private:
  // A heap's top is its largest.
  struct Later {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return std::tie(a.merge, a.place) > std::tie(b.merge, b.place);
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, Later> heap_;
};

// Lists do the same for a long text, in which few merges come at many places,
// mostly from left to right: each merge has a list of its places, and a heap of
// those that came late.
class Lists {
 public:
  bool empty() const { return lists_.empty(); }
  void Push(const Candidate& candidate) {
    List& list = lists_[candidate.merge];
    if (list.places.empty() || candidate.place >= list.places.back()) {
      list.places.push_back(candidate.place);
    } else {
      list.late.push(candidate.place);
    }
  }
  Candidate Pop() {
    const auto first = lists_.begin();
    List& list = first->second;
    Candidate candidate = {first->first, 0};
    const bool has_next = list.next < list.places.size();
    if (!list.late.empty() &&
        (!has_next || list.late.top() < list.places[list.next])) {
      candidate.place = list.late.top();
      list.late.pop();
    } else {
      candidate.place = list.places[list.next++];
    }
    if (list.late.empty() && list.next == list.places.size()) {
      lists_.erase(first);
    }
    return candidate;
  }

 private:
  struct List {
    std::vector<int32_t> places;
    size_t next = 0;  // of places
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> late;
  };
  std::map<uint64_t, List> lists_;  // by merge
};

}  // namespace

void Merges::Apply(size_t begin, std::vector<int32_t>* ids) const {
  const size_t size = ids->size() - begin;
  if (size <= kFew) return ApplyToFew(begin, ids);
  if (size <= kMany) return ApplyToMany<Heap>(begin, ids);
  return ApplyToMany<Lists>(begin, ids);
}

template <class Queue>
void Merges::ApplyToMany(size_t begin, std::vector<int32_t>* ids) const {
  const size_t size = ids->size() - begin;
  std::vector<Link> links(size);
  Queue queue;
  const auto offer = [&](int32_t left, int32_t right) {
    if (left == kEnd || right == kEnd) return;
    const uint64_t merge = MergeOf(links[left].id, links[right].id);
    if (merge != kNoMerge) queue.Push({merge, left});
  };
  for (size_t i = 0; i < size; ++i) {
    const auto place = static_cast<int32_t>(i);
    links[i] = {(*ids)[begin + i], place - 1, place + 1};
    if (i > 0) offer(place - 1, place);
  }
  links[size - 1].next = kEnd;
  while (!queue.empty()) {
    const Candidate first = queue.Pop();
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
