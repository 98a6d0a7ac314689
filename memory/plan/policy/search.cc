#include "memory/plan/policy/search.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "base/check.h"
#include "memory/plan/policy/schedules.h"
#include "memory/plan/policy/side_choices.h"
#include "memory/plan/policy/tuning_choices.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// The search for better neighbours ends when 1 / kPatience of the neighbours
// that it may make have each, in a row, gained less than kGain.
constexpr int64_t kPatience = 4;
constexpr double kGain = 0.0005;
// Shares of the room for states on the device, and how far apart the first ones
// are.
constexpr int kShares = 128;
constexpr int kFirstStep = kShares / 8;

// Shares of the room that are tried for sums.
constexpr double kQuarters[] = {0.25, 0.5, 0.75, 1.0};
constexpr double kHalves[] = {0.5, 1.0};
constexpr double kAll[] = {1.0};

// A block keeps its room for the time of this many copies: its own and one that
// may be queued before it. So the next block in its place waits for nothing.
constexpr double kCopies = 2.0;

std::vector<int64_t> ChunksOf(const std::vector<PossibleSum>& sums) {
  std::vector<int64_t> chunks;
  for (const PossibleSum& sum : sums) chunks.push_back(sum.sum.chunk);
  return chunks;
}

// The chunks whose gradients of all micro batches are longer than their sum.
std::vector<int64_t> ShorterThanGradients(
    const std::vector<PossibleSum>& sums) {
  std::vector<int64_t> chunks;
  for (const PossibleSum& sum : sums) {
    // There is a block for each micro batch's but the last's.
    const int64_t gradients = static_cast<int64_t>(sum.blocks.size()) + 1;
    if (gradients * sum.blocks.front().bytes > sum.sum.bytes) {
      chunks.push_back(sum.sum.chunk);
    }
  }
  return chunks;
}

// Returns those of `all` whose chunks are in `chunks`, or with `kept` false are
// not.
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
      first_side_(AdmittedSides(request_, admission)),
      possible_sums_(PossibleDeviceSums(
          trace_, first_side_, PossibleGradientBlocks(trace_, first_side_))),
      shorter_sums_(ShorterThanGradients(possible_sums_)),
      contest_(AutoSchedule(task, first_side_).MakeOneOperatorAhead()),
      effort_(EffortFor(moments(), contest_.best().step_ns)),
      asked_({first_side_}),
      best_share_(kShares),
      searched_side_(first_side_) {}

void Search::Run() {
  EnterSides(first_side_, /*good=*/{});
  TrySums(first_side_, kQuarters);
  EnterBestSums();
  if (!trace_.training || !request_.fixed_side.empty()) return;
  TryShares();
  EnterBestSides(effort_.few);
  if (effort_.refined) {
    good_ = contest_.tunings();
    RefineShares();
    if (effort_.thorough) TrySpreadSides();
    EnterBestSides(effort_.few / 2);
  }
  TrySumsBesideStates();
  EnterBestSums();
  if (effort_.refined) Climb();
}

void Search::Run(const std::vector<Recipe>& recipes) {
  for (const Recipe& recipe : recipes) Enter(recipe, kFull);
}

void Search::TryShares() {
  good_ = contest_.tunings();
  const int64_t needed =
      PeakNeededDeviceBytes(request_, SidesOf(trace_, admission_.order, 0));
  most_states_bytes_ =
      request_.gpu_margin_mem_ratio *
      static_cast<double>(request_.device_budget_bytes - needed);
  TryStates(request_.gpu_margin_mem_ratio *
            static_cast<double>(contest_.spare_bytes()));
  // For a long step every other share is tried, then those next to the best
  // one.
  const int step = effort_.thorough ? kFirstStep : 2 * kFirstStep;
  for (int share = step; share <= kShares; share += step) TryShare(share);
  if (!effort_.thorough) TrySharesBeside(kFirstStep);
}

