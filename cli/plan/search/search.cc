#include "cli/plan/search/search.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "cli/plan/advice/change.h"
#include "cli/plan/planned_run.h"

namespace castor::cli {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostThreads = 8;
// Chunks of a quarter and of four times this size are tried where no first
// candidate fits, whose size they would follow from.
constexpr int64_t kSomeChunkBytes = int64_t{4} << 20;

// The result of a dry pass of a candidate.
struct Bound {
  absl::Status status;
  std::optional<Refusal> refusal;
  double least_seconds = 0;
  double sketched_seconds = kNever;  // until there is a sketch
  int64_t operators = 0;
  int64_t chunk_bytes = 0;

  bool fits() const { return status.ok(); }
};

int64_t ChunkBytes(const PlannedRun& run) {
  const ChunkLayout& layout = run.session->trainer().layout();
  return layout.chunk_elements * SizeOf(layout.dtype);
}

Bound BoundOf(const Candidate& candidate, AdmitDepth depth) {
  Bound bound;
  std::optional<RefusedRun> refused;
  const auto run = PlanOf(candidate.arguments, depth, {}, &refused);
  bound.status = run.status();
  if (refused.has_value()) bound.refusal = refused->refusal;
  if (!run.ok()) return bound;
  bound.least_seconds =
      1e-9 * static_cast<double>(run->admission().least_step_ns);
  if (depth == AdmitDepth::kSketch) {
    bound.sketched_seconds =
        1e-9 * static_cast<double>(run->admission().sketched_step_ns);
  }
  bound.operators = run->admission().operators;
  bound.chunk_bytes = ChunkBytes(*run);
  return bound;
}

absl::StatusOr<FoundPlan> Planned(const Candidate& candidate) {
  CASTOR_ASSIGN_OR_RETURN(const PlannedRun run,
                          PlanOf(candidate.arguments, AdmitDepth::kPlan));
  const AdmissionReport& admission = run.admission();
  return FoundPlan{
      .candidate = candidate,
      .step_seconds = run.StepSeconds(),
      .tokens_per_second = run.TokensPerSecond(),
      .device_peak_bytes = admission.device.total(),
      .host_peak_bytes = run.MachineHostBytes(),
      .forecast = admission.forecast,
      .policy = std::string(admission.policy->name),
      .chunk_bytes = ChunkBytes(run),
      .smallest_device_budget_bytes = admission.smallest_device_budget_bytes,
      .figures = PlanJson(run, candidate.arguments.by_shape())};
}

class Searcher {
 public:
  Searcher(const Candidates& candidates,
           const std::function<void(const SearchProgress&)>& tell)
      : candidates_(candidates),
        tell_(tell),
        pool_(std::clamp(AvailableProcessors(), 1, kMostThreads)) {
    std::set<std::string> cards;
    for (const CandidateRow& row : candidates.rows) {
      rows_.push_back({.row = &row});
      cards.insert(row.gpu);
    }
    cards_ = static_cast<int64_t>(cards.size());
    operators_left_ = kMostOperators * cards_;
  }

  absl::StatusOr<SearchResult> Search() && {
    CASTOR_RETURN_IF_ERROR(BoundRows());
    SketchRows();
    CASTOR_RETURN_IF_ERROR(PlanRows());
    CASTOR_RETURN_IF_ERROR(PlanOthers());
    for (const State& state : rows_) {
      if (!state.found.has_value()) continue;
      result_.rows.push_back({.row = *state.row, .plan = *state.found});
    }
    std::stable_sort(result_.rows.begin(), result_.rows.end(),
                     [](const FoundRow& a, const FoundRow& b) {
                       return a.plan.step_seconds < b.plan.step_seconds;
                     });
    PutAskedResultsFirst();
    MarkFrontier();
    if (result_.rows.empty()) {
      const Bound& last = rows_.back().bound;
      result_.error = std::string(last.status.message());
      result_.refusal = last.refusal;
      return std::move(result_);
    }
    CASTOR_RETURN_IF_ERROR(PlanWithLessMemory());
    return std::move(result_);
  }

