// Farthest next use decides what leaves; fetches go out as early as room
// allows; what is left of the budget holds optimizer states.
//
// How much room to keep free for chunks on their way (they hide copies) and how
// much for chunks that stay (they save copies) is a trade that depends on sizes
// and speeds. So a few strengths are planned, each is simulated, and the
// fastest is taken; the cpu policy's own schedule is among them. So are plans
// whose fetches go out only when they are due, or few at a time.
//
// With several micro batches a block for gradients beside a payload spares the
// fetch after its reduce, if the payload can stay until its next use. So plans
// with a block wherever there is room for one are tried too, then plans with
// those blocks alone whose payloads stayed, which leaves the room of the others
// to payloads.
//
// A sum of gradients on the device spares the bus copies from it, one a micro
// batch against one that is as long as two in 16 bits. It takes room from its
// first reduce to its last, so shares of the room are tried.
//
// All of these together are tried for steps of up to kThoroughMoments. For a
// longer step fewer are, and where its micro batches are alike those are tried
// on a short step (short_step.h); the whole step is planned with the best few.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/schedules.h"
#include "memory/plan/policy/short_step.h"
#include "memory/plan/policy/side_choices.h"
#include "memory/plan/room.h"
#include "memory/plan/use_index.h"

namespace castor {
namespace {

// The longest step that is searched through in a second, beside other work.
constexpr int64_t kThoroughMoments = 16 << 10;
// The longest one for which twice as many plans are tried.
constexpr int64_t kRefinedMoments = 4 << 10;

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
      : slowest_ns_(cpu.step_ns), best_(std::move(cpu)) {}

  void Enter(Candidate candidate, const Recipe& recipe) {
    spare_bytes_ = std::max(spare_bytes_, candidate.spare_bytes);
    if (candidate.step_ns > slowest_ns_) return;
    Remember(candidate.score, recipe);
    auto& of_kind = tunings_[candidate.tuning.early];
    if (candidate.score < of_kind.first) {
      of_kind = {candidate.score, candidate.tuning};
    }
    if (candidate.score < best_.score) best_ = std::move(candidate);
  }

  Candidate& best() { return best_; }
  // Those of the best few, the best first.
  std::vector<Recipe> recipes() const {
    std::vector<Recipe> recipes;
    for (const auto& [score, recipe] : finalists_) recipes.push_back(recipe);
    return recipes;
  }
  // The best one's of those with early fetches, then of the others, if any.
  std::vector<Tuning> tunings() const {
    std::vector<Tuning> tunings = {tunings_[true].second};
    if (tunings_[false].first < kNone) {
      tunings.push_back(tunings_[false].second);
    }
    return tunings;
  }
  // What the plan that keeps the least room free leaves.
  int64_t spare_bytes() const { return spare_bytes_; }

 private:
  void Remember(double score, const Recipe& recipe) {
    constexpr size_t kFinalists = 3;
    const auto same =
        std::find_if(finalists_.begin(), finalists_.end(),
                     [&](const auto& known) { return known.second == recipe; });
    if (same != finalists_.end()) {
      if (same->first <= score) return;
      finalists_.erase(same);
    }
    const auto worse =
        std::find_if(finalists_.begin(), finalists_.end(),
                     [&](const auto& known) { return score < known.first; });
    finalists_.insert(worse, {score, recipe});
    if (finalists_.size() > kFinalists) finalists_.pop_back();
  }

  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double slowest_ns_;
  Candidate best_;
  // The best score and its tuning, by whether fetches are early.
  std::pair<double, Tuning> tunings_[2] = {{kNone, {}}, {kNone, {}}};
  std::vector<std::pair<double, Recipe>> finalists_;
  int64_t spare_bytes_ = 0;
};

std::vector<int64_t> ChunksOf(const std::vector<PossibleSum>& sums) {
  std::vector<int64_t> chunks;
  for (const PossibleSum& sum : sums) chunks.push_back(sum.sum.chunk);
  return chunks;
}

// Those of `all` whose chunks are `kept`, or with `kept` false are not.
template <typename T, typename ChunkOf>
std::vector<T> Filter(const std::vector<T>& all, int64_t num_chunks,
                      const std::vector<int64_t>& chunks, bool kept,
                      ChunkOf chunk_of) {
  std::vector<bool> named(num_chunks, false);
  for (const int64_t c : chunks) named[c] = true;
  std::vector<T> filtered;
  for (const T& one : all) {
    if (named[chunk_of(one)] == kept) filtered.push_back(one);
  }
  return filtered;
}

class Search {
 public:
  Search(const PlanTask& task, const Admission& admission)
      : task_(task),
        request_(task.request),
        trace_(*request_.trace),
        admission_(admission),
        thorough_(static_cast<int64_t>(trace_.ops.size()) <= kThoroughMoments),
        refined_(static_cast<int64_t>(trace_.ops.size()) <= kRefinedMoments),
        first_side_(AdmittedSides(request_, admission)),
        contest_(AutoSchedule(task, first_side_).MakeOneOperatorAhead()),
        asked_({first_side_}) {}

