// The best of the plans that a search has made, and what they were made from.
#ifndef CASTOR_MEMORY_PLAN_POLICY_CONTEST_H_
#define CASTOR_MEMORY_PLAN_POLICY_CONTEST_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/close_candidates.h"

namespace castor {

// What a candidate was made from, for a step with more micro batches.
struct Recipe {
  std::vector<Side> side;
  std::vector<int64_t> summed;  // chunks whose sums are on the device
  // Gradient blocks are dropped after so many copies; absent: there are none.
  std::optional<double> copies;
  Tuning tuning;

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

// The best so far, never one that is slower than the cpu policy's.
class Contest {
 public:
  explicit Contest(Candidate cpu)
      : slowest_ns_(cpu.step_ns), close_(std::move(cpu)) {}

  void Enter(Candidate candidate, const Recipe& recipe);

  // The one to go on from, and the one to take.
  const Candidate& best() { return close_.best(); }
  Candidate& taken() { return close_.fewest_bytes(); }
  // Those of the best few, the best first.
  std::vector<Recipe> recipes() const;
  // The best one's of those with early fetches, then of the others, if any.
  std::vector<Tuning> tunings() const;
  int64_t entered() const { return entered_; }
  // What the plan that keeps the least room free leaves.
  int64_t spare_bytes() const { return spare_bytes_; }

 private:
  void Remember(double score, const Recipe& recipe);

  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double slowest_ns_;
  CloseCandidates<Candidate> close_;
  // The best score and its tuning, by whether fetches are early.
  std::pair<double, Tuning> tunings_[2] = {{kNone, {}}, {kNone, {}}};
  std::vector<std::pair<double, Recipe>> finalists_;
  int64_t entered_ = 0;
  int64_t spare_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_CONTEST_H_
