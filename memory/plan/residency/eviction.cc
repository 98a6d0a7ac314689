#include "memory/plan/residency/eviction.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>

#include "base/check.h"

namespace castor {
namespace {

// A chunk that stays at the moment under consideration. The greatest candidate
// leaves first.
struct Candidate {
  // kCleanFirstFarthest compares whether it is clean, then `back_at` as seen in
  // this lap; whether it is clean, then its bytes.
  int64_t back_at = 0;
  int64_t clean_bytes = 0;
  int64_t gap = 0;
  int64_t until = 0;  // the use at its end, as seen in this lap

  static constexpr int64_t kClean = int64_t{1} << 62;
  int64_t bytes() const { return clean_bytes & ~kClean; }

  friend bool operator<(const Candidate& a, const Candidate& b) {
    return std::tie(a.back_at, a.clean_bytes, a.gap) <
           std::tie(b.back_at, b.clean_bytes, b.gap);
  }
};

// The candidates, in classes of sizes within a factor of two if the rule looks
// at sizes.
class Candidates {
 public:
  explicit Candidates(VictimRule rule) : rule_(rule), classes_(64) {}

  void Add(const Candidate& candidate) {
    classes_[ClassOf(candidate.bytes())].push(candidate);
  }

  // Removes the candidate that leaves next when the bytes exceed the room by
  // `excess`.
  template <typename StillThere>
  Candidate Next(int64_t excess, const StillThere& still_there) {
    const int first = ClassOf(excess);
    for (int i = first; i < static_cast<int>(classes_.size()); ++i) {
      if (Clean(i, still_there)) return Pop(i);
    }
    for (int i = first - 1; i >= 0; --i) {
      if (Clean(i, still_there)) return Pop(i);
    }
    CASTOR_CHECK(false);
  }

 private:
  int ClassOf(int64_t bytes) const {
    return rule_ == VictimRule::kFittingFarthest
               ? std::bit_width(static_cast<uint64_t>(bytes)) - 1
               : 0;
  }
  // Forgets candidates whose gap is over. Returns true if one is left.
  template <typename StillThere>
  bool Clean(int i, const StillThere& still_there) {
    while (!classes_[i].empty() && !still_there(classes_[i].top())) {
      classes_[i].pop();
    }
    return !classes_[i].empty();
  }
  Candidate Pop(int i) {
    const Candidate top = classes_[i].top();
    classes_[i].pop();
    return top;
  }

  VictimRule rule_;
  std::vector<std::priority_queue<Candidate>> classes_;
};

}  // namespace

void Evict(const UseIndex& index, const std::vector<int64_t>& free_bytes,
           const std::vector<int64_t>& back_at, VictimRule rule,
           Residency& residency) {
  const int64_t moments = index.moments();
  const std::vector<Gap>& gaps = index.gaps();
  std::vector<int64_t> staying = ChangesOfStays(index, residency);
  // No chunk leaves before the first moment that is too full.
  int64_t first = 0;
  int64_t bytes = 0;
  for (; first < moments; ++first) {
    if (bytes + staying[first] > free_bytes[first]) break;
    bytes += staying[first];
  }
  if (first == moments) return;

  Candidates candidates(rule);
  const auto add = [&](int64_t g, int64_t lap) {
    const Gap& gap = gaps[g];
    const bool clean_first =
        rule == VictimRule::kCleanFirstFarthest && !gap.dirty;
    candidates.Add({back_at[g] - lap + (clean_first ? Candidate::kClean : 0),
                    gap.bytes + (gap.dirty ? 0 : Candidate::kClean), g,
                    gap.to - lap});
  };
  for (int64_t g = 0; g < static_cast<int64_t>(gaps.size()); ++g) {
    if (!residency[g].stays) continue;
    const Gap& gap = gaps[g];
    if (gap.from + 1 < first && gap.to > first) add(g, 0);
    if (gap.to - moments > first) add(g, moments);
  }

  for (int64_t t = first; t < moments; ++t) {
    bytes += staying[t];
    for (int64_t i = index.begin_of(t); i < index.begin_of(t + 1); ++i) {
      const int64_t g = index.gaps_by_begin()[i];
      if (residency[g].stays) add(g, 0);
    }
    while (bytes > free_bytes[t]) {
      const Candidate victim =
          candidates.Next(bytes - free_bytes[t], [&](const Candidate& c) {
            return c.until > t && residency[c.gap].stays;
          });
      const Gap& gap = gaps[victim.gap];
      residency[victim.gap] = {false, gap.to, t};
      bytes -= gap.bytes;
      // Undo the end of its stay and, where the stay reaches over the end of
      // the step, its other part in this pass.
      staying[std::min(victim.until, moments)] += gap.bytes;
      if (victim.until < gap.to && gap.from + 1 < moments) {
        staying[gap.from + 1] -= gap.bytes;
        staying[moments] += gap.bytes;
      }
    }
  }
}

void KeepWhatFits(const UseIndex& index, Room& room, Residency& residency) {
  std::vector<int64_t> gone;
  for (size_t g = 0; g < residency.size(); ++g) {
    if (!residency[g].stays && !index.gaps()[g].forced()) {
      gone.push_back(static_cast<int64_t>(g));
    }
  }
  const auto cost = [&](int64_t g) {
    const Gap& gap = index.gaps()[g];
    return std::make_tuple(!gap.dirty, gap.to - gap.from, g);
  };
  std::sort(gone.begin(), gone.end(),
            [&](int64_t a, int64_t b) { return cost(a) < cost(b); });
  for (const int64_t g : gone) {
    const Gap& gap = index.gaps()[g];
    const int64_t back_at = residency[g].fetch_at;  // has its room from there
    if (room.Min(gap.from + 1, back_at) < gap.bytes) continue;
    room.Take(gap.from + 1, back_at, gap.bytes);
    residency[g] = {true, gap.to, -1};
  }
}

}  // namespace castor
