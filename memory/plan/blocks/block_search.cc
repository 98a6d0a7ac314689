#include "memory/plan/blocks/block_search.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace castor {
namespace {

// Plans for about this many operators in all are made in one search for a
// number; those for the ends and the middle of the order are made in any case.
constexpr int64_t kMostOperators = 1'000'000;

// The fraction of a step that a choice must be able to save to be sketched, and
// a search must save to go on.
constexpr double kLeastSketchedGain = 0.002;

BlockUses AllAre(BlockUse use, const BlockPlans& plans) {
  return BlockUses(plans.blocks(), use);
}

// Returns true if all blocks are kept and nothing moves: there is nothing to
// try.
bool IsAtRest(const BlockPlans& plans) {
  const PlanCost& cost = plans.best()->cost;
  return plans.best_uses() == AllAre(BlockUse::kKept, plans) &&
         cost.h2d_bytes + cost.d2h_bytes == 0;
}

using Sketch = std::pair<int64_t, BlockUses>;  // with its step

class Sketcher {
 public:
  explicit Sketcher(BlockPlans* plans)
      : plans_(*plans),
        can_leave_(plans->AnyCanLeave()),
        blocks_(plans->blocks()) {}

  // Sketches numbers of blocks of each use, in every arrangement. With
  // `only_if_better` it goes on only where one of the wide grid is better than
  // `best`. Returns whether it went on.
  bool SketchNumbers(const BlockUses& best, bool only_if_better) {
    constexpr int64_t kSteps = 4;
    int64_t stride = std::max<int64_t>(1, blocks_ / kSteps);
    for (int64_t offloaded = 0; offloaded <= blocks_; offloaded += stride) {
      for (int64_t remade = 0; remade <= blocks_; remade += stride) {
        for (const Arrangement arrangement : kArrangements) {
          Enter({arrangement, offloaded, remade});
        }
      }
    }
    if (only_if_better && !IsAnyBetterThan(plans_.Sketch(best))) return false;
    do {
      stride = (stride + 1) / 2;
      for (const Point& point : BestPoints()) EnterAround(point, stride);
    } while (stride > 1);
    return true;
  }

  // The choices that were sketched, with the lengths of their steps.
  std::vector<Sketch> numbers() const {
    std::vector<Sketch> sketches;
    for (const auto& [ns, point] : points_) {
      sketches.emplace_back(ns, UsesAt(point));
    }
    return sketches;
  }
  std::vector<Sketch> SketchAround(const BlockUses& uses) {
    most_sketches_ = plans_.sketches() + kSketchesAround;
    std::vector<Sketch> sketches;
    for (const BlockUses& other : Neighbours(uses)) {
      sketches.emplace_back(SketchIfItMayWin(other), other);
    }
    return sketches;
  }

 private:
  // The most sketches made for numbers of blocks, and then around each choice.
  static constexpr int64_t kSketchedNumbers = 60, kSketchesAround = 24;

  struct Point {
    Arrangement arrangement;
    int64_t offloaded = 0, remade = 0;

    auto operator<=>(const Point&) const = default;
  };

  BlockUses UsesAt(const Point& point) const {
    return Arrange(point.arrangement, blocks_, point.offloaded, point.remade);
  }

  void Enter(const Point& point) {
    if (point.offloaded < 0 || point.remade < 0 ||
        point.offloaded + point.remade > blocks_) {
      return;
    }
    const BlockUses uses = UsesAt(point);
    if (known_.contains(uses)) return;
    known_.insert(uses);
    points_.emplace_back(SketchIfItMayWin(uses), point);
  }

  void EnterAround(const Point& point, int64_t stride) {
    for (const int64_t more : {-stride, int64_t{0}, stride}) {
      for (const int64_t others : {-stride, int64_t{0}, stride}) {
        Enter(
            {point.arrangement, point.offloaded + more, point.remade + others});
      }
    }
    for (const Arrangement other : kArrangements) {
      Enter({other, point.offloaded, point.remade});
    }
  }

  bool IsAnyBetterThan(int64_t ns) const {
    return std::any_of(points_.begin(), points_.end(),
                       [&](const auto& point) { return point.first < ns; });
  }

  std::vector<Point> BestPoints() {
    constexpr size_t kPoints = 3;
    std::stable_sort(
        points_.begin(), points_.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Point> best;
    for (size_t i = 0; i < std::min(kPoints, points_.size()); ++i) {
      best.push_back(points_[i].second);
    }
    return best;
  }

  int64_t SketchIfItMayWin(const BlockUses& uses) {
    const bool leaves =
        std::find(uses.begin(), uses.end(), BlockUse::kOffloaded) != uses.end();
    if ((leaves && !can_leave_) || plans_.CannotWin(uses, kLeastSketchedGain) ||
        plans_.sketches() >= most_sketches_ ||
        plans_.planned_operators() >= kMostOperators || !plans_.IsWorthMore()) {
      return INT64_MAX;
    }
    return plans_.Sketch(uses);
  }

  BlockPlans& plans_;
  const bool can_leave_;
  const int64_t blocks_;
  int64_t most_sketches_ = kSketchedNumbers;
  std::set<BlockUses> known_;
  std::vector<std::pair<int64_t, Point>> points_;  // with the sketch's step
};

// Plans the best few of the sketched choices that were not planned before.
void TryBest(std::vector<Sketch> sketches, int64_t count, BlockPlans* plans) {
  std::sort(sketches.begin(), sketches.end());
  for (const auto& [ns, uses] : sketches) {
    if (count == 0 || ns == INT64_MAX || !plans->IsWorthMore()) break;
    if (plans->IsTried(uses) || plans->CannotWin(uses)) continue;
    plans->Try(uses);
    --count;
  }
}

// Searches over numbers of the blocks most worth keeping that are kept or
// offloaded; the others are made again.
class Counts {
 public:
  Counts(BlockPlans* plans, BlockUse use) : plans_(*plans), use_(use) {}