void Search::RefineShares() {
  for (const int narrower : {kFirstStep / 2, kFirstStep / 4, kFirstStep / 8}) {
    TrySharesBeside(narrower);
  }
}

void Search::TrySharesBeside(int distance) {
  const int middle = best_share_;
  TryShare(middle - distance);
  TryShare(std::min(middle + distance, kShares));
}

void Search::TryShare(int share) {
  const double score = TryStates(most_states_bytes_ * share / kShares);
  if (score >= best_share_score_) return;
  best_share_score_ = score;
  best_share_ = share;
}

double Search::TryStates(double bytes) {
  double score = TrySides(FirstSides(trace_, admission_, bytes, /*skip=*/true));
  if (effort_.thorough) {
    score = std::min(score, TrySides(FirstSides(trace_, admission_, bytes,
                                                /*skip=*/false)));
  }
  return score;
}

double Search::TrySides(std::vector<Side> side) {
  if (std::find(asked_.begin(), asked_.end(), side) != asked_.end()) {
    return kNever;
  }
  asked_.push_back(side);
  if (!Fits(side)) return kNever;
  // For a long step the other tunings are tried only with the best sides.
  std::vector<Tuning> tunings = good_;
  if (!effort_.refined) tunings.resize(1);
  const AutoSchedule without(task_, side);
  const Best best =
      EnterTunings(without, tunings, {side, {}, std::nullopt, {}}, kProbe);
  const double score =
      std::min(best.score, EnterWithBlocks(without, side, tunings, kProbe));
  sides_.push_back({score, std::move(side)});
  return score;
}

bool Search::Fits(const std::vector<Side>& side) const {
  return PeakNeededDeviceBytes(request_, side) <= request_.device_budget_bytes;
}

void Search::TrySpreadSides() {
  for (const double more : {1.0, 1.0625}) {
    const double bytes =
        most_states_bytes_ * std::min(1.0, more * best_share_ / kShares);
    for (const double first : {0.2, 0.4, 0.6, 0.8}) {
      TrySides(SpreadSides(trace_, admission_, first * bytes, bytes));
    }
  }
}

void Search::EnterBestSides(int64_t number) {
  std::sort(sides_.begin(), sides_.end());
  number = std::min(number, static_cast<int64_t>(sides_.size()));
  for (int64_t i = 0; i < number; ++i) EnterSides(sides_[i].side, good_);
  // Tunings that are good with the first sides need not be good with these.
  const std::vector<Side> best_side = best().plan.side;
  if (!effort_.thorough || best_side == searched_side_) return;
  searched_side_ = best_side;
  EnterSides(best_side, /*good=*/{});
}

void Search::TrySumsBesideStates() {
  const std::vector<Side> best_side = best().plan.side;
  if (best_side != first_side_) TrySums(best_side, kQuarters);
  const absl::Span<const double> shares = effort_.refined
                                              ? absl::MakeConstSpan(kHalves)
                                              : absl::MakeConstSpan(kAll);
  for (const TriedSides& tried : sides_) {
    if (tried.side != best_side) TrySums(tried.side, shares);
  }
}

void Search::TrySums(const std::vector<Side>& side,
                     absl::Span<const double> shares) {
  if (possible_sums_.empty()) return;
  const SumsBeside beside = FindSums(side);
  size_t before = 0;
  for (const double share : shares) {
    std::vector<PossibleSum> fitting =
        DeviceSumsThatFit(request_, side, beside.all, share * beside.bytes);
    if (fitting.size() == before) continue;
    before = fitting.size();
    const double score = EnterSums(beside, side, fitting, kProbe);
    sums_.push_back({score, side, std::move(fitting)});
  }
}

