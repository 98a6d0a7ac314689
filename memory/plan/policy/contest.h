// Keeps the best of the plans that a search makes, with the choices that they
// were made from.
#ifndef CASTOR_MEMORY_PLAN_POLICY_CONTEST_H_
#define CASTOR_MEMORY_PLAN_POLICY_CONTEST_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/close_candidates.h"

namespace castor {

// The choices that a candidate was made from, by which the plan of a step with
// more micro batches can be made.
struct Recipe {
  std::vector<Side> side;
  std::vector<int64_t> summed;  // chunks whose sums are on the device
  // Copies after which gradient blocks are dropped; absent: there are none.
  std::optional<double> copies;
  Tuning tuning;
};

// Holds the best candidates so far, none of them slower than the cpu policy's.
class Contest {
 public:
  explicit Contest(Candidate cpu)
      : slowest_ns_(cpu.step_ns), close_(std::move(cpu)) {}

  void Enter(Candidate candidate, const Recipe& recipe);

  // The candidate to search on from, and the one to take as the result.
  const Candidate& best() { return close_.best(); }
  Candidate& taken() { return close_.fewest_bytes(); }
  // Returns the recipes of the best few, the best first.
  std::vector<Recipe> recipes() const;
  int64_t entered() const { return entered_; }

 private:
  void Remember(double score, const Recipe& recipe);

  double slowest_ns_;
  CloseCandidates<Candidate> close_;
  std::vector<std::pair<double, Recipe>> finalists_;
  int64_t entered_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_CONTEST_H_
