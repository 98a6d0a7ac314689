#include "memory/plan/blocks/block_search.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

namespace castor {
namespace {

// The fraction of a step that a choice must be able to save to be tried.
constexpr double kLeastGain = 0.002;

// A number of blocks of each use, the others kept, in one arrangement.
struct Point {
  Arrangement arrangement;
  int64_t offloaded = 0, remade = 0;
};

class BlockSearch {
 public:
  explicit BlockSearch(BlockPlans* plans)
      : plans_(*plans),
        blocks_(plans->blocks()),
        kept_(blocks_, BlockUse::kKept),
        can_leave_(plans->AnyCanLeave()),
        sketches_of_step_(
            kSketchedOperators /
            std::max<int64_t>(1, std::ssize(plans->best()->trace.ops))),
        most_sketches_(std::min(kSketchedNumbers, sketches_of_step_)) {}

  // Sketches numbers of blocks of each use: a wide grid of them in every
  // arrangement, and then ever narrower ones around the best. It ends with the
  // wide grid where keeping all is the best.
  void SketchNumbers() {
    constexpr int64_t kSteps = 4;
    int64_t stride = std::max<int64_t>(1, blocks_ / kSteps);
    for (const Arrangement arrangement : kArrangements) {
      for (int64_t offloaded = 0; offloaded <= blocks_; offloaded += stride) {
        for (int64_t remade = 0; remade <= blocks_; remade += stride) {
          Enter({arrangement, offloaded, remade});
        }
      }
    }
    while (stride > 1) {
      const std::vector<Point> best = BestPoints();
      if (best.empty() || best.front().offloaded + best.front().remade == 0) {
        return;
      }
      stride = (stride + 1) / 2;
      for (const Point& point : best) EnterAround(point, stride);
    }
  }

  void SketchNeighbours() {
    most_sketches_ = static_cast<int64_t>(sketches_.size()) +
                     std::min(kSketchesAround, sketches_of_step_);
    for (const BlockUses& other : Neighbours(plans_.best_uses())) Sketch(other);
  }

  // Plans so many of the best sketched choices that were not planned before.
  void PlanBest(int64_t count) {
    std::sort(sketches_.begin(), sketches_.end());
    for (const auto& [ns, uses] : sketches_) {
      if (count == 0 || !plans_.IsWorthMore()) break;
      if (plans_.IsTried(uses) || plans_.CannotWin(uses)) continue;
      plans_.Try(uses);
      --count;
    }
  }

  bool MayWin() const { return !plans_.CannotWin(kept_, kLeastGain); }

 private:
  // The most sketches made for numbers of blocks, and then around each choice;
  // fewer for a step of many operators.
  static constexpr int64_t kSketchedNumbers = 60, kSketchesAround = 24;
  static constexpr int64_t kSketchedOperators = 480'000;

  // Returns the length of the choice's step in ns; INT64_MAX if it does not fit
  // or is not worth a sketch.
  int64_t Sketch(const BlockUses& uses) {
    if (!known_.insert(uses).second) return INT64_MAX;
    const bool leaves =
        std::find(uses.begin(), uses.end(), BlockUse::kOffloaded) != uses.end();
    if ((leaves && !can_leave_) || plans_.CannotWin(uses, kLeastGain) ||
        static_cast<int64_t>(sketches_.size()) >= most_sketches_ ||
        !plans_.IsWorthMore()) {
      return INT64_MAX;
    }
    const int64_t ns = plans_.Sketch(uses);
    if (ns < INT64_MAX) sketches_.emplace_back(ns, uses);
    return ns;
  }

  void Enter(const Point& point) {
    if (point.offloaded < 0 || point.remade < 0 ||
        point.offloaded + point.remade > blocks_) {
      return;
    }
    const int64_t ns = Sketch(
        Arrange(point.arrangement, blocks_, point.offloaded, point.remade));
    if (ns < INT64_MAX) points_.emplace_back(ns, point);
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

  std::vector<Point> BestPoints() {
    constexpr size_t kPoints = 5;
    std::stable_sort(
        points_.begin(), points_.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Point> best;
    for (size_t i = 0; i < std::min(kPoints, points_.size()); ++i) {
      best.push_back(points_[i].second);
    }
    return best;
  }

  BlockPlans& plans_;
  const int64_t blocks_;
  const BlockUses kept_;
  const bool can_leave_;
  const int64_t sketches_of_step_;
  int64_t most_sketches_;
  std::set<BlockUses> known_;
  // The uses of blocks that fit, with the length of their step in ns.
  std::vector<std::pair<int64_t, BlockUses>> sketches_;
  std::vector<std::pair<int64_t, Point>> points_;
};

}  // namespace

void SearchBlocks(BlockPlans* plans) {
  constexpr int64_t kFirst = 4, kMore = 4, kRounds = 4;
  const BlockUses kept(plans->blocks(), BlockUse::kKept);
  plans->Try(kept);
  const PlanCost& cost = plans->best()->cost;
  const bool moves = cost.h2d_bytes + cost.d2h_bytes > 0;
  BlockSearch search(plans);
  if ((plans->best_uses() == kept && !moves) || !search.MayWin()) return;
  plans->Try(BlockUses(plans->blocks(), BlockUse::kOffloaded));
  search.SketchNumbers();
  search.PlanBest(kFirst);
  // Where keeping all is still the best there is mostly nothing to gain.
  for (int64_t round = 0; round < kRounds && search.MayWin(); ++round) {
    const BlockUses before = plans->best_uses();
    if (before == kept) return;
    search.SketchNeighbours();
    search.PlanBest(kMore);
    if (plans->best_uses() == before) break;
  }
  plans->KeepThoseThatStay();
}

}  // namespace castor
