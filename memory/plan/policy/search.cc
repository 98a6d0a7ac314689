#include "memory/plan/policy/search.h"

#include <algorithm>
#include <optional>

#include "memory/plan/policy/schedules.h"
#include "memory/plan/policy/side_choices.h"
#include "memory/plan/policy/tuning_choices.h"
#include "memory/plan/room.h"
#include "memory/plan/use_index.h"

namespace castor {
namespace {

// The longest step for which twice as many plans are tried.
constexpr int64_t kRefinedMoments = 4 << 10;
// Shares of the room for states on the device, and how far apart the first ones
// are.
constexpr int kShares = 128;
constexpr int kFirstStep = kShares / 8;

// Shares of the room that are tried for sums.
constexpr double kQuarters[] = {0.25, 0.5, 0.75, 1.0};
constexpr double kHalves[] = {0.5, 1.0};
constexpr double kAll[] = {1.0};

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

}  // namespace

Search::Search(const PlanTask& task, const Admission& admission)
    : task_(task),
      request_(task.request),
      trace_(*request_.trace),
      admission_(admission),
      thorough_(static_cast<int64_t>(trace_.ops.size()) <= kThoroughMoments),
      refined_(static_cast<int64_t>(trace_.ops.size()) <= kRefinedMoments),
      first_side_(AdmittedSides(request_, admission)),
      contest_(AutoSchedule(task, first_side_).MakeOneOperatorAhead()),
      asked_({first_side_}),
      best_share_(kShares) {}

void Search::Run() {
  EnterSides(first_side_, /*good=*/{});
  EnterSums(first_side_, kQuarters);
  if (!trace_.training || !request_.fixed_side.empty()) return;
  EnterShares();
  if (!thorough_) EnterOtherTuningsOfBestSides();
  if (refined_) {
    RefineShares();
    EnterSpreadSides();
  }
  EnterSumsBesideStates();
  if (refined_) RefineSums();
}

void Search::Run(const std::vector<Recipe>& recipes) {
  for (const Recipe& recipe : recipes) Enter(recipe);
}

void Search::EnterShares() {
  good_ = contest_.tunings();
  const int64_t needed =
      PeakNeededDeviceBytes(request_, SidesOf(trace_, admission_.order, 0));
  most_states_bytes_ =
      request_.gpu_margin_mem_ratio *
      static_cast<double>(request_.device_budget_bytes - needed);
  EnterStates(request_.gpu_margin_mem_ratio *
              static_cast<double>(contest_.spare_bytes()));
  // A long step has every other share tried, then those beside the best one.
  const int step = thorough_ ? kFirstStep : 2 * kFirstStep;
  for (int share = step; share <= kShares; share += step) EnterShare(share);
  if (thorough_) return;
  const int middle = best_share_;
  EnterShare(middle - kFirstStep);
  EnterShare(std::min(middle + kFirstStep, kShares));
}

void Search::EnterShare(int share) {
  const size_t before = sides_.size();
  EnterStates(most_states_bytes_ * share / kShares);
  if (sides_.size() == before || sides_.back().first >= best_share_score_) {
    return;
  }
  best_share_score_ = sides_.back().first;
  best_share_ = share;
}

void Search::EnterStates(double bytes) {
  EnterNewSides(FirstSides(trace_, admission_, bytes, /*skip=*/true), good_);
  if (!thorough_) return;
  const std::vector<Side> side =
      FirstSides(trace_, admission_, bytes, /*skip=*/false);
  if (AreNewAndFit(side)) EnterSides(side, good_);
}

void Search::EnterOtherTuningsOfBestSides() {
  constexpr size_t kSides = 2;
  std::sort(sides_.begin(), sides_.end());
  sides_.resize(std::min(kSides, sides_.size()));
  for (const auto& [score, side] : sides_) {
    EnterTunings(AutoSchedule(task_, side),
                 OtherTunings(good_, request_.prefetch, thorough_),
                 {side, {}, std::nullopt, {}});
  }
}

void Search::RefineShares() {
  for (const int narrower : {kFirstStep / 2, kFirstStep / 4, kFirstStep / 8}) {
    const int middle = best_share_;
    EnterShare(middle - narrower);
    EnterShare(std::min(middle + narrower, kShares));
  }
  // What is good beside the first sides need not be beside these.
  if (best().plan.side != first_side_) {
    EnterSides(std::vector<Side>(best().plan.side), /*good=*/{});
  }
}

void Search::EnterSpreadSides() {
  const std::vector<Tuning> good = contest_.tunings();
  for (const double more : {1.0, 1.0625}) {
    const double bytes =
        most_states_bytes_ * std::min(1.0, more * best_share_ / kShares);
    for (const double first : {0.2, 0.4, 0.6, 0.8}) {
      EnterNewSides(SpreadSides(trace_, admission_, first * bytes, bytes),
                    good);
    }
  }
}

void Search::EnterSumsBesideStates() {
  const std::vector<Side> best_side = best().plan.side;
  if (best_side != first_side_) EnterSums(best_side, kQuarters);
  const absl::Span<const double> shares =
      refined_    ? absl::MakeConstSpan(kHalves)
      : thorough_ ? absl::MakeConstSpan(kQuarters)
                  : absl::MakeConstSpan(kAll);
  for (const auto& [score, side] : sides_) {
    if (side != best_side) EnterSums(side, shares);
  }
}

void Search::RefineSums() {
  for (const double nearer : {1.0 / 8, 1.0 / 16, 1.0 / 32}) {
    const BestSums middle = best_sums_;
    if (middle.side.empty()) return;
    double held_bytes = 0;
    for (int64_t c = 0; c < num_chunks(); ++c) {
      if (middle.side[c] == Side::kHost) continue;
      held_bytes += static_cast<double>(OptimizerBlock(trace_.chunks[c]));
    }
    for (const double sign : {-1.0, 1.0}) {
      const double share = middle.share + sign * nearer;
      if (share > 0 && share < 1) EnterSums(middle.side, {share});
      const double bytes =
          std::min(most_states_bytes_,
                   held_bytes + sign * nearer / 2 * most_states_bytes_);
      const std::vector<Side> side =
          FirstSides(trace_, admission_, bytes, /*skip=*/true);
      if (side == middle.side || PeakNeededDeviceBytes(request_, side) >
                                     request_.device_budget_bytes) {
        continue;
      }
      EnterSums(side, {middle.share, 1.0});
    }
  }
}

Search::Best Search::EnterTunings(const AutoSchedule& schedule,
                                  const std::vector<Tuning>& tunings,
                                  Recipe recipe,
                                  std::vector<GradientBlock>* useful) {
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

bool Search::AreNewAndFit(const std::vector<Side>& side) {
  if (std::find(asked_.begin(), asked_.end(), side) != asked_.end()) {
    return false;
  }
  asked_.push_back(side);
  return PeakNeededDeviceBytes(request_, side) <= request_.device_budget_bytes;
}

void Search::EnterNewSides(std::vector<Side> side,
                           const std::vector<Tuning>& good) {
  if (!AreNewAndFit(side)) return;
  const double score = EnterSides(side, good);
  sides_.emplace_back(score, std::move(side));
}

double Search::EnterSides(const std::vector<Side>& side,
                          const std::vector<Tuning>& good) {
  const AutoSchedule without(task_, side);
  std::vector<Tuning> tunings;
  const Best best = EnterWithoutBlocks(without, side, good, &tunings);
  if (!thorough_) tunings = {best.tuning};
  return std::min(best.score, EnterWithBlocks(without, side, tunings));
}

Search::Best Search::EnterWithoutBlocks(const AutoSchedule& without,
                                        const std::vector<Side>& side,
                                        const std::vector<Tuning>& good,
                                        std::vector<Tuning>* tunings) {
  const Recipe recipe = {side, {}, std::nullopt, {}};
  const bool prefetch = request_.prefetch;
  Best best;
  const auto enter = [&](const std::vector<Tuning>& others) {
    const Best other = EnterTunings(without, others, recipe);
    tunings->insert(tunings->end(), others.begin(), others.end());
    if (other.score < best.score) best = other;
  };
  if (good.empty()) {
    enter(FirstTunings(prefetch, thorough_));
    if (!thorough_) enter(OtherRules(best.tuning));
    enter(LaterTunings(best.tuning, prefetch, thorough_));
    return best;
  }
  std::vector<Tuning> known = {good[0]};
  if (thorough_) {
    const std::vector<Tuning> others = OtherTunings(good, prefetch, thorough_);
    known.insert(known.end(), others.begin(), others.end());
    known.insert(known.end(), good.begin() + 1, good.end());
  }
  enter(known);
  return best;
}

double Search::EnterWithBlocks(const AutoSchedule& without,
                               const std::vector<Side>& side,
                               const std::vector<Tuning>& tunings) {
  double score = std::numeric_limits<double>::infinity();
  const std::vector<GradientBlock> possible =
      PossibleGradientBlocks(trace_, side);
  if (possible.empty()) return score;
  const Room room(FreeBesideNeeds(request_, side));
  // A block keeps its room until its copy is over, as it is if at most one is
  // queued before it, so that the next block waits for nothing; else, where
  // that is too much room, only until it is sent.
  for (const bool early : {true, false}) {
    std::vector<Tuning> of_kind = OfKind(tunings, early);
    if (of_kind.empty()) continue;
    for (const double copies : {2.0, 0.0}) {
      std::vector<GradientBlock> blocks = GradientBlocksThatFit(
          room, without.DropAfterCopies(possible, copies));
      if (blocks.empty()) continue;
      const bool all = blocks.size() == possible.size();
      const Best best = EnterBlocks({side, {}, copies, {}}, {},
                                    std::move(blocks), std::move(of_kind));
      score = std::min(score, best.score);
      of_kind = {best.tuning};
      if (all && !thorough_) break;
    }
  }
  return score;
}

Search::Best Search::EnterBlocks(const Recipe& recipe,
                                 const std::vector<PossibleSum>& sums,
                                 std::vector<GradientBlock> blocks,
                                 std::vector<Tuning> tunings) {
  constexpr int kRounds = 3;
  Best best;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<GradientBlock> useful;
    best = EnterTunings(AutoSchedule(task_, recipe.side, blocks, sums), tunings,
                        recipe, &useful);
    tunings = {best.tuning};
    if (useful.size() == blocks.size()) break;
    blocks = std::move(useful);
    // Without blocks and without sums it was tried before.
    if (blocks.empty() && sums.empty()) break;
  }
  return best;
}

void Search::EnterSums(const std::vector<Side>& side,
                       absl::Span<const double> shares) {
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
  for (const double share : shares) {
    const std::vector<PossibleSum> fitting =
        DeviceSumsThatFit(request_, side, sums, share * margin);
    if (fitting.size() == before) continue;
    before = fitting.size();
    const double score =
        EnterSummed({side, ChunksOf(fitting), std::nullopt, {}}, tunings,
                    without, possible, fitting, {2.0, 0.0});
    if (score < best_sums_.score) best_sums_ = {score, share, side};
  }
}

double Search::EnterSummed(Recipe recipe, const std::vector<Tuning>& tunings,
                           const AutoSchedule& without,
                           const std::vector<GradientBlock>& possible,
                           const std::vector<PossibleSum>& sums,
                           const std::vector<double>& copies_to_try) {
  Room room(FreeBesideNeeds(request_, recipe.side));
  for (const PossibleSum& sum : sums) TakeDeviceSum(trace_, sum, room);
  const std::vector<GradientBlock> others =
      Filter(possible, num_chunks(), recipe.summed, /*kept=*/false,
             [](const GradientBlock& block) { return block.chunk; });
  double score = std::numeric_limits<double>::infinity();
  for (const double copies : copies_to_try) {
    const std::vector<GradientBlock> blocks =
        GradientBlocksThatFit(room, without.DropAfterCopies(others, copies));
    recipe.copies = copies;
    for (const bool early : {true, false}) {
      const std::vector<Tuning> of_kind = OfKind(tunings, early);
      if (of_kind.empty()) continue;
      score = std::min(score, EnterBlocks(recipe, sums, blocks, of_kind).score);
    }
    // Blocks that all fit may still take the room of payloads.
    if (!thorough_ && blocks.size() == others.size()) break;
  }
  return score;
}

void Search::Enter(const Recipe& recipe) {
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

}  // namespace castor