  // Searches for the best number: tries all that fit if they are few, else
  // until plans for kMostOperators were made.
  void Try(int64_t most_operators) {
    const int64_t all = plans_.blocks();
    const int64_t most =
        plans_.Fits(UsesOf(all)) ? all : Greatest(0, all, [&](int64_t count) {
          return plans_.Fits(UsesOf(count));
        });
    TryCount(most);
    // The fewer are kept, the longer compute takes.
    int64_t least = 0;
    if (most > 0 && plans_.CannotWin(UsesOf(0))) {
      least = Greatest(0, most,
                       [&](int64_t count) {
                         return plans_.CannotWin(UsesOf(count));
                       }) +
              1;
    }
    // Steps over the counts begin wide and become narrow, around the best one.
    const auto may_try = [&] {
      return plans_.planned_operators() < most_operators &&
             plans_.IsWorthMore();
    };
    int64_t stride = std::max<int64_t>(1, (most - least) / 4);
    for (int64_t count = least + stride; count < most && may_try();
         count += stride) {
      TryCount(count);
    }
    if (least < most && plans_.IsWorthMore()) {
      TryCount(least + (most - least) / 2);
    }
    while (stride > 1 && may_try()) {
      stride = (stride + 1) / 2;
      const int64_t around = best_count_;
      for (const int64_t count : {around - stride, around + stride}) {
        if (count >= least && count <= most) TryCount(count);
      }
    }
  }

 private:
  BlockUses UsesOf(int64_t count) const {
    BlockUses uses(plans_.blocks(), BlockUse::kRemade);
    std::fill(uses.end() - count, uses.end(), use_);
    return uses;
  }

  void TryCount(int64_t count) {
    const int64_t step_ns = plans_.Try(UsesOf(count));
    if (step_ns >= best_ns_) return;
    best_ns_ = step_ns;
    best_count_ = count;
  }

  // Returns the greatest count in [least, most] for which `holds` is true. It
  // must be true for `least`, and false beyond a count for which it is false.
  template <class Holds>
  static int64_t Greatest(int64_t least, int64_t most, const Holds& holds) {
    while (least < most) {
      const int64_t middle = least + (most - least + 1) / 2;
      if (holds(middle)) {
        least = middle;
      } else {
        most = middle - 1;
      }
    }
    return least;
  }

  BlockPlans& plans_;
  const BlockUse use_;
  int64_t best_ns_ = INT64_MAX, best_count_ = 0;
};

}  // namespace

void SearchBlocks(BlockPlans* plans) {
  const BlockUses kept = AllAre(BlockUse::kKept, *plans);
  plans->Try(kept);
  if (IsAtRest(*plans)) return;
  const auto may_win = [&] {
    return !plans->CannotWin(kept, kLeastSketchedGain);
  };
  if (may_win() && plans->AnyCanLeave()) {
    Counts(plans, BlockUse::kOffloaded).Try(kMostOperators);
  }
  if (may_win()) {
    constexpr int64_t kFirst = 4, kFewest = 2, kRounds = 3, kMore = 3;
    Sketcher sketcher(plans);
    // With all blocks kept there is mostly nothing to gain.
    const BlockUses first = plans->best_uses();
    bool goes_on =
        sketcher.SketchNumbers(first, /*only_if_better=*/first == kept);
    TryBest(sketcher.numbers(), goes_on ? kFirst : kFewest, plans);
    goes_on = goes_on || plans->best_uses() != first;
    for (int64_t round = 0; round < kRounds && goes_on && may_win(); ++round) {
      const BlockUses before = plans->best_uses();
      TryBest(sketcher.SketchAround(before), kMore, plans);
      if (plans->best_uses() == before) break;
    }
  }
  plans->KeepThoseThatStay();
}

void SearchBlocksOfLongStep(BlockPlans* plans) {
  Counts(plans, BlockUse::kKept).Try(kMostOperators);
  if (IsAtRest(*plans) || plans->CannotWin(AllAre(BlockUse::kKept, *plans)) ||
      !plans->AnyCanLeave()) {
    return;
  }
  Counts(plans, BlockUse::kOffloaded)
      .Try(plans->planned_operators() + kMostOperators / 2);
  plans->KeepThoseThatStay();
}

}  // namespace castor
