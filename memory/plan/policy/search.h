// The search for the best plan of a step: which plans are made and simulated.
//
// A plan's sides and its sums on the device are chosen first, then its tuning
// and its gradient blocks. Of many sides and sums a plan or few are made each,
// with tunings that were good before: they are tried. The best few are then
// searched through: all their tunings and gradient blocks are entered. In the
// end neighbours of the best plan are, chosen at random, from the same seed in
// every search.
//
// How many are tried depends on the step (effort.h), so that a search takes a
// second at most and does not outlast a few steps. Where the micro batches of a
// long step are alike, a short one is searched through (short_step.h), and the
// whole step is planned with the best few of that.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_
#define CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_

#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "memory/plan/admission.h"
#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/contest.h"
#include "memory/plan/policy/effort.h"

namespace castor {

class Search {
 public:
  // Both must outlive it.
  Search(const PlanTask& task, const Admission& admission);

  // Looks for the best plan.
  void Run();
  // Enters what was best for a short step.
  void Run(const std::vector<Recipe>& recipes);

  // What Run makes of it.
  const SearchEffort& effort() const { return effort_; }

  const Candidate& best() { return contest_.best(); }
  // The best plan, or one about as fast that moves fewer bytes.
  Candidate& taken() { return contest_.taken(); }
  std::vector<Recipe> recipes() const { return contest_.recipes(); }
  // How many plans were made.
  int64_t plans() const { return contest_.entered(); }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // kProbe: what is tried; kNear: a neighbour of the best, whose gradient
  // blocks are those of use; kFull: what is searched through.
  enum Effort { kProbe, kNear, kFull };

  struct Best {
    double score = kNever;
    Tuning tuning;
  };
  struct TriedSides {
    double score = kNever;
    std::vector<Side> side;

    bool operator<(const TriedSides& other) const {
      return score < other.score;
    }
  };
  struct TriedSums {
    double score = kNever;
    std::vector<Side> side;
    std::vector<PossibleSum> fitting;
    bool entered = false;  // searched through

    bool operator<(const TriedSums& other) const { return score < other.score; }
  };
  // What there may be with some sides.
  struct SumsBeside {
    AutoSchedule without;  // sums and blocks
    std::vector<GradientBlock> blocks;
    std::vector<PossibleSum> all;
    double bytes = 0;  // of the room that all moments have, what sums may take
  };

  // States on the device spare copies and the host's work, but take room all
  // step long in which chunks could stay. So first what no moment needs for the
  // best plan without them is tried, then shares of all that no operator needs.
  void TryShares();
  // Beside the best share.
  void RefineShares();
  void TrySharesBeside(int distance);
  void TryShare(int share);
  // The same bytes spread over the step: the bus and the host then work all
  // through forward, not in its later part alone.
  void TrySpreadSides();
  // Both return the best score, kNever if there is none that fits and was not
  // tried before.
  double TryStates(double bytes);
  double TrySides(std::vector<Side> side);
  // Searches through the best of those that were tried.
  void EnterBestSides(int64_t number);

  // Sums on the device take room and time that states there could have, too,
  // so they are tried without any that need not be there, and beside each
  // number of those that was tried: what is the best beside no sums leaves
  // little room for any.
  void TrySumsBesideStates();
  // Shares of the room beside what must be there with these sides.
  void TrySums(const std::vector<Side>& side, absl::Span<const double> shares);
  // Searches through the best of those that were tried, and keeps these alone.
  void EnterBestSums();
  SumsBeside FindSums(const std::vector<Side>& side) const;

  // Enters plans of the schedule. Returns the best one's, and if asked for
  // which blocks were of use to it.
  Best EnterTunings(const AutoSchedule& schedule,
                    const std::vector<Tuning>& tunings, Recipe recipe,
                    Effort effort,
                    std::vector<GradientBlock>* useful = nullptr);

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
                         const std::vector<Tuning>& tunings, Effort effort);
  // After how many copies gradient blocks are dropped.
  static std::vector<double> CopiesFor(Effort effort);
  // Enters plans with gradient blocks where they fit, then where they were of
  // use. Returns the last round's best.
  Best EnterBlocks(const Recipe& recipe, const std::vector<PossibleSum>& sums,
                   std::vector<GradientBlock> blocks,
                   std::vector<Tuning> tunings, Effort effort);

  // Enters plans with these sides and those sums on the device, of which all
  // fit, and with blocks of the other chunks. Both return the best score.
  double EnterSums(const SumsBeside& beside, const std::vector<Side>& side,
                   const std::vector<PossibleSum>& fitting, Effort effort);
  double EnterSummed(Recipe recipe, const std::vector<Tuning>& tunings,
                     const SumsBeside& beside,
                     const std::vector<PossibleSum>& sums,
                     const std::vector<double>& copies_to_try, Effort effort);
  // Returns the best score.
  double Enter(const Recipe& recipe, Effort effort);

  // Enters neighbours of the best few plans, as long as many in a row are not
  // in vain.
  void Climb();
  // One that has the states or the sums of a chunk or two on the other side, or
  // one or two other tunings; it fits. Sums that are no shorter than the
  // gradients stay where they are.
  Recipe Neighbour(const Recipe& recipe, std::mt19937_64& random) const;
  // States of any chunks leave the device until all fit.
  void MakeRoom(std::vector<Side>* side, std::mt19937_64& random) const;

  // Whether what must be on the device with these sides does.
  bool Fits(const std::vector<Side>& side) const;
  int64_t moments() const { return static_cast<int64_t>(trace_.ops.size()); }
  int64_t num_chunks() const {
    return static_cast<int64_t>(trace_.chunks.size());
  }

  const PlanTask& task_;
  const PlanRequest& request_;
  const StepTrace& trace_;
  const Admission& admission_;
  const std::vector<Side> first_side_;
  // The sums that there may be, and the chunks of those that are shorter than
  // the gradients that they spare the bus.
  const std::vector<PossibleSum> possible_sums_;
  const std::vector<int64_t> shorter_sums_;
  Contest contest_;
  const SearchEffort effort_;

  // The most bytes that states on the device may have, of which shares are
  // tried with the tunings that were good before.
  double most_states_bytes_ = 0;
  std::vector<Tuning> good_;
  std::vector<std::vector<Side>> asked_;
  std::vector<TriedSides> sides_;  // those that fit
  int best_share_;
  double best_share_score_ = kNever;
  std::vector<Side> searched_side_;  // with all tunings
  std::vector<TriedSums> sums_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_
