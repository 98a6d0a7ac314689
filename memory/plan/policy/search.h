// The search for the best plan of a step: which plans are made and simulated.
//
// All kinds of plans together are tried for steps of up to a thorough number of
// moments. For a longer step fewer are, and where its micro batches are alike
// those are tried on a short step (short_step.h); the whole step is planned
// with the best few.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_
#define CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "memory/plan/admission.h"
#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/contest.h"

namespace castor {

// The longest step that is searched through in a second, beside other work.
inline constexpr int64_t kThoroughMoments = 16 << 10;

class Search {
 public:
  // Both must outlive it.
  Search(const PlanTask& task, const Admission& admission);

  // Looks for the best plan.
  void Run();
  // Enters what was best for a short step.
  void Run(const std::vector<Recipe>& recipes);

  const Candidate& best() { return contest_.best(); }
  // The best plan, or one about as fast that moves fewer bytes.
  Candidate& taken() { return contest_.taken(); }
  std::vector<Recipe> recipes() const { return contest_.recipes(); }

 private:
  struct Best {
    double score = std::numeric_limits<double>::infinity();
    Tuning tuning;
  };
  struct BestSums {
    double score = std::numeric_limits<double>::infinity();
    double share = 0;
    std::vector<Side> side;
  };

  // States on the device spare copies and the host's work, but take room all
  // step long in which chunks could stay. So first what no moment needs for the
  // best plan without them, then shares of all that no operator needs.
  void EnterShares();
  void EnterShare(int share);
  void EnterStates(double bytes);
  // Beside the best share, and after the best sides.
  void RefineShares();
  // The same bytes spread over the step: the bus and the host then work all
  // through forward, not in its later part alone.
  void EnterSpreadSides();
  void EnterOtherTuningsOfBestSides();
  // Sums on the device take room and time that states there could have, too,
  // so they are tried without any that need not be there, and beside each
  // number of those that was tried: what is the best beside no sums leaves
  // little room for any.
  void EnterSumsBesideStates();
  // Numbers of sums and of states between those that were tried together:
  // around the best one, ever nearer.
  void RefineSums();

  // Enters plans of the schedule. Returns the best one's, and if asked for
  // which blocks were of use to it.
  Best EnterTunings(const AutoSchedule& schedule,
                    const std::vector<Tuning>& tunings, Recipe recipe,
                    std::vector<GradientBlock>* useful = nullptr);

  // Whether these sides fit and this was not called with them before.
  bool AreNewAndFit(const std::vector<Side>& side);
  // Enters plans with these sides if they are new, and remembers them.
  void EnterNewSides(std::vector<Side> side, const std::vector<Tuning>& good);
  // Enters plans with these sides, without gradient blocks and with them, where
  // `good` ones, if any are known, were good with others. Returns the best
  // score.
  double EnterSides(const std::vector<Side>& side,
                    const std::vector<Tuning>& good);
  // Those without gradient blocks. Returns the best one, and adds what was
  // tried to `tunings`.
  Best EnterWithoutBlocks(const AutoSchedule& without,
                          const std::vector<Side>& side,
                          const std::vector<Tuning>& good,
                          std::vector<Tuning>* tunings);
  // Those with blocks wherever there is room for one. Returns the best score.
  double EnterWithBlocks(const AutoSchedule& without,
                         const std::vector<Side>& side,
                         const std::vector<Tuning>& tunings);
  // Enters plans with gradient blocks where they fit, then where they were of
  // use. Returns the last round's best.
  Best EnterBlocks(const Recipe& recipe, const std::vector<PossibleSum>& sums,
                   std::vector<GradientBlock> blocks,
                   std::vector<Tuning> tunings);

  // Enters plans with these sides and sums on the device, for shares of the
  // room beside what must be there.
  void EnterSums(const std::vector<Side>& side,
                 absl::Span<const double> shares);
  // Enters plans with these sums, of which all fit, and with blocks of the
  // other chunks. Returns the best score.
  double EnterSummed(Recipe recipe, const std::vector<Tuning>& tunings,
                     const AutoSchedule& without,
                     const std::vector<GradientBlock>& possible,
                     const std::vector<PossibleSum>& sums,
                     const std::vector<double>& copies_to_try);
  void Enter(const Recipe& recipe);

  int64_t num_chunks() const {
    return static_cast<int64_t>(trace_.chunks.size());
  }

  const PlanTask& task_;
  const PlanRequest& request_;
  const StepTrace& trace_;
  const Admission& admission_;
  const bool thorough_;
  const bool refined_;
  const std::vector<Side> first_side_;
  Contest contest_;
  std::vector<std::vector<Side>> asked_;
  // Those to try sums beside, with the best score of their plans.
  std::vector<std::pair<double, std::vector<Side>>> sides_;

  // The most bytes that states on the device may have, of which shares are
  // tried with the tunings that were good without any.
  double most_states_bytes_ = 0;
  std::vector<Tuning> good_;
  int best_share_;
  double best_share_score_ = std::numeric_limits<double>::infinity();
  BestSums best_sums_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_
