#include "memory/plan/planner/speculation.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {
namespace {

// An update that may run ahead.
struct Ahead {
  int64_t chunk = 0;
  int64_t place = 0;   // in Plan::actions
  int64_t behind = 0;  // how many of that place's actions come first
};

// The updates of chunks whose gradients are whole first come first.
std::vector<Ahead> PossibleUpdates(const StepTrace& trace, const Plan& plan) {
  std::vector<int64_t> last_reduce(trace.chunks.size(), -1);
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    const OpRecord& op = trace.ops[t];
    if (op.kind == OpKind::kReduce) {
      last_reduce[op.chunks[0].chunk.value] = static_cast<int64_t>(t);
    }
  }
  std::vector<Ahead> possible;
  std::vector<int64_t> of_chunk(trace.chunks.size(), -1);  // in `possible`
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    if (last_reduce[c] < 0 || plan.side[c] == Side::kDevice) continue;
    of_chunk[c] = static_cast<int64_t>(possible.size());
    possible.push_back({.chunk = static_cast<int64_t>(c),
                        .place = last_reduce[c] + 1,
                        .behind = 0});
  }
  // A sum that the device makes is the host's when it was sent.
  for (size_t t = 0; t < plan.actions.size(); ++t) {
    for (size_t i = 0; i < plan.actions[t].size(); ++i) {
      const Action& action = plan.actions[t][i];
      if (action.kind != ActionKind::kSendSum) continue;
      const int64_t at = of_chunk[action.chunk.value];
      if (at < 0) continue;
      possible[at].place = static_cast<int64_t>(t);
      possible[at].behind = static_cast<int64_t>(i) + 1;
    }
  }
  std::stable_sort(
      possible.begin(), possible.end(), [](const Ahead& a, const Ahead& b) {
        return std::pair(a.place, a.behind) < std::pair(b.place, b.behind);
      });
  return possible;
}

// Returns `plan` with the first `count` of the updates ahead.
Plan With(Plan plan, const std::vector<Ahead>& updates, int64_t count) {
  // Insert from the back, so that no place moves before its turn.
  for (int64_t i = count; i-- > 0;) {
    std::vector<Action>& actions = plan.actions[updates[i].place];
    actions.insert(
        actions.begin() + updates[i].behind,
        {ActionKind::kSpeculate, ChunkId(updates[i].chunk), Moment()});
  }
  return plan;
}

// Returns the expected length of a step, weighted by the rate of misses.
double ExpectedNs(const Plan& plan, const Simulator& simulator,
                  double miss_rate) {
  const double misses = std::clamp(miss_rate, 0.0, 1.0);
  const auto step_ns = [&](bool missed) {
    return static_cast<double>(simulator.Simulate(plan, {}, missed).step_ns);
  };
  double expected = (1 - misses) * step_ns(false);
  if (misses > 0) expected += misses * step_ns(true);
  return expected;
}

}  // namespace

void SpeculateWhereItPays(const PlanRequest& request, Plan* plan) {
  const StepTrace& trace = *request.trace;
  const SpeculationRequest& speculation = request.speculation;
  if (!trace.training || !trace.global_norm || speculation.host_bytes == 0) {
    return;
  }
  int64_t room = std::min(request.host_budget_bytes, speculation.host_bytes) -
                 HostBytes(request, plan->side);
  std::vector<Ahead> updates;
  for (const Ahead& ahead : PossibleUpdates(trace, *plan)) {
    const int64_t bytes = BankBlock(trace.chunks[ahead.chunk]);
    if (bytes > room) continue;
    room -= bytes;
    updates.push_back(ahead);
  }
  if (updates.empty()) return;
  const int64_t all = static_cast<int64_t>(updates.size());
  if (speculation.least_gain < 0) {
    *plan = With(std::move(*plan), updates, all);
    return;
  }
  // Banks that do not pay take room from others, so numbers of updates are
  // tried: shares of all first, then the numbers halfway to the shares next to
  // the best.
  const Simulator simulator(request);
  const auto expected_ns = [&](const Plan& tried) {
    return ExpectedNs(tried, simulator, speculation.miss_rate);
  };
  const double without_ns = expected_ns(*plan);
  std::map<int64_t, double> tried = {{0, without_ns}};
  const auto best = [&] {
    return std::min_element(
        tried.begin(), tried.end(),
        [](const auto& x, const auto& y) { return x.second < y.second; });
  };
  const auto attempt = [&](int64_t count) {
    if (tried.contains(count)) return;
    tried[count] = expected_ns(With(*plan, updates, count));
  };
  constexpr int64_t kShares = 8;
  for (const int64_t share : {2, 4, 8}) {
    attempt((all * share + kShares - 1) / kShares);
  }
  std::vector<int64_t> halfway;
  const auto at = best();
  if (at != tried.begin()) {
    halfway.push_back((std::prev(at)->first + at->first) / 2);
  }
  if (std::next(at) != tried.end()) {
    halfway.push_back((at->first + std::next(at)->first) / 2);
  }
  for (const int64_t count : halfway) attempt(count);
  const double best_ns = best()->second;
  if (without_ns - best_ns <= speculation.least_gain * without_ns) return;
  constexpr double kNearly = 1.005;
  for (const auto& [count, ns] : tried) {
    if (ns > kNearly * best_ns) continue;
    *plan = With(std::move(*plan), updates, count);
    return;
  }
}

Plan WithoutSpeculation(Plan plan) {
  for (std::vector<Action>& actions : plan.actions) {
    std::erase_if(actions, [](const Action& action) {
      return action.kind == ActionKind::kSpeculate;
    });
  }
  return plan;
}

int64_t NumSpeculativeUpdates(const Plan& plan) {
  int64_t count = 0;
  for (const std::vector<Action>& actions : plan.actions) {
    count +=
        std::count_if(actions.begin(), actions.end(), [](const Action& action) {
          return action.kind == ActionKind::kSpeculate;
        });
  }
  return count;
}

}  // namespace castor