void Search::EnterBestSums() {
  std::sort(sums_.begin(), sums_.end());
  sums_.resize(std::min(effort_.few, static_cast<int64_t>(sums_.size())));
  for (TriedSums& tried : sums_) {
    if (std::exchange(tried.entered, true)) continue;
    tried.score = std::min(
        tried.score,
        EnterSums(FindSums(tried.side), tried.side, tried.fitting, kFull));
  }
}

Search::SumsBeside Search::FindSums(const std::vector<Side>& side) const {
  SumsBeside found = {
      AutoSchedule(task_, side), PossibleGradientBlocks(trace_, side), {}, 0};
  found.all = found.without.DropAfterCopies(
      PossibleDeviceSums(trace_, side, found.blocks), kCopies);
  // A step without possible sums may have no operators either.
  if (found.all.empty()) return found;
  const std::vector<int64_t> free_bytes = FreeBesideNeeds(request_, side);
  found.bytes = request_.gpu_margin_mem_ratio *
                static_cast<double>(
                    *std::min_element(free_bytes.begin(), free_bytes.end()));
  return found;
}

void Search::Climb() {
  if (recipes().empty() || trace_.chunks.empty()) return;
  Recipe at = recipes().front();
  double at_score = best().score;
  const double compute_ns = static_cast<double>(trace_.compute_ns());
  std::mt19937_64 random;  // the same at every call
  const int64_t tries = effort_.neighbours;
  int64_t in_vain = 0;
  for (int64_t i = 0; i < tries && in_vain <= tries / kPatience; ++i) {
    if (plans() >= effort_.most_plans) return;
    // No step is shorter than its operators.
    if (best().score <= (1 + kAlike) * compute_ns) return;
    Recipe from = at;
    if (random() % 2 == 0) {
      const std::vector<Recipe> all = recipes();
      from = all[random() % all.size()];
    }
    const Recipe next = Neighbour(from, random);
    const double score = Enter(next, kNear);
    in_vain = score < (1 - kGain) * at_score ? 0 : in_vain + 1;
    if (score >= at_score) continue;
    at = next;
    at_score = score;
  }
}

Recipe Search::Neighbour(const Recipe& recipe, std::mt19937_64& random) const {
  Recipe next = recipe;
  const auto any_of = [&](size_t size) { return random() % size; };
  const auto retune = [&] {
    const std::vector<Tuning> around =
        TuningsAround(next.tuning, request_.prefetch);
    next.tuning = around[any_of(around.size())];
  };
  const auto any_chunk = [&] { return any_of(trace_.chunks.size()); };
  const auto large_chunk = [&] {  // the largest of a few
    return std::max({any_chunk(), any_chunk(), any_chunk()},
                    [&](size_t a, size_t b) {
                      return OptimizerBlock(trace_.chunks[a]) <
                             OptimizerBlock(trace_.chunks[b]);
                    });
  };
  const auto turn_states = [&](size_t c) {
    if (OptimizerBlock(trace_.chunks[c]) == 0) return;
    if (first_side_[c] == Side::kDevice) return;  // the host has no room
    next.side[c] = next.side[c] == Side::kHost ? Side::kDevice : Side::kHost;
  };
  const auto turn_sum = [&] {
    const int64_t c = shorter_sums_[any_of(shorter_sums_.size())];
    const auto known = std::find(next.summed.begin(), next.summed.end(), c);
    if (known != next.summed.end()) {
      next.summed.erase(known);
      return;
    }
    next.summed.push_back(c);
    if (!next.copies.has_value()) next.copies = kCopies;
  };
  const bool may_add_up = !shorter_sums_.empty();
  switch (random() % 4) {
    case 0:
      retune();
      if (any_of(2) == 0) retune();
      break;
    case 1:
      may_add_up ? turn_sum() : turn_states(any_chunk());
      if (may_add_up && any_of(2) == 0) turn_sum();
      break;
    case 2:
      turn_states(large_chunk());
      turn_states(any_chunk());
      break;
    case 3:
      turn_states(any_chunk());
      if (may_add_up) turn_sum();
      break;
  }
  MakeRoom(&next.side, random);
  return next;
}

