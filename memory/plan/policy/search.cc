#include "memory/plan/policy/search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "memory/plan/policy/effort.h"
#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// Climbing ends when 1 / kPatience of the neighbours that may be made have
// each, in a row, gained less than kGain.
constexpr int64_t kPatience = 2;
constexpr double kGain = 0.0005;

// Shares of the room for states on the device.
constexpr int kShares = 128;

// A block keeps its room for the time of this many copies: its own and one that
// may be queued before it. So the next block in its place waits for nothing.
constexpr double kCopies = 2.0;

constexpr double kNever = std::numeric_limits<double>::infinity();

// The chunks with sums that are shorter than the gradients of all micro
// batches.
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

double MostStatesBytes(const PlanRequest& request, const Admission& admission) {
  const int64_t needed = PeakNeededDeviceBytes(
      request, SidesOf(*request.trace, admission.order, 0));
  return request.gpu_margin_mem_ratio *
         static_cast<double>(request.device_budget_bytes - needed);
}

}  // namespace

Search::Search(const PlanTask& task, const Admission& admission)
    : task_(task),
      request_(task.request),
      trace_(*request_.trace),
      admission_(admission),
      first_side_(AdmittedSides(request_, admission)),
      shorter_sums_(ShorterThanGradients(PossibleDeviceSums(
          trace_, first_side_, PossibleGradientBlocks(trace_, first_side_)))),
      has_blocks_(!PossibleGradientBlocks(trace_, first_side_).empty()),
      sides_free_(trace_.training && request_.fixed_side.empty()),
      most_states_bytes_(MostStatesBytes(request_, admission)),
      contest_(AutoSchedule(task, first_side_).MakeOneOperatorAhead()) {}

int64_t Search::PlansWorth() {
  return PlansFor(static_cast<int64_t>(trace_.ops.size()),
                  contest_.best().step_ns);
}

void Search::Run(int64_t plans) {
  most_plans_ = plans;
  std::vector<ScoredSides> tried = {{EnterTunings(), first_side_}};
  if (sides_free_) EnterShares(&tried);
  std::stable_sort(
      tried.begin(), tried.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [score, side] : tried) {
    EnterBlocksAndSums(side);
    if (this->plans() >= plans * 2 / 3) break;
  }
  Climb();
}

void Search::Run(const std::vector<Recipe>& recipes) {
  for (const Recipe& recipe : recipes) Enter(recipe);
}

double Search::EnterTunings() {
  std::vector<Tuning> tunings = {{}};
  if (request_.prefetch) {
    // Those that are most often good come first.
    tunings = {{.lead_strength = 0},
               {.lead_strength = 1},
               {.lead_strength = 2},
               {.lead_strength = 1, .early = false},
               {.rule = VictimRule::kFittingFarthest, .ahead = 8},
               {.lead_strength = 0.5},
               {.lead_strength = 4},
               {.lead_strength = 1, .ahead = 2}};
  }
  double best = kNever;
  for (const bool with_blocks : {false, true}) {
    if (with_blocks && !has_blocks_) break;
    const std::optional<double> copies =
        with_blocks ? std::optional<double>(kCopies) : std::nullopt;
    for (const Tuning& tuning : tunings) {
      if (plans() >= most_plans_ / 3) return best;
      const double score = Enter({first_side_, {}, copies, tuning});
      if (score < best && !with_blocks) plain_tuning_ = tuning;
      best = std::min(best, score);
    }
  }
  return best;
}

void Search::EnterShares(std::vector<ScoredSides>* tried) {
  // A large chunk far back in the admission's order may be worth more than the
  // many small ones before it.
  std::vector<std::vector<int64_t>> orders(2, admission_.order);
  std::stable_sort(orders[1].begin() + admission_.fewest, orders[1].end(),
                   [&](int64_t a, int64_t b) {
                     return OptimizerBlock(trace_.chunks[a]) >
                            OptimizerBlock(trace_.chunks[b]);
                   });
  std::vector<std::vector<Side>> asked = {first_side_};
  double best = kNever;
  int best_share = kShares;
  const auto enter = [&](const std::vector<int64_t>& order, int share) {
    std::vector<Side> side = SidesWithin(trace_, order, admission_.fewest,
                                         most_states_bytes_ * share / kShares);
    if (std::find(asked.begin(), asked.end(), side) != asked.end()) return;
    asked.push_back(side);
    if (Ended() || !Fits(side)) return;
    const double score = Enter({side, {}, std::nullopt, plain_tuning_});
    if (score < best) {
      best = score;
      best_share = share;
    }
    tried->push_back({score, std::move(side)});
  };
  constexpr int kFirstStep = kShares / 8;
  for (const std::vector<int64_t>& order : orders) {
    for (int share = kFirstStep; share <= kShares; share += kFirstStep) {
      enter(order, share);
    }
  }
  for (int step = kFirstStep / 2; step > 0; step /= 2) {
    const int middle = best_share;
    for (const std::vector<int64_t>& order : orders) {
      enter(order, middle - step);
      enter(order, std::min(middle + step, kShares));
    }
  }
}

