// Keeps the best candidate of a search, and candidates about as fast that move
// fewer bytes.
//
// A step's length is known no better than its operators' durations, which often
// vary from step to step by more than two plans differ. The bytes moved are
// certain: they cost power, memory bandwidth and other users' time on the bus.
// So among plans within kAlike of the fastest the one that moves the fewest
// bytes is taken. All are compared with the fastest, so that no more than
// kAlike is given away.
#ifndef CASTOR_MEMORY_PLAN_POLICY_CLOSE_CANDIDATES_H_
#define CASTOR_MEMORY_PLAN_POLICY_CLOSE_CANDIDATES_H_

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace castor {

// Plans whose steps differ by at most this fraction count as equally fast.
inline constexpr double kAlike = 0.002;

// A candidate has a `score`, a `step_ns` and `moved_bytes`, of each of which
// less is better.
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
    // All before it have no higher score; the last of them has the fewest
    // bytes.
    if (place != close_.begin() &&
        std::prev(place)->moved_bytes <= candidate.moved_bytes) {
      return;
    }
    close_.insert(place, std::move(candidate));
    Prune();
  }

  // The candidate of the least score; of equal ones that of the fewest bytes,
  // then the first.
  Candidate& best() { return close_.front(); }
  // The candidate that moves the fewest bytes, of those whose step is at most
  // kAlike longer than the best one's.
  Candidate& fewest_bytes() {
    const double most_ns = (1 + kAlike) * best().step_ns;
    return *std::find_if(
        close_.rbegin(), close_.rend(),
        [&](const Candidate& each) { return each.step_ns <= most_ns; });
  }

 private:
  // Removes candidates that are no longer close to the best, or have no fewer
  // bytes than one with a lower score.
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

  // Sorted by ascending score; each has fewer bytes than those before it.
  std::vector<Candidate> close_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_CLOSE_CANDIDATES_H_
