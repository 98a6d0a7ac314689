#include "research/gemini_policy.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"
#include "research/baseline_search.h"

namespace castor {
namespace {

// Steps that are walked through one after the other, each of them alike.
class Walk {
 public:
  // Both outlive this. `free_bytes` are those for chunks that are there and not
  // in use.
  Walk(const PlanRequest& request, const UseIndex& index,
       const std::vector<int64_t>& free_bytes, int64_t max_prefetch)
      : index_(index),
        free_bytes_(free_bytes),
        max_prefetch_(request.prefetch ? max_prefetch : 0),
        at_(index.gaps().size(), At::kHost),
        key_(index.gaps().size(), 0),
        residency_(StayEverywhere(index)),
        starting_(index.moments()),
        ending_(index.moments()),
        acts_(index.moments(), false) {
    for (int64_t g = 0; g < static_cast<int64_t>(index.gaps().size()); ++g) {
      const Gap& gap = index.gaps()[g];
      by_use_.push_back(g);
      ending_[UseOf(g)].push_back(g);
      if (!gap.forced()) starting_[(gap.from + 1) % moments()].push_back(g);
    }
    std::stable_sort(by_use_.begin(), by_use_.end(),
                     [&](int64_t a, int64_t b) { return UseOf(a) < UseOf(b); });
    for (int64_t t = 0; t < moments(); ++t) {
      const OpRecord& op = request.trace->ops[t];
      acts_[t] = op.kind == OpKind::kCompute && !op.chunks.empty();
    }
  }

  // One step. Returns whether it ended with the chunks that it began with, so
  // that the next step will decide as this one did.
  bool Step() {
    // In this step all that is there is used where it was not used before.
    std::set<Resident> before;
    for (const auto& [key, g] : staying_)
      before.insert({key_[g] = -UseOf(g), g});
    staying_ = before;
    size_t next = 0;  // of by_use_: the first whose use is still to come
    for (int64_t t = 0; t < moments(); ++t) {
      for (const int64_t g : ending_[t]) Use(g);
      for (const int64_t g : starting_[t]) Stay(g, t);
      while (bytes_ > free_bytes_[t]) Leave();
      while (next < by_use_.size() && UseOf(by_use_[next]) <= t) ++next;
      if (acts_[t]) Prefetch(t, next);
    }
    std::set<Resident> after;
    for (const auto& [key, g] : staying_) after.insert({-UseOf(g), g});
    return after == before;
  }

  const Residency& residency() const { return residency_; }

 private:
  enum class At : uint8_t { kHost, kDevice, kOnItsWay };
  // The order in which chunks leave: minus the next use in the step at hand, or
  // the step's end, then the gap, which is lower for lower chunks.
  using Resident = std::pair<int64_t, int64_t>;

  int64_t moments() const { return index_.moments(); }
  // The moment of the step at which its use is.
  int64_t UseOf(int64_t g) const { return index_.gaps()[g].to % moments(); }

  void Use(int64_t g) {
    const Gap& gap = index_.gaps()[g];
    if (at_[g] == At::kHost) {
      residency_[g] = {false, gap.to, gap.forced() ? gap.forced_by : gap.to};
      return;
    }
    if (at_[g] == At::kDevice) residency_[g] = {true, gap.to, -1};
    Remove(g);
  }

  void Stay(int64_t g, int64_t t) {
    // One that began with the end of the step before is used in this one.
    const int64_t to = index_.gaps()[g].to;
    key_[g] = t == 0 ? -UseOf(g) : -std::min(to, moments());
    at_[g] = At::kDevice;
    staying_.insert({key_[g], g});
    bytes_ += index_.gaps()[g].bytes;
  }

  // A chunk that is on its way leaves only when no other is there.
  void Leave() {
    Remove(staying_.empty() ? std::prev(on_their_way_.end())->second
                            : staying_.begin()->second);
  }

  void Remove(int64_t g) {
    staying_.erase({key_[g], g});
    on_their_way_.erase({UseOf(g), g});
    at_[g] = At::kHost;
    bytes_ -= index_.gaps()[g].bytes;
  }