  // Looks for the best plan.
  void Run() {
    EnterSides(first_side_, /*good=*/{});
    EnterSums(first_side_, /*all_shares=*/true);
    if (!trace_.training || !request_.fixed_side.empty()) return;

    // States on the device spare copies and the host's work, but take room all
    // step long in which chunks could stay. So first what no moment needs for
    // the best plan without them, then shares of all that no operator needs.
    const std::vector<Tuning> good = contest_.tunings();
    const double ratio = request_.gpu_margin_mem_ratio;
    const double margin = static_cast<double>(
        request_.device_budget_bytes -
        PeakNeededDeviceBytes(request_, SidesOf(trace_, admission_.order, 0)));
    const auto enter = [&](double share_bytes) {
      EnterNewSides(FirstSides(trace_, admission_, share_bytes, /*skip=*/true),
                    good);
      if (!thorough_) return;
      std::vector<Side> side =
          FirstSides(trace_, admission_, share_bytes, /*skip=*/false);
      if (AreNewAndFit(side)) EnterSides(side, good);
    };
    constexpr int kShares = 128;
    constexpr int kFirstStep = kShares / 8;
    enter(ratio * static_cast<double>(contest_.spare_bytes()));
    double best_score = std::numeric_limits<double>::infinity();
    int best_share = kShares;
    // A long step has every other share tried, then those beside the best one.
    const auto enter_share = [&](int share) {
      const size_t before = sides_.size();
      enter(ratio * margin * share / kShares);
      if (sides_.size() == before || sides_.back().first >= best_score) return;
      best_score = sides_.back().first;
      best_share = share;
    };
    const int step = thorough_ ? kFirstStep : 2 * kFirstStep;
    for (int share = step; share <= kShares; share += step) enter_share(share);
    if (!thorough_) {
      const int middle = best_share;
      enter_share(middle - kFirstStep);
      enter_share(std::min(middle + kFirstStep, kShares));
      constexpr size_t kSides = 2;
      std::sort(sides_.begin(), sides_.end());
      sides_.resize(std::min(kSides, sides_.size()));
      for (const auto& [score, side] : sides_) {
        EnterTunings(AutoSchedule(task_, side), OtherTunings(good),
                     {side, {}, std::nullopt, {}});
      }
    } else if (refined_) {
      for (const int narrower :
           {kFirstStep / 2, kFirstStep / 4, kFirstStep / 8}) {
        const int middle = best_share;
        enter_share(middle - narrower);
        enter_share(std::min(middle + narrower, kShares));
      }
      // What is good beside the first sides need not be beside these.
      if (best().plan.side != first_side_) {
        EnterSides(std::vector<Side>(best().plan.side), /*good=*/{});
      }
      // The same bytes spread over the step: the bus and the host then work all
      // through forward, not in its later part alone.
      const std::vector<Tuning> better = contest_.tunings();
      for (const double more : {1.0, 1.0625}) {
        const double bytes =
            ratio * margin * std::min(1.0, more * best_share / kShares);
        for (const double first : {0.2, 0.4, 0.6, 0.8}) {
          EnterNewSides(SpreadSides(trace_, admission_, first * bytes, bytes),
                        better);
        }
      }
    }
    // Sums on the device take room and time that states there could have, too,
    // so they are tried without any that need not be there, above, and beside
    // each number of those that was tried: what is the best beside no sums
    // leaves little room for any.
    const std::vector<Side> best_side = best().plan.side;
    if (best_side != first_side_) EnterSums(best_side, /*all_shares=*/true);
    for (const auto& [score, side] : sides_) {
      if (side != best_side) EnterSums(side, /*all_shares=*/thorough_);
    }
  }

