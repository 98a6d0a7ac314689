// The search for the best plan of a step: makes and simulates many plans.
//
// Sides and device sums are chosen first, then tunings and gradient blocks. The
// search *tries* many sides and sums: it makes a plan or a few for each, with
// tunings that were good before. It then *searches through* the best few: it
// enters plans with all their tunings and gradient blocks into the contest. In
// the end it enters neighbours of the best plan, chosen at random from the same
// seed in every search.
//
// The number of plans depends on the step (effort.h), so that a search takes at
// most a second and does not outlast a few steps. Where the micro batches of a
// long step are alike, the search runs on a short step (short_step.h), and the
// whole step is planned with its best few recipes.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_
#define CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_

#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "memory/plan/bounds/admission.h"
#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/contest.h"
#include "memory/plan/policy/effort.h"

namespace castor {

class Search {
 public:
  // Both arguments must outlive the search.
  Search(const PlanTask& task, const Admission& admission);

  // Searches for the best plan.
  void Run();
  // Enters plans by the recipes that were best for a short step.
  void Run(const std::vector<Recipe>& recipes);

  // The effort that Run makes.
  const SearchEffort& effort() const { return effort_; }

  const Candidate& best() { return contest_.best(); }
  // The plan to take: the best one, or one about as fast that moves fewer
  // bytes.
  Candidate& taken() { return contest_.taken(); }
  std::vector<Recipe> recipes() const { return contest_.recipes(); }
  // The number of plans that were made.
  int64_t plans() const { return contest_.entered(); }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // kProbe tries; kNear makes a neighbour of the best plan, with rounds that
  // keep only useful gradient blocks; kFull searches through.
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
  // The blocks and sums that are possible with some sides.
  struct SumsBeside {
    AutoSchedule without;  // sums and blocks
    std::vector<GradientBlock> blocks;
    std::vector<PossibleSum> all;
    // The part of the room free at all moments that sums may take.
    double bytes = 0;
  };

  // Tries numbers of states on the device. They save copies and the host's
  // work, but take room all step long in which chunks could stay. So first the
  // room is tried that the best plan without them leaves at all moments, then
  // shares of all room that no operator needs.
  void TryShares();
  // Tries shares close to the best one.
  void RefineShares();
  void TrySharesBeside(int distance);
  void TryShare(int share);
  // Tries the same bytes of states spread over the step, so that the bus and
  // the host work all through forward, not only in its later part.
  void TrySpreadSides();
  // Both return the best score; kNever if none fits that was not tried before.
  double TryStates(double bytes);
  double TrySides(std::vector<Side> side);
  // Searches through the best `number` of the sides that were tried.
  void EnterBestSides(int64_t number);

  // Tries device sums beside each number of states on the device that was
  // tried. Both compete for the same room and time, and the number that is best
  // without sums leaves little room for any.
  void TrySumsBesideStates();
  // Tries sums within shares of the room that is free with these sides.
  void TrySums(const std::vector<Side>& side, absl::Span<const double> shares);
  // Searches through the best of the sums that were tried, and forgets the
  // others.
  void EnterBestSums();
  SumsBeside FindSums(const std::vector<Side>& side) const;

  // Enters plans of the schedule with each tuning. Returns the best score and
  // its tuning, and in `useful`, if not null, the blocks that were of use to
  // it.
  Best EnterTunings(const AutoSchedule& schedule,
                    const std::vector<Tuning>& tunings, Recipe recipe,
                    Effort effort,
                    std::vector<GradientBlock>* useful = nullptr);

  // Enters plans with these sides, without and with gradient blocks. `good` are
  // tunings that were good with other sides, if known. Returns the best score.
  double EnterSides(const std::vector<Side>& side,
                    const std::vector<Tuning>& good);
  // Enters the plans without gradient blocks. Returns the best, and adds the
  // tunings that were tried to `tunings`.
  Best EnterWithoutBlocks(const AutoSchedule& without,
                          const std::vector<Side>& side,
                          const std::vector<Tuning>& good,
                          std::vector<Tuning>* tunings);
  // Enters plans with a gradient block wherever there is room for one. Returns
  // the best score.
  double EnterWithBlocks(const AutoSchedule& without,
                         const std::vector<Side>& side,
                         const std::vector<Tuning>& tunings, Effort effort);
  // Returns the numbers of copies to try after which gradient blocks are
  // dropped.
  static std::vector<double> CopiesFor(Effort effort);
  // Enters plans with all of `blocks`, then only with those that were of use.
  // Returns the last round's best.
  Best EnterBlocks(const Recipe& recipe, const std::vector<PossibleSum>& sums,
                   std::vector<GradientBlock> blocks,
                   std::vector<Tuning> tunings, Effort effort);

  // Enter plans with these sides and device sums, all of which fit, and with
  // gradient blocks of the other chunks. Both return the best score.
  double EnterSums(const SumsBeside& beside, const std::vector<Side>& side,
                   const std::vector<PossibleSum>& fitting, Effort effort);
  double EnterSummed(Recipe recipe, const std::vector<Tuning>& tunings,
                     const SumsBeside& beside,
                     const std::vector<PossibleSum>& sums,
                     const std::vector<double>& copies_to_try, Effort effort);
  // Enters plans by a recipe. Returns the best score.
  double Enter(const Recipe& recipe, Effort effort);

  // Enters neighbours of the best few plans, until many in a row have gained
  // nothing.
  void Climb();
  // Returns a recipe that fits, with the states or the sums of a chunk or two
  // on the other side, or with one or two changes of the tuning. Sums that are
  // no shorter than the gradients stay where they are.
  Recipe Neighbour(const Recipe& recipe, std::mt19937_64& random) const;
  // Moves states of random chunks to the host until the rest fits on the
  // device.
  void MakeRoom(std::vector<Side>* side, std::mt19937_64& random) const;

  // Returns true if the bytes that every plan with these sides needs fit.
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
  // The possible device sums, and the chunks whose sum is shorter than the
  // gradients that it keeps off the bus.
  const std::vector<PossibleSum> possible_sums_;
  const std::vector<int64_t> shorter_sums_;
  Contest contest_;
  const SearchEffort effort_;

  // The most bytes that states on the device may take, of which shares are
  // tried, and the tunings that were good before, to try them with.
  double most_states_bytes_ = 0;
  std::vector<Tuning> good_;
  std::vector<std::vector<Side>> asked_;
  std::vector<TriedSides> sides_;  // tried sides that fit
  int best_share_;
  double best_share_score_ = kNever;
  std::vector<Side> searched_side_;  // with all tunings
  std::vector<TriedSums> sums_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SEARCH_H_