 private:
  struct State {
    const CandidateRow* row = nullptr;
    Bound bound = {};  // of its first candidate
    std::optional<FoundPlan> found = {};
  };

  // A candidate that may be planned.
  struct Trial {
    State* state = nullptr;
    Candidate candidate;
    double least_seconds = 0;
    double sketched_seconds = 0;
    int64_t operators = 0;
  };

  void Tell() const {
    tell_({.candidates = result_.candidates,
           .planned = result_.planned,
           .best_tokens_per_second = best_tokens_per_second_});
  }

  // Returns the results of dry passes of `trials`, in their order.
  std::vector<Bound> Look(const std::vector<const Candidate*>& trials,
                          AdmitDepth depth) {
    std::vector<Bound> bounds(trials.size());
    constexpr size_t kPart = 16;
    for (size_t begin = 0; begin < trials.size(); begin += kPart) {
      const size_t count = std::min(kPart, trials.size() - begin);
      pool_.ParallelFor(static_cast<int64_t>(count), [&](int64_t i, int) {
        bounds[begin + i] = BoundOf(*trials[begin + i], depth);
      });
      Tell();
    }
    return bounds;
  }

  // Bounds of new candidates.
  absl::StatusOr<std::vector<Bound>> LookAt(
      const std::vector<Candidate>& trials) {
    result_.candidates += static_cast<int64_t>(trials.size());
    std::vector<const Candidate*> all;
    for (const Candidate& trial : trials) all.push_back(&trial);
    std::vector<Bound> bounds = Look(all, AdmitDepth::kBound);
    for (const Bound& bound : bounds) {
      if (bound.fits()) continue;
      if (!absl::IsResourceExhausted(bound.status)) return bound.status;
      ++result_.not_fitting;
    }
    return bounds;
  }