  // Enters what was best for a short step.
  void Run(const std::vector<Recipe>& recipes) {
    for (const Recipe& recipe : recipes) Enter(recipe);
  }

  Candidate& best() { return contest_.best(); }
  std::vector<Recipe> recipes() const { return contest_.recipes(); }

 private:
  int64_t num_chunks() const {
    return static_cast<int64_t>(trace_.chunks.size());
  }

  struct Best {
    double score = std::numeric_limits<double>::infinity();
    Tuning tuning;
  };

  // Enters plans of the schedule. Returns the best one's, and if asked for
  // which blocks were of use to it.
  Best EnterTunings(const AutoSchedule& schedule,
                    const std::vector<Tuning>& tunings, Recipe recipe,
                    std::vector<GradientBlock>* useful = nullptr) {
    Best best;
    const auto enter = [&](const Tuning& tuning) {
      Candidate candidate = schedule.Make(tuning);
      if (candidate.score < best.score) {
        best = {candidate.score, tuning};
        if (useful != nullptr) *useful = std::move(candidate.useful_blocks);
      }
      recipe.tuning = tuning;
      contest_.Enter(std::move(candidate), recipe);
    };
    for (const Tuning& each : tunings) enter(each);
    // Where the bus binds, a place that is still being copied back may do.
    if (thorough_ && best.tuning.early && request_.prefetch) {
      Tuning other = best.tuning;
      other.off_copies = !other.off_copies;
      enter(other);
    }
    return best;
  }

  // The tunings to try where none is known to be good.
  std::vector<Tuning> FirstTunings() const {
    std::vector<Tuning> tunings;
    for (const double strength : {0.0, 0.5, 1.0, 1.5, 2.0, 4.0}) {
      if (strength > 0 && !request_.prefetch) break;
      for (const VictimRule rule : kVictimRules) {
        // Otherwise the others are tried with the best strength.
        if (!thorough_ && rule != kVictimRules[0]) continue;
        tunings.push_back({strength, rule});
      }
    }
    return tunings;
  }

  // Those with few fetches on their way and those with fetches when they are
  // due, to try beside the best one of all others.
  std::vector<Tuning> LaterTunings(const Tuning& best) const {
    std::vector<Tuning> tunings;
    if (!request_.prefetch) return tunings;
    for (const int64_t ahead : {8, 2}) {
      tunings.push_back({best.lead_strength, best.rule, /*early=*/true, ahead});
    }
    for (const double strength : {0.5, 1.0, 1.5, 2.0}) {
      if (!thorough_ && strength != 1.0 && strength != best.lead_strength) {
        continue;
      }
      tunings.push_back({strength, best.rule, /*early=*/false});
    }
    return tunings;
  }

  // Those with early fetches, or the others. What is of use to plans with the
  // ones is not to those with the others, so they do not share rounds.
  static std::vector<Tuning> OfKind(const std::vector<Tuning>& tunings,
                                    bool early) {
    std::vector<Tuning> of_kind;
    for (const Tuning& tuning : tunings) {
      if (tuning.early == early) of_kind.push_back(tuning);
    }
    return of_kind;
  }

  // Those to try beside ones that were good with other sides.
  std::vector<Tuning> OtherTunings(const std::vector<Tuning>& good) const {
    std::vector<Tuning> tunings;
    for (const double strength : {0.0, 1.0}) {
      if (strength > 0 && !request_.prefetch) break;
      if (strength == good[0].lead_strength) continue;
      tunings.push_back({strength, good[0].rule});
    }
    // With states on the device there may be no need to be ahead of anything.
    if (thorough_ && request_.prefetch) {
      tunings.push_back({0.0, good[0].rule, /*early=*/false});
    }
    // A long step has had the first one alone.
    if (!thorough_ && good.size() > 1) tunings.push_back(good[1]);
    return tunings;
  }

  // Whether these sides fit and this was not called with them before.
  bool AreNewAndFit(const std::vector<Side>& side) {
    if (std::find(asked_.begin(), asked_.end(), side) != asked_.end()) {
      return false;
    }
    asked_.push_back(side);
    return PeakNeededDeviceBytes(request_, side) <=
           request_.device_budget_bytes;
  }

  // Enters plans with these sides if they are new, and remembers them.
  void EnterNewSides(std::vector<Side> side, const std::vector<Tuning>& good) {
    if (!AreNewAndFit(side)) return;
    const double score = EnterSides(side, good);
    sides_.emplace_back(score, std::move(side));
  }

