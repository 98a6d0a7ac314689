// Finds the fastest of the candidates that fit (candidates.h), without planning
// all of them:
//
//   bounds    a dry pass of each row's first candidate says whether it fits,
//             and gives a time that its step is not shorter than (LeastStepNs);
//             candidates that do not fit are dropped
//   sketches  a few quick plans say roughly how long their steps take
//   rows      the first candidates are planned, from the fastest sketch on,
//             where they can be among the `kShownRows` fastest by their bounds;
//             before all others the fastest of those whose results are the ones
//             that were asked for
//   others    the same is done with the other candidates of the rows that were
//             planned, from the fastest row on, where they can be faster than
//             their row by `kLeastGain`
//
// The time that a plan takes grows with the step's operators. Steps of
// `kMostSketched` operators in all are sketched and of `kMostOperators`
// planned, for each card; candidates for which that leaves nothing are counted
// as cut. A search that cuts none finds a step as short as the shortest of all
// candidates of these rows, but for kLeastGain of it.
//
// Plans are made on several threads, `kAtOnce` between two decisions, whatever
// the number of threads, and no clock is read: the same arguments always give
// the same result.
#ifndef CASTOR_CLI_PLAN_SEARCH_SEARCH_H_
#define CASTOR_CLI_PLAN_SEARCH_SEARCH_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/search/candidates.h"
#include "memory/plan/plan.h"
#include "run/program/forecast.h"

namespace castor::cli {

inline constexpr int64_t kShownRows = 10;
inline constexpr double kLeastGain = 0.005;
inline constexpr int64_t kAtOnce = 4;
inline constexpr int64_t kMostSketched = 40'000;
inline constexpr int64_t kMostOperators = 16'000;

// A candidate that was planned.
struct FoundPlan {
  Candidate candidate;
  double step_seconds = 0;
  double tokens_per_second = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;  // that all ranks of one machine take
  Forecast forecast = {};
  std::string policy;
  int64_t chunk_bytes = 0;  // of a normal chunk
  int64_t smallest_device_budget_bytes = 0;
  nlohmann::json figures;  // those of `castor plan --json`
};

// A row of candidates at least one of which fits, with the fastest that was
// planned.
struct FoundRow {
  CandidateRow row;
  FoundPlan plan;
  // No other row of this card and as many ranks is faster without taking more
  // of one memory, or takes less of one without being slower or taking more of
  // the other.
  bool on_frontier = false;

  // Returns the cost of a billion tokens; 0: no price is known.
  double DollarsPerBillionTokens() const;
};

struct SearchResult {
  // From the fastest on, except that one with the results that were asked for
  // goes first where it is slower by less than kLeastGain. Empty: nothing fits.
  std::vector<FoundRow> rows;
  // The fastest, within less device memory: from its smallest budget to three
  // quarters of the way to its peak.
  std::vector<FoundPlan> with_less_memory;
  // How many candidates were looked at, and how many of them were dropped.
  int64_t candidates = 0;
  int64_t not_fitting = 0;
  int64_t too_slow = 0;  // by their bounds
  int64_t planned = 0;
  int64_t cut = 0;  // after kMostOperators; might be as fast
  // Where nothing fits: the error of the last candidate, which takes the least.
  std::string error;
  std::optional<Refusal> refusal;
};

// How far a search has come, for the user.
struct SearchProgress {
  int64_t candidates = 0;  // that were looked at
  int64_t planned = 0;
  double best_tokens_per_second = 0;
};

// Searches, and tells `tell` how far it has come. A candidate that is wrong is
// an error; one that does not fit is none.
absl::StatusOr<SearchResult> SearchCandidates(
    const Candidates& candidates,
    const std::function<void(const SearchProgress&)>& tell);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_SEARCH_SEARCH_H_
