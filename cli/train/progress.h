// The messages of a run while it goes on: lines in a log, or on a terminal one
// line that changes, and a line of JSON for each step and evaluation in the
// file of --log-json (docs/log-json.md has its keys).
#ifndef CASTOR_CLI_TRAIN_PROGRESS_H_
#define CASTOR_CLI_TRAIN_PROGRESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/train/report.h"
#include "nlohmann/json_fwd.hpp"
#include "run/config/config.h"
#include "run/program/forecast.h"
#include "run/report/step_meter.h"

namespace castor::cli {

// The file of --log-json. Whatever happens to it, the run goes on: a failure to
// write is told once, on standard error.
class JsonLog {
 public:
  // Opens the log. A run that goes on after `step` keeps the lines of the steps
  // up to there and drops later ones; one that begins keeps none.
  // InvalidArgument: `path` is not a regular file, or is not such a log; it
  // stays as it is.
  static absl::StatusOr<std::unique_ptr<JsonLog>> Open(const std::string& path,
                                                       int64_t step);
  ~JsonLog();
  JsonLog(const JsonLog&) = delete;
  JsonLog& operator=(const JsonLog&) = delete;

  // Appends a line, handed to the system whole before this returns.
  void Add(const nlohmann::ordered_json& line);

 private:
  explicit JsonLog(int fd) : fd_(fd) {}
  int fd_;  // -1: writing failed
};

class Progress {
 public:
  // `config` and `report` are borrowed; a message has the report's figures at
  // its time. `columns` of the terminal; 0: standard output is none.
  Progress(const Config* config, const RunReport* report, int columns);

  void set_log(std::unique_ptr<JsonLog> log) { log_ = std::move(log); }

  // Adds a step that is wholly over.
  void AddStep(const StepReport& step);
  // Tells of the forecast in force: the first one, the first that is made from
  // measured durations, and one that differs by more than a tenth.
  void TellForecast(const Forecast& forecast);
  // Prints the added steps for which steps_per_print asks; `all`: the latest of
  // them in any case.
  void Print(bool all);
  // Prints and logs an evaluation. `best`: it is the best so far.
  void AddEvaluation(const EvaluationFigures& evaluation, bool best);

  // Prints a line for the user, above the one that changes.
  void Say(absl::string_view line);
  // Removes the line that changes, before others write.
  void Clear();

 private:
  bool live() const { return columns_ > 0; }
  void PrintLine();

  const Config& config_;
  const RunReport& report_;
  const int columns_;
  std::unique_ptr<JsonLog> log_;
  std::vector<StepReport> unprinted_;
  StepFigures since_print_;    // the steps since the last line
  StepFigures lately_;         // of the line that changes
  bool shown_ = false;         // that line is there
  int64_t drawn_ns_ = 0;       // when it was drawn last
  int64_t told_step_ns_ = -1;  // of the last line with a forecast
  bool told_measured_ = false;
};

// Returns the columns of the terminal that standard output is; 0: it is none.
int TerminalColumns();

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_PROGRESS_H_