  // Enters plans with these sides, without gradient blocks and with them, where
  // `good` ones, if any are known, were good with others. Returns the best
  // score.
  double EnterSides(const std::vector<Side>& side,
                    const std::vector<Tuning>& good) {
    const AutoSchedule without(task_, side);
    const Recipe recipe = {side, {}, std::nullopt, {}};
    std::vector<Tuning> tunings;
    if (good.empty()) {
      tunings = FirstTunings();
    } else if (thorough_) {
      tunings = OtherTunings(good);
      tunings.insert(tunings.begin(), good[0]);
      tunings.insert(tunings.end(), good.begin() + 1, good.end());
    } else {
      tunings = {good[0]};
    }
    Best best = EnterTunings(without, tunings, recipe);
    if (good.empty()) {
      const auto enter = [&](const std::vector<Tuning>& others) {
        const Best other = EnterTunings(without, others, recipe);
        tunings.insert(tunings.end(), others.begin(), others.end());
        if (other.score < best.score) best = other;
      };
      if (!thorough_) {
        std::vector<Tuning> other_rules;
        for (const VictimRule rule : kVictimRules) {
          if (rule == best.tuning.rule) continue;
          other_rules.push_back({best.tuning.lead_strength, rule});
        }
        enter(other_rules);
      }
      enter(LaterTunings(best.tuning));
    }
    if (!thorough_) tunings = {best.tuning};
    const std::vector<GradientBlock> possible =
        PossibleGradientBlocks(trace_, side);
    if (possible.empty()) return best.score;
    const Room room(FreeBesideNeeds(request_, side));
    // A block keeps its room until its copy is over, as it is if at most one is
    // queued before it, so that the next block waits for nothing; else, where
    // that is too much room, only until it is sent.
    double score = best.score;
    for (const bool early : {true, false}) {
      std::vector<Tuning> of_kind = OfKind(tunings, early);
      if (of_kind.empty()) continue;
      for (const double copies : {2.0, 0.0}) {
        std::vector<GradientBlock> blocks = GradientBlocksThatFit(
            room, without.DropAfterCopies(possible, copies));
        if (blocks.empty()) continue;
        const bool all = blocks.size() == possible.size();
        best = EnterBlocks({side, {}, copies, {}}, {}, std::move(blocks),
                           std::move(of_kind));
        score = std::min(score, best.score);
        of_kind = {best.tuning};
        if (all && !thorough_) break;
      }
    }
    return score;
  }

  // Enters plans with gradient blocks where they fit, then where they were of
  // use. Returns the last round's best.
  Best EnterBlocks(const Recipe& recipe, const std::vector<PossibleSum>& sums,
                   std::vector<GradientBlock> blocks,
                   std::vector<Tuning> tunings) {
    constexpr int kRounds = 3;
    Best best;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<GradientBlock> useful;
      best = EnterTunings(AutoSchedule(task_, recipe.side, blocks, sums),
                          tunings, recipe, &useful);
      tunings = {best.tuning};
      if (useful.size() == blocks.size()) break;
      blocks = std::move(useful);
      // Without blocks and without sums it was tried before.
      if (blocks.empty() && sums.empty()) break;
    }
    return best;
  }

  // Enters plans with these sides and sums on the device, for shares of the
  // room beside what must be there, or for all of it alone.
  void EnterSums(const std::vector<Side>& side, bool all_shares) {
    std::vector<Tuning> tunings = {best().tuning};
    if (thorough_) tunings = contest_.tunings();
    const std::vector<GradientBlock> possible =
        PossibleGradientBlocks(trace_, side);
    std::vector<PossibleSum> sums = PossibleDeviceSums(trace_, side, possible);
    if (sums.empty()) return;
    const AutoSchedule without(task_, side);
    sums = without.DropAfterCopies(std::move(sums), 2.0);
    const std::vector<int64_t> free_bytes = FreeBesideNeeds(request_, side);
    const double margin = request_.gpu_margin_mem_ratio *
                          static_cast<double>(*std::min_element(
                              free_bytes.begin(), free_bytes.end()));
    size_t before = 0;
    for (const double share : {0.25, 0.5, 0.75, 1.0}) {
      if (!all_shares && share < 1.0) continue;
      const std::vector<PossibleSum> fitting =
          DeviceSumsThatFit(request_, side, sums, share * margin);
      if (fitting.size() == before) continue;
      before = fitting.size();
      EnterSummed({side, ChunksOf(fitting), std::nullopt, {}}, tunings, without,
                  possible, fitting, {2.0, 0.0});
    }
  }