  // `next` in by_use_ and all after it are used later in this step.
  void Prefetch(int64_t t, size_t next) {
    // The room until it acts again.
    int64_t room = free_bytes_[t];
    for (int64_t s = t + 1; s < moments() && !acts_[s]; ++s) {
      room = std::min(room, free_bytes_[s]);
    }
    room -= bytes_;
    for (; next < by_use_.size(); ++next) {
      if (static_cast<int64_t>(on_their_way_.size()) >= max_prefetch_) return;
      const int64_t g = by_use_[next];
      const Gap& gap = index_.gaps()[g];
      // As the gap counts moments.
      const int64_t now = gap.to >= moments() ? t + moments() : t;
      if (at_[g] != At::kHost || gap.from >= now || gap.ready > now) continue;
      if (gap.bytes > room) return;
      room -= gap.bytes;
      bytes_ += gap.bytes;
      at_[g] = At::kOnItsWay;
      on_their_way_.insert({UseOf(g), g});
      residency_[g] = {false, now, gap.to};
    }
  }

  const UseIndex& index_;
  const std::vector<int64_t>& free_bytes_;
  const int64_t max_prefetch_;
  int64_t bytes_ = 0;  // of what is there and not in use
  std::vector<At> at_;
  std::vector<int64_t> key_;  // in staying_
  std::set<Resident> staying_;
  std::set<std::pair<int64_t, int64_t>> on_their_way_;  // use, gap
  Residency residency_;  // as the latest step has decided so far
  std::vector<int64_t> by_use_;
  // By their first moment, and by the use after them.
  std::vector<std::vector<int64_t>> starting_, ending_;
  std::vector<bool> acts_;  // whether Gemini's hook runs before the operator
};

// A step may keep too much for the step after it if they never become alike;
// then chunks that have no room in both leave, or come when needed.
void MakeFit(const UseIndex& index, const std::vector<int64_t>& free_bytes,
             Residency& residency) {
  Room room(free_bytes);
  for (const bool stays : {true, false}) {
    for (size_t g = 0; g < residency.size(); ++g) {
      const Gap& gap = index.gaps()[g];
      GapChoice& choice = residency[g];
      if (choice.stays != stays) continue;
      const int64_t from = stays ? gap.from + 1 : choice.fetch_at;
      if (room.Min(from, gap.to) >= gap.bytes) {
        room.Take(from, gap.to, gap.bytes);
      } else {
        choice = {false, gap.to, gap.to};
      }
    }
  }
}

}  // namespace

Plan PlanGeminiWith(const PlanRequest& request, const std::vector<Side>& side,
                    const GeminiKnobs& knobs) {
  const UseIndex index(*request.trace, side);
  std::vector<int64_t> free_bytes = FreeBesideNeeds(request, side);
  const int64_t unused_bytes =
      static_cast<int64_t>((1 - knobs.steady_cuda_cap_ratio) *
                           static_cast<double>(request.device_budget_bytes));
  for (int64_t& bytes : free_bytes) {
    bytes = std::max<int64_t>(0, bytes - unused_bytes);
  }
  // The first steps fill the device; then they become alike.
  constexpr int kMostSteps = 16;
  Walk walk(request, index, free_bytes, knobs.max_prefetch);
  for (int step = 0; step < kMostSteps; ++step) {
    if (walk.Step()) break;
  }
  Residency residency = walk.residency();
  MakeFit(index, free_bytes, residency);
  return WritePlan(request, side, index, residency);
}

Plan PlanGemini(const PlanRequest& request, const Admission& admission) {
  const std::vector<int64_t> free_bytes =
      FreeBesideNeeds(request, AdmittedSides(request, admission));
  const double margin = free_bytes.empty()
                            ? 0
                            : static_cast<double>(*std::min_element(
                                  free_bytes.begin(), free_bytes.end()));
  FastestPlan fastest(request);
  for (const std::vector<Side>& side :
       FirstSidesUpTo(request, admission, request.gpu_margin_mem_ratio * margin,
                      /*steps=*/8)) {
    for (const double cap : {0.9, 1.0}) {
      for (const int64_t prefetch : {0, 1, 2, 4, 8, 16}) {
        fastest.Enter(PlanGeminiWith(request, side, {prefetch, cap}));
      }
    }
  }
  return fastest.plan();
}

}  // namespace castor
