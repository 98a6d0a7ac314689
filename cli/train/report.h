// The texts that `castor train` shows and writes: progress lines, the final
// table, the summary file.
#ifndef CASTOR_CLI_TRAIN_REPORT_H_
#define CASTOR_CLI_TRAIN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/figures/loss_terms.h"
#include "cli/train/step_figures.h"
#include "memory/plan/plan.h"
#include "run/checkpoint/best_state.h"
#include "run/config/config.h"
#include "run/config/run_length.h"
#include "run/optim/chunk_optimizer.h"
#include "run/program/admission.h"
#include "run/program/forecast.h"
#include "run/report/step_meter.h"

namespace castor::cli {

// One rank's part in a run on several (rank_report.h).
struct RankFigures {
  int64_t rank = 0;
  std::string host = {};
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;
  // The bytes that a step sends to other ranks and receives from them: medians
  // over the steps after warm-up.
  int64_t sent_bytes_per_step = 0;
  int64_t received_bytes_per_step = 0;
  // How long compute waited for the network, in all steps, and how much of it
  // passed until a rank came, by rank.
  double network_wait_seconds = 0;
  std::vector<double> late_rank_seconds = {};

  friend bool operator==(const RankFigures&, const RankFigures&) = default;
};

// How a run ended (docs/exit-status.md), in the words of its summary.
inline constexpr char kFinished[] = "finished";
inline constexpr char kStoppedEarly[] = "stopped_early";
inline constexpr char kInterrupted[] = "interrupted";
inline constexpr char kFailed[] = "failed";
inline constexpr char kRefused[] = "refused";

// The results of an evaluation after a step.
struct EvaluationFigures {
  int64_t step = 0;
  double loss = 0;
  double perplexity = 0;
  double accuracy = 0;  // of tokens, in [0, 1]; NaN: not known
  std::vector<LossTerm> terms = {};

  double Of(BestMetric metric) const;
};

// One run's figures, gathered step by step. On several ranks this rank's own,
// until they are merged: then peaks are the greatest of all.
struct RunReport {
  StepFigures steps;           // of this process
  int64_t last_step = 0;       // that is over, in this process or before
  double tokens_per_step = 0;  // on average, without padding
  // How long the steps waited for data; none: these are not streamed.
  std::optional<double> data_wait_seconds = {};
  EpochSize epoch = {};                             // of the training data
  std::vector<EvaluationFigures> evaluations = {};  // of this process
  // The best evaluation of the run and, where it is kept, its checkpoint.
  BestState best = {};
  std::string best_checkpoint = {};
  int64_t device_budget_bytes = 0;  // at the end
  int64_t resizes = 0;              // how often it became another
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;
  std::string parameters_sha256;
  std::string error;  // why the run ended before its last step; else empty
  std::string ended;  // how, as below
  // The forecast of the plan in force at the end, the greatest peaks that any
  // plan that ran foresaw, and how many plans were made.
  Forecast forecast = {};
  int64_t predicted_device_peak_bytes = 0;
  int64_t predicted_host_peak_bytes = 0;
  int64_t plans = 0;
  // Updates that ran before the gradients' norm was known, on this rank.
  SpeculationCounts speculation = {};
  int64_t world_size = 1;
  std::vector<RankFigures> ranks = {};  // by rank, once they are merged
};

// Returns the tokens of a step of samples without padding.
int64_t TokensPerStep(const Config& config);

// Returns the line "predicted step: ...", which says where its durations are
// from, for steps of `tokens` without padding.
std::string ForecastLine(const Config& config, const Forecast& forecast,
                         double tokens);

// Returns a line on a change of the device's memory: its new size, and the
// forecast of the plan that was made for it.
std::string ResizedLine(const Config& config, int64_t device_budget_bytes,
                        const Forecast& forecast, double tokens);

// Returns how far into the run a step is, in passes over the data
// (run_length.h).
double EpochAt(const RunReport& report, int64_t step);

// Returns a line with the size of a pass over the data and of the run; "" where
// it is not known.
std::string EpochLine(const Config& config, const EpochSize& epoch);

// Returns "step 40  validation loss 2.1033  ..."; `best`: it is the best so
// far.
std::string EvaluationLine(const EvaluationFigures& evaluation, bool best);

// Returns a line that says why a run ended before its last step: its
// evaluations became no better.
std::string EarlyStopLine(const Config& config, const RunReport& report);

// Returns the line that changes on a terminal, of at most `columns`: parts that
// do not fit are left out, and the step is cut where only it is left.
std::string LiveLine(const Config& config, const RunReport& report,
                     const StepFigures& recent, int columns);

// Returns "step 20/300  loss 2.4051  ..."; `recent` are the latest finished
// steps, of which the last is shown, with medians over all of them.
std::string ProgressLine(const Config& config, const RunReport& report,
                         const StepFigures& recent);

// Returns the line that tells of a step that was skipped.
std::string OverflowLine(const Config& config, const StepReport& step);

std::string FinalTable(const Config& config, const AdmissionReport& admission,
                       const RunReport& report);

// Returns the summary's JSON text. With `refusal`, of a run that did not fit.
std::string SummaryJson(const Config& config, const AdmissionReport& admission,
                        const RunReport& report,
                        const std::optional<Refusal>& refusal);

// Returns the summary of a run that came to no step and no figures and `ended`
// so, for the reason `error`.
std::string SummaryJson(absl::string_view ended, absl::string_view error);

// Returns true if it is the summary of a run that finished with parameters of
// this hash.
bool IsSummaryOf(const std::string& path, const std::string& parameters_sha256);

// Returns true if a file is a summary, or empty, or if there is none. Any other
// file, named by mistake, is not replaced before all is known to be right.
bool IsSummary(const std::string& path);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_REPORT_H_