  // Enters plans with these sums, of which all fit, and with blocks of the
  // other chunks.
  void EnterSummed(Recipe recipe, const std::vector<Tuning>& tunings,
                   const AutoSchedule& without,
                   const std::vector<GradientBlock>& possible,
                   const std::vector<PossibleSum>& sums,
                   const std::vector<double>& copies_to_try) {
    Room room(FreeBesideNeeds(request_, recipe.side));
    for (const PossibleSum& sum : sums) TakeDeviceSum(trace_, sum, room);
    const std::vector<GradientBlock> others =
        Filter(possible, num_chunks(), recipe.summed, /*kept=*/false,
               [](const GradientBlock& block) { return block.chunk; });
    for (const double copies : copies_to_try) {
      const std::vector<GradientBlock> blocks =
          GradientBlocksThatFit(room, without.DropAfterCopies(others, copies));
      recipe.copies = copies;
      for (const bool early : {true, false}) {
        const std::vector<Tuning> of_kind = OfKind(tunings, early);
        if (!of_kind.empty()) EnterBlocks(recipe, sums, blocks, of_kind);
      }
      if (blocks.size() == others.size()) break;
    }
  }

  void Enter(const Recipe& recipe) {
    const AutoSchedule without(task_, recipe.side);
    if (!recipe.copies.has_value()) {
      EnterTunings(without, {recipe.tuning}, recipe);
      return;
    }
    const std::vector<GradientBlock> possible =
        PossibleGradientBlocks(trace_, recipe.side);
    std::vector<PossibleSum> sums =
        Filter(PossibleDeviceSums(trace_, recipe.side, possible), num_chunks(),
               recipe.summed, /*kept=*/true,
               [](const PossibleSum& sum) { return sum.sum.chunk; });
    sums = DeviceSumsThatFit(request_, recipe.side,
                             without.DropAfterCopies(std::move(sums), 2.0),
                             static_cast<double>(kUnlimitedBytes));
    Recipe fitting = recipe;
    fitting.summed = ChunksOf(sums);
    EnterSummed(fitting, {recipe.tuning}, without, possible, sums,
                {*recipe.copies});
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
};

// Whether nothing ever has to move, optimizer states within their share.
bool EverythingFits(const PlanRequest& request, const Admission& admission) {
  const StepTrace& trace = *request.trace;
  int64_t peak = 0;
  for (const OpRecord& op : trace.ops) {
    peak = std::max(peak, op.non_model_peak_bytes);
  }
  int64_t left =
      request.device_budget_bytes - request.device_reserved_bytes - peak;
  int64_t optimizer = 0;
  for (const ChunkInfo& chunk : trace.chunks) {
    left -= PayloadBlock(chunk);
    optimizer += OptimizerBlock(chunk);
  }
  return left >= 0 &&
         static_cast<double>(optimizer) <=
             request.gpu_margin_mem_ratio * static_cast<double>(left);
}

// What is best for a short step, where the request's is long and has one.
std::vector<Recipe> RecipesOfShortStep(const PlanRequest& request,
                                       const Admission& admission) {
  const StepTrace& trace = *request.trace;
  if (static_cast<int64_t>(trace.ops.size()) <= kThoroughMoments) return {};
  const std::optional<ShortStep> step = Shorten(trace);
  if (!step.has_value()) return {};
  PlanRequest shorter = request;
  shorter.trace = &step->trace;
  const PlanTask task = {shorter, &*step};
  Search search(task, admission);
  search.Run();
  return search.recipes();
}

}  // namespace

Plan PlanAuto(const PlanRequest& request, const Admission& admission) {
  if (request.trace->training && request.fixed_side.empty() &&
      EverythingFits(request, admission)) {
    return PlanAllResident(request, admission);
  }
  const std::vector<Recipe> recipes = RecipesOfShortStep(request, admission);
  const PlanTask task = {request};
  Search search(task, admission);
  if (recipes.empty()) {
    search.Run();
  } else {
    search.Run(recipes);
  }
  return std::move(search.best().plan);
}

}  // namespace castor