void Search::MakeRoom(std::vector<Side>* side, std::mt19937_64& random) const {
  std::vector<int64_t> may_leave;
  double bytes = 0;
  for (int64_t c = 0; c < num_chunks(); ++c) {
    if ((*side)[c] == first_side_[c]) continue;
    may_leave.push_back(c);
    bytes += static_cast<double>(OptimizerBlock(trace_.chunks[c]));
  }
  while (bytes > most_states_bytes_ || !Fits(*side)) {
    CASTOR_CHECK(!may_leave.empty());
    std::swap(may_leave[random() % may_leave.size()], may_leave.back());
    const int64_t c = may_leave.back();
    may_leave.pop_back();
    (*side)[c] = Side::kHost;
    bytes -= static_cast<double>(OptimizerBlock(trace_.chunks[c]));
  }
}

Search::Best Search::EnterTunings(const AutoSchedule& schedule,
                                  const std::vector<Tuning>& tunings,
                                  Recipe recipe, Effort effort,
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
  if (!effort_.thorough || effort != kFull) return best;
  // Where the bus is the bottleneck, a place that is still being copied back
  // may be good enough.
  if (best.tuning.early && request_.prefetch) {
    Tuning other = best.tuning;
    other.off_copies = !other.off_copies;
    enter(other);
  }
  if (std::count(recipe.side.begin(), recipe.side.end(), Side::kDevice) > 0) {
    Tuning other = best.tuning;
    other.host_first = !other.host_first;
    enter(other);
  }
  return best;
}

// Where kCopies is too much room, a block may keep it only until it is sent.
std::vector<double> Search::CopiesFor(Effort effort) {
  if (effort == kFull) return {kCopies, 0.0};
  return {kCopies};
}

double Search::EnterSides(const std::vector<Side>& side,
                          const std::vector<Tuning>& good) {
  const AutoSchedule without(task_, side);
  std::vector<Tuning> tunings;
  const Best best = EnterWithoutBlocks(without, side, good, &tunings);
  if (!effort_.thorough) tunings = {best.tuning};
  return std::min(best.score, EnterWithBlocks(without, side, tunings, kFull));
}

Search::Best Search::EnterWithoutBlocks(const AutoSchedule& without,
                                        const std::vector<Side>& side,
                                        const std::vector<Tuning>& good,
                                        std::vector<Tuning>* tunings) {
  const Recipe recipe = {side, {}, std::nullopt, {}};
  const bool prefetch = request_.prefetch;
  Best best;
  const auto enter = [&](const std::vector<Tuning>& others) {
    const Best other = EnterTunings(without, others, recipe, kFull);
    tunings->insert(tunings->end(), others.begin(), others.end());
    if (other.score < best.score) best = other;
  };
  if (good.empty()) {
    enter(FirstTunings(prefetch, effort_.thorough));
    if (!effort_.thorough) enter(OtherRules(best.tuning));
    enter(LaterTunings(best.tuning, prefetch, effort_.thorough));
    return best;
  }
  std::vector<Tuning> known = {good[0]};
  const std::vector<Tuning> others =
      OtherTunings(good, prefetch, effort_.thorough);
  known.insert(known.end(), others.begin(), others.end());
  if (effort_.thorough) known.insert(known.end(), good.begin() + 1, good.end());
  enter(known);
  return best;
}