  absl::Status BoundRows() {
    std::vector<Candidate> firsts;
    for (const State& state : rows_) firsts.push_back(state.row->first);
    CASTOR_ASSIGN_OR_RETURN(std::vector<Bound> bounds, LookAt(firsts));
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].bound = std::move(bounds[i]);
    }
    return absl::OkStatus();
  }

  // Sketches the first candidates, from the shortest steps on: long ones have
  // many small micro batches, and are seldom fast.
  void SketchRows() {
    std::vector<State*> states;
    for (State& state : rows_) {
      if (state.bound.fits()) states.push_back(&state);
    }
    std::stable_sort(states.begin(), states.end(),
                     [](const State* a, const State* b) {
                       return a->bound.operators < b->bound.operators;
                     });
    int64_t left = kMostSketched * cards_;
    std::vector<const Candidate*> trials;
    for (const State* state : states) {
      left -= state->bound.operators;
      if (left < 0 && !trials.empty()) break;
      trials.push_back(&state->row->first);
    }
    std::vector<Bound> bounds = Look(trials, AdmitDepth::kSketch);
    for (size_t i = 0; i < bounds.size(); ++i) {
      if (bounds[i].fits()) states[i]->bound = std::move(bounds[i]);
    }
  }

  // The step of the last row that is shown, if there are as many.
  double SlowestShown() const {
    std::vector<double> steps;
    for (const State& state : rows_) {
      if (state.found.has_value()) steps.push_back(state.found->step_seconds);
    }
    if (steps.size() < kShownRows) return kNever;
    std::nth_element(steps.begin(), steps.begin() + (kShownRows - 1),
                     steps.end());
    return steps[kShownRows - 1];
  }

  // A candidate is of use if its step is shorter than this.
  double Wanted(const State& state) const {
    const double shown = SlowestShown();
    return state.found.has_value()
               ? std::min(shown, (1 - kLeastGain) * state.found->step_seconds)
               : shown;
  }

  // Plans those of the trials, in their order, that may be of use.
  absl::Status PlanUseful(const std::vector<Trial>& trials) {
    size_t next = 0;
    while (next < trials.size()) {
      std::vector<const Trial*> now;
      for (; next < trials.size() && static_cast<int64_t>(now.size()) < kAtOnce;
           ++next) {
        const Trial& trial = trials[next];
        if (trial.least_seconds >= Wanted(*trial.state)) {
          ++result_.too_slow;
        } else if (trial.operators > operators_left_ &&
                   result_.planned + static_cast<int64_t>(now.size()) > 0) {
          ++result_.cut;
        } else {
          operators_left_ -= trial.operators;
          now.push_back(&trial);
        }
      }
      std::vector<absl::StatusOr<FoundPlan>> plans(
          now.size(), absl::StatusOr<FoundPlan>(absl::CancelledError()));
      pool_.ParallelFor(static_cast<int64_t>(now.size()), [&](int64_t i, int) {
        plans[i] = Planned(now[i]->candidate);
      });
      for (size_t i = 0; i < now.size(); ++i) {
        // The host's memory beside an emulated device is known of plans alone.
        if (absl::IsResourceExhausted(plans[i].status())) {
          ++result_.not_fitting;
          State& state = *now[i]->state;
          if (state.bound.fits()) state.bound.status = plans[i].status();
          continue;
        }
        CASTOR_RETURN_IF_ERROR(plans[i].status());
        ++result_.planned;
        Enter(*std::move(plans[i]), now[i]->state);
      }
      Tell();
    }
    return absl::OkStatus();
  }

  void Enter(FoundPlan plan, State* state) {
    best_tokens_per_second_ =
        std::max(best_tokens_per_second_, plan.tokens_per_second);
    if (state->found.has_value() &&
        plan.step_seconds >= (1 - kLeastGain) * state->found->step_seconds) {
      return;
    }
    state->found = std::move(plan);
  }

  static Trial TrialOf(State* state, Candidate candidate, const Bound& bound) {
    return {.state = state,
            .candidate = std::move(candidate),
            .least_seconds = bound.least_seconds,
            .sketched_seconds = bound.sketched_seconds,
            .operators = bound.operators};
  }

  // Plans from the fastest sketch on: where the search is cut, these are known.
  // The fastest of the trials with the results that were asked for comes before
  // all others, which may be so many that nothing is left for it.
  absl::Status PlanInOrder(std::vector<Trial> trials) {
    std::stable_sort(trials.begin(), trials.end(),
                     [](const Trial& a, const Trial& b) {
                       return a.sketched_seconds < b.sketched_seconds;
                     });
    const auto asked = std::find_if(
        trials.begin(), trials.end(),
        [](const Trial& trial) { return !trial.state->row->other_results; });
    if (asked != trials.end()) std::rotate(trials.begin(), asked, asked + 1);
    return PlanUseful(trials);
  }

  absl::Status PlanRows() {
    std::vector<Trial> trials;
    for (State& state : rows_) {
      if (!state.bound.fits()) continue;
      trials.push_back(TrialOf(&state, state.row->first, state.bound));
    }
    return PlanInOrder(std::move(trials));
  }

  // The other candidates of each row, from the fastest row on.
  absl::Status PlanOthers() {
    std::vector<State*> states;
    for (State& state : rows_) {
      // Neither a policy nor chunks change what all states take.
      const bool may_fit = state.bound.refusal.has_value() &&
                           state.bound.refusal->tier == "device";
      if (state.found.has_value() || may_fit) states.push_back(&state);
    }
    const auto step = [](const State* state) {
      return state->found.has_value() ? state->found->step_seconds : kNever;
    };
    std::stable_sort(
        states.begin(), states.end(),
        [&](const State* a, const State* b) { return step(a) < step(b); });
    for (State* const state : states) {
      const int64_t chunk_bytes =
          state->bound.fits() ? state->bound.chunk_bytes : kSomeChunkBytes;
      std::vector<Candidate> others =
          OthersOf(*state->row, candidates_, chunk_bytes);
      CASTOR_ASSIGN_OR_RETURN(const std::vector<Bound> bounds, LookAt(others));
      std::vector<Trial> trials;
      for (size_t i = 0; i < others.size(); ++i) {
        if (!bounds[i].fits()) continue;
        trials.push_back(TrialOf(state, std::move(others[i]), bounds[i]));
      }
      CASTOR_RETURN_IF_ERROR(PlanInOrder(std::move(trials)));
    }
    return absl::OkStatus();
  }

  // Other results are no price for a gain that is none.
  void PutAskedResultsFirst() {
    std::vector<FoundRow>& rows = result_.rows;
    const auto first = std::find_if(
        rows.begin(), rows.end(),
        [](const FoundRow& row) { return !row.row.other_results; });
    if (first == rows.end() || (1 - kLeastGain) * first->plan.step_seconds >
                                   rows.front().plan.step_seconds) {
      return;
    }
    std::rotate(rows.begin(), first, first + 1);
  }

  void MarkFrontier() {
    for (FoundRow& row : result_.rows) {
      row.on_frontier = std::none_of(
          result_.rows.begin(), result_.rows.end(),
          [&](const FoundRow& other) { return Beats(other, row); });
    }
  }

  // Nowhere worse than the other, and somewhere better.
  static bool Beats(const FoundRow& a, const FoundRow& b) {
    if (a.row.gpu != b.row.gpu || a.row.nodes != b.row.nodes ||
        a.row.gpus_per_node != b.row.gpus_per_node) {
      return false;
    }
    const FoundPlan& x = a.plan;
    const FoundPlan& y = b.plan;
    return x.step_seconds <= y.step_seconds &&
           x.device_peak_bytes <= y.device_peak_bytes &&
           x.host_peak_bytes <= y.host_peak_bytes &&
           (x.step_seconds < y.step_seconds ||
            x.device_peak_bytes < y.device_peak_bytes ||
            x.host_peak_bytes < y.host_peak_bytes);
  }

  absl::Status PlanWithLessMemory() {
    constexpr int64_t kParts = 3;
    const FoundPlan& best = result_.rows.front().plan;
    const int64_t least = best.smallest_device_budget_bytes;
    std::vector<Candidate> trials;
    for (int64_t part = kParts - 1; part >= 0; --part) {
      const int64_t bytes =
          least + (best.device_peak_bytes - least) / kParts * part;
      if (bytes >= best.device_peak_bytes) continue;
      Candidate& trial = trials.emplace_back(best.candidate);
      for (const std::string& setting :
           DeviceMemorySettings(candidates_.asked, bytes)) {
        AddSetting(setting, &trial);
      }
    }
    std::vector<absl::StatusOr<FoundPlan>> plans(
        trials.size(), absl::StatusOr<FoundPlan>(absl::CancelledError()));
    pool_.ParallelFor(static_cast<int64_t>(trials.size()),
                      [&](int64_t i, int) { plans[i] = Planned(trials[i]); });
    for (absl::StatusOr<FoundPlan>& plan : plans) {
      if (absl::IsResourceExhausted(plan.status())) continue;
      CASTOR_RETURN_IF_ERROR(plan.status());
      result_.with_less_memory.push_back(*std::move(plan));
    }
    return absl::OkStatus();
  }

  const Candidates& candidates_;
  const std::function<void(const SearchProgress&)>& tell_;
  ThreadPool pool_;
  int64_t cards_ = 0;
  int64_t operators_left_ = 0;  // to plan
  std::vector<State> rows_;
  SearchResult result_;
  double best_tokens_per_second_ = 0;
};

}  // namespace

double FoundRow::DollarsPerBillionTokens() const {
  if (row.price == 0 || plan.tokens_per_second == 0) return 0;
  const double hours = 1e9 / plan.tokens_per_second / 3600;
  return hours * row.price * static_cast<double>(row.ranks);
}

absl::StatusOr<SearchResult> SearchCandidates(
    const Candidates& candidates,
    const std::function<void(const SearchProgress&)>& tell) {
  return Searcher(candidates, tell).Search();
}

}  // namespace castor::cli