void Search::EnterBlocksAndSums(const std::vector<Side>& side) {
  const std::vector<GradientBlock> blocks =
      PossibleGradientBlocks(trace_, side);
  if (!blocks.empty()) {
    // The simplest tuning is often good where the best one of other sides is
    // not.
    const Tuning best = contest_.best().tuning;
    Enter({side, {}, kCopies, best});
    Enter({side, {}, 0, best});
    if (best != Tuning()) Enter({side, {}, kCopies, Tuning()});
  }
  if (shorter_sums_.empty()) return;
  const Sums sums = FindSums(AutoSchedule(task_, side), blocks, side);
  std::vector<int64_t> before;
  for (const double share : {0.5, 1.0}) {
    std::vector<int64_t> summed;
    for (const PossibleSum& sum : DeviceSumsThatFit(
             request_, side, sums.possible, share * sums.most_bytes)) {
      summed.push_back(sum.sum.chunk);
    }
    if (summed == before || Ended()) continue;
    before = summed;
    Enter({side, std::move(summed), kCopies, contest_.best().tuning});
  }
}

bool Search::Fits(const std::vector<Side>& side) const {
  return PeakNeededDeviceBytes(request_, side) <= request_.device_budget_bytes;
}

Search::Sums Search::FindSums(const AutoSchedule& without,
                              const std::vector<GradientBlock>& blocks,
                              const std::vector<Side>& side) const {
  Sums sums;
  sums.possible = without.DropAfterCopies(
      PossibleDeviceSums(trace_, side, blocks), kCopies);
  // A step without possible sums may have no operators either.
  if (sums.possible.empty()) return sums;
  const std::vector<int64_t> free_bytes = FreeBesideNeeds(request_, side);
  sums.most_bytes = request_.gpu_margin_mem_ratio *
                    static_cast<double>(*std::min_element(free_bytes.begin(),
                                                          free_bytes.end()));
  return sums;
}

double Search::Enter(const Recipe& recipe) {
  const AutoSchedule without(task_, recipe.side);
  if (!recipe.copies.has_value()) {
    Candidate candidate = without.Make(recipe.tuning);
    const double score = candidate.score;
    contest_.Enter(std::move(candidate), recipe);
    return score;
  }
  std::vector<GradientBlock> blocks =
      PossibleGradientBlocks(trace_, recipe.side);
  Sums found = FindSums(without, blocks, recipe.side);
  std::vector<bool> is_summed(trace_.chunks.size(), false);
  for (const int64_t c : recipe.summed) is_summed[c] = true;
  std::erase_if(found.possible, [&](const PossibleSum& sum) {
    return !is_summed[sum.sum.chunk];
  });
  const std::vector<PossibleSum> sums = DeviceSumsThatFit(
      request_, recipe.side, found.possible, found.most_bytes);
  Recipe made = recipe;
  made.summed.clear();
  for (const PossibleSum& sum : sums) made.summed.push_back(sum.sum.chunk);

  Room room(FreeBesideNeeds(request_, recipe.side));
  for (const PossibleSum& sum : sums) TakeDeviceSum(trace_, sum, room);
  std::erase_if(blocks, [&](const GradientBlock& block) {
    return std::find(made.summed.begin(), made.summed.end(), block.chunk) !=
           made.summed.end();
  });
  blocks = GradientBlocksThatFit(
      room, without.DropAfterCopies(std::move(blocks), *recipe.copies));
  if (blocks.empty() && sums.empty()) made.copies = std::nullopt;
  double best = kNever;
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    Candidate candidate =
        AutoSchedule(task_, made.side, blocks, sums).Make(made.tuning);
    best = std::min(best, candidate.score);
    const bool all_useful = candidate.useful_blocks.size() == blocks.size();
    std::vector<GradientBlock> useful = candidate.useful_blocks;
    contest_.Enter(std::move(candidate), made);
    if (all_useful) break;
    blocks = std::move(useful);
  }
  return best;
}

void Search::Climb() {
  if (recipes().empty() || trace_.chunks.empty()) return;
  const double compute_ns = static_cast<double>(trace_.compute_ns());
  const int64_t patience = (most_plans_ - plans()) / kPatience;
  int64_t last_gain = plans();
  double best = contest_.best().score;
  while (!Ended() && plans() - last_gain <= patience) {
    // No step is shorter than its operators.
    if (best <= (1 + kAlike) * compute_ns) return;
    const std::vector<Recipe> all = recipes();
    const auto number = static_cast<int64_t>(all.size());
    const double score = Enter(Neighbour(all[Any(2) == 0 ? 0 : Any(number)]));
    if (score < (1 - kGain) * best) last_gain = plans();
    best = std::min(best, score);
  }
}