double Search::EnterWithBlocks(const AutoSchedule& without,
                               const std::vector<Side>& side,
                               const std::vector<Tuning>& tunings,
                               Effort effort) {
  double score = kNever;
  const std::vector<GradientBlock> possible =
      PossibleGradientBlocks(trace_, side);
  if (possible.empty()) return score;
  const Room room(FreeBesideNeeds(request_, side));
  for (const bool early : {true, false}) {
    std::vector<Tuning> of_kind = OfKind(tunings, early);
    if (of_kind.empty()) continue;
    for (const double copies : CopiesFor(effort)) {
      std::vector<GradientBlock> blocks = GradientBlocksThatFit(
          room, without.DropAfterCopies(possible, copies));
      if (blocks.empty()) continue;
      const bool all = blocks.size() == possible.size();
      const Best best =
          EnterBlocks({side, {}, copies, {}}, {}, std::move(blocks),
                      std::move(of_kind), effort);
      score = std::min(score, best.score);
      of_kind = {best.tuning};
      if (all && !effort_.thorough) break;
    }
  }
  return score;
}

Search::Best Search::EnterBlocks(const Recipe& recipe,
                                 const std::vector<PossibleSum>& sums,
                                 std::vector<GradientBlock> blocks,
                                 std::vector<Tuning> tunings, Effort effort) {
  const int rounds = effort == kProbe ? 1 : 3;
  Best best;
  for (int round = 0; round < rounds; ++round) {
    std::vector<GradientBlock> useful;
    best = EnterTunings(AutoSchedule(task_, recipe.side, blocks, sums), tunings,
                        recipe, effort, &useful);
    tunings = {best.tuning};
    if (useful.size() == blocks.size()) break;
    blocks = std::move(useful);
    // Without blocks and without sums it was tried before.
    if (blocks.empty() && sums.empty()) break;
  }
  return best;
}

double Search::EnterSums(const SumsBeside& beside,
                         const std::vector<Side>& side,
                         const std::vector<PossibleSum>& fitting,
                         Effort effort) {
  std::vector<Tuning> tunings = {best().tuning};
  if (effort_.thorough && effort == kFull) tunings = contest_.tunings();
  return EnterSummed({side, ChunksOf(fitting), std::nullopt, {}}, tunings,
                     beside, fitting, CopiesFor(effort), effort);
}

double Search::EnterSummed(Recipe recipe, const std::vector<Tuning>& tunings,
                           const SumsBeside& beside,
                           const std::vector<PossibleSum>& sums,
                           const std::vector<double>& copies_to_try,
                           Effort effort) {
  Room room(FreeBesideNeeds(request_, recipe.side));
  for (const PossibleSum& sum : sums) TakeDeviceSum(trace_, sum, room);
  const std::vector<GradientBlock> others =
      Filter(beside.blocks, num_chunks(), recipe.summed, /*kept=*/false,
             [](const GradientBlock& block) { return block.chunk; });
  double score = kNever;
  for (const double copies : copies_to_try) {
    const std::vector<GradientBlock> blocks = GradientBlocksThatFit(
        room, beside.without.DropAfterCopies(others, copies));
    recipe.copies = copies;
    for (const bool early : {true, false}) {
      const std::vector<Tuning> of_kind = OfKind(tunings, early);
      if (of_kind.empty()) continue;
      score = std::min(
          score, EnterBlocks(recipe, sums, blocks, of_kind, effort).score);
    }
    // Blocks that all fit may still take the room of payloads.
    if (!effort_.thorough && blocks.size() == others.size()) break;
  }
  return score;
}

double Search::Enter(const Recipe& recipe, Effort effort) {
  if (!recipe.copies.has_value()) {
    return EnterTunings(AutoSchedule(task_, recipe.side), {recipe.tuning},
                        recipe, effort)
        .score;
  }
  const SumsBeside beside = FindSums(recipe.side);
  const std::vector<PossibleSum> sums = DeviceSumsThatFit(
      request_, recipe.side,
      Filter(beside.all, num_chunks(), recipe.summed, /*kept=*/true,
             [](const PossibleSum& sum) { return sum.sum.chunk; }),
      beside.bytes);
  Recipe fitting = recipe;
  fitting.summed = ChunksOf(sums);
  return EnterSummed(fitting, {recipe.tuning}, beside, sums, {*recipe.copies},
                     effort);
}

}  // namespace castor
