// The best candidate of a search, and those about as fast that move fewer
// bytes.
//
// How long a step takes is known to no better than its operators' durations,
// which vary from step to step by more than what often separates two plans.
// Bytes are certain: they take power and memory's bandwidth, and the time of
// whoever shares the bus. So of plans that are as fast within kAlike the one
// that moves the fewest is taken. All are compared with the best one, never
// with one that took another's place before, so that no more than kAlike is
// given away.
#ifndef CASTOR_MEMORY_PLAN_POLICY_CLOSE_CANDIDATES_H_
#define CASTOR_MEMORY_PLAN_POLICY_CLOSE_CANDIDATES_H_

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace castor {

// The part of a step by which plans that count as alike differ at most.
inline constexpr double kAlike = 0.002;

// A candidate has a `score` and a `step_ns`, both of which are to be small, and
// `moved_bytes`.
template <class Candidate>
class CloseCandidates {
 public:
  explicit CloseCandidates(Candidate first) {
    close_.push_back(std::move(first));
  }

  void Enter(Candidate candidate) {
    if (candidate.score > (1 + kAlike) * best().score) return;
    const auto place = std::find_if(
        close_.begin(), close_.end(),
        [&](const Candidate& known) { return candidate.score < known.score; });
    // All before it are as good by their score, the last of them has the fewest
    // bytes.
    if (place != close_.begin() &&
        std::prev(place)->moved_bytes <= candidate.moved_bytes) {
      return;
    }
    close_.insert(place, std::move(candidate));
    Prune();
  }

  // The one of the least score; of equal ones that of the fewest bytes, then
  // the first.
  Candidate& best() { return close_.front(); }
  // The one that moves the fewest bytes, of those whose step is at most kAlike
  // longer than the best one's.
  Candidate& fewest_bytes() {
    const double most_ns = (1 + kAlike) * best().step_ns;
    return *std::find_if(
        close_.rbegin(), close_.rend(),
        [&](const Candidate& each) { return each.step_ns <= most_ns; });
  }

 private:
  // Leaves those that are still close and better in one of the two.
  void Prune() {
    const double most_score = (1 + kAlike) * best().score;
    auto kept = close_.begin();
    for (auto each = std::next(kept); each != close_.end(); ++each) {
      if (each->score > most_score || each->moved_bytes >= kept->moved_bytes) {
        continue;
      }
      if (each->score > kept->score) ++kept;
      if (kept != each) *kept = std::move(*each);
    }
    close_.erase(std::next(kept), close_.end());
  }

  // By ascending score, each with fewer bytes than those before it.
  std::vector<Candidate> close_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_CLOSE_CANDIDATES_H_