Recipe Search::Neighbour(Recipe recipe) {
  const auto any_chunk = [&] {
    return Any(static_cast<int64_t>(trace_.chunks.size()));
  };
  const auto large_chunk = [&] {  // the largest of a few
    return std::max({any_chunk(), any_chunk(), any_chunk()},
                    [&](int64_t a, int64_t b) {
                      return OptimizerBlock(trace_.chunks[a]) <
                             OptimizerBlock(trace_.chunks[b]);
                    });
  };
  switch (Any(sides_free_ ? 8 : 3)) {
    case 0:
      Retune(&recipe);
      break;
    case 1:
      has_blocks_ ? TurnBlocks(&recipe) : Retune(&recipe);
      break;
    case 2:
      if (shorter_sums_.empty()) {
        Retune(&recipe);
        break;
      }
      TurnSum(&recipe);
      if (Any(2) == 0) TurnSum(&recipe);
      break;
    case 3:
      ShareStates(&recipe);
      break;
    case 4:
    case 5:
      TurnStates(large_chunk(), &recipe);
      TurnStates(any_chunk(), &recipe);
      break;
    case 6:
      TurnStates(any_chunk(), &recipe);
      break;
    case 7:
      TurnStates(any_chunk(), &recipe);
      if (!shorter_sums_.empty()) TurnSum(&recipe);
      break;
  }
  if (sides_free_) MakeRoom(&recipe.side);
  return recipe;
}

void Search::Retune(Recipe* recipe) {
  constexpr double kStrengths[] = {0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3};
  constexpr int64_t kAhead[] = {0, 1, 2, 4, 8, 16};
  const auto any_of = [&](const auto& all) { return all[Any(std::size(all))]; };
  Tuning& tuning = recipe->tuning;
  do {
    switch (Any(request_.prefetch ? 6 : 1)) {
      case 0:
        tuning.rule = any_of(kVictimRules);
        break;
      case 1:
        tuning.lead_strength = any_of(kStrengths);
        break;
      case 2:
        tuning.ahead = any_of(kAhead);
        break;
      case 3:
        tuning.early = !tuning.early;
        break;
      case 4:
        tuning.off_copies = !tuning.off_copies;
        break;
      case 5:
        tuning.host_first = !tuning.host_first;
        break;
    }
  } while (Any(2) == 0);
}

// Takes a share near the recipe's, or any share.
void Search::ShareStates(Recipe* recipe) {
  double share = static_cast<double>(Any(kShares + 1));
  if (Any(2) == 0) {
    double bytes = 0;
    for (size_t c = 0; c < recipe->side.size(); ++c) {
      if (recipe->side[c] == Side::kHost) continue;
      bytes += static_cast<double>(OptimizerBlock(trace_.chunks[c]));
    }
    constexpr int kNear = kShares / 16;
    share = bytes * kShares / std::max(1.0, most_states_bytes_) +
            static_cast<double>(Any(2 * kNear + 1)) - kNear;
  }
  recipe->side = SidesWithin(trace_, admission_.order, admission_.fewest,
                             most_states_bytes_ * share / kShares);
}

// Where kCopies is too much room, a block may keep it only until it is sent.
void Search::TurnBlocks(Recipe* recipe) {
  if (!recipe->copies.has_value()) {
    recipe->copies = kCopies;
  } else if (recipe->summed.empty() && Any(2) == 0) {
    recipe->copies = std::nullopt;
  } else {
    recipe->copies = *recipe->copies == 0 ? kCopies : 0;
  }
}

void Search::TurnSum(Recipe* recipe) {
  const int64_t c =
      shorter_sums_[Any(static_cast<int64_t>(shorter_sums_.size()))];
  if (std::erase(recipe->summed, c) > 0) return;
  recipe->summed.push_back(c);
  if (!recipe->copies.has_value()) recipe->copies = kCopies;
}

void Search::TurnStates(int64_t chunk, Recipe* recipe) {
  if (OptimizerBlock(trace_.chunks[chunk]) == 0) return;
  if (first_side_[chunk] == Side::kDevice) return;  // the host has no room
  Side& side = recipe->side[chunk];
  side = side == Side::kHost ? Side::kDevice : Side::kHost;
}

int64_t Search::Any(int64_t size) {
  return static_cast<int64_t>(random_() % static_cast<uint64_t>(size));
}

void Search::MakeRoom(std::vector<Side>* side) {
  std::vector<int64_t> may_leave;
  double bytes = 0;
  for (size_t c = 0; c < side->size(); ++c) {
    if ((*side)[c] == first_side_[c]) continue;
    may_leave.push_back(static_cast<int64_t>(c));
    bytes += static_cast<double>(OptimizerBlock(trace_.chunks[c]));
  }
  while (bytes > most_states_bytes_ || !Fits(*side)) {
    CASTOR_CHECK(!may_leave.empty());
    std::swap(may_leave[Any(static_cast<int64_t>(may_leave.size()))],
              may_leave.back());
    const int64_t c = may_leave.back();
    may_leave.pop_back();
    (*side)[c] = Side::kHost;
    bytes -= static_cast<double>(OptimizerBlock(trace_.chunks[c]));
  }
}

}  // namespace castor
