#include "cli/train/progress.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "cli/output/output_file.h"
#include "cli/output/standard_output.h"

namespace castor::cli {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr int kMostColumns = 100;
constexpr int64_t kRedrawNs = 100'000'000;
constexpr int64_t kStepsLately = 32;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Returns true if it is a line of JsonLog's, of a step or an evaluation.
bool IsLogged(const nlohmann::json& line) {
  return line.is_object() && line.contains("step") &&
         line["step"].is_number_integer() && line.contains("epoch") &&
         (line.contains("loss") || line.contains("validation_loss"));
}

// InvalidArgument: a run that goes on has the file locked, and would write to
// one that has no name any more.
absl::Status CheckNobodyWrites(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::OkStatus();  // what is wrong is told when it is read
  const bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  if (!locked) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is the log of a run that goes on: name another file"));
}

// The lines of a log that a run keeps which goes on after `step`.
absl::StatusOr<std::string> KeptLines(const std::string& path, int64_t step) {
  constexpr int64_t kMaxBytes = int64_t{1} << 32;
  const auto no_log = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is there and is no log of a run: name another file"));
  };
  const auto text = ReadSmallFile(path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return std::string();
  CASTOR_RETURN_IF_ERROR(text.status());
  std::string kept;
  std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
  // The last line is one that a run was writing when it was killed, or empty.
  lines.pop_back();
  for (const absl::string_view line : lines) {
    const auto json = nlohmann::json::parse(line, nullptr,
                                            /*allow_exceptions=*/false);
    if (!IsLogged(json)) return no_log();
    if (json["step"].get<int64_t>() <= step) {
      absl::StrAppend(&kept, line, "\n");
    }
  }
  if (lines.empty() && !text->empty()) return no_log();
  return kept;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonLog>> JsonLog::Open(const std::string& path,
                                                       int64_t step) {
  const std::string target = LinkTarget(path);
  CASTOR_RETURN_IF_ERROR(CheckWritable(target));
  CASTOR_RETURN_IF_ERROR(CheckNobodyWrites(target));
  CASTOR_ASSIGN_OR_RETURN(const std::string kept, KeptLines(target, step));
  CASTOR_RETURN_IF_ERROR(WriteWhole(target, kept));
  const int fd = open(target.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(target, ": ", std::strerror(errno)));
  }
  flock(fd, LOCK_EX | LOCK_NB);  // some file systems have no locks
  return std::unique_ptr<JsonLog>(new JsonLog(fd));
}

JsonLog::~JsonLog() {
  if (fd_ >= 0) close(fd_);
}

void JsonLog::Add(const Ordered& line) {
  if (fd_ < 0) return;
  const std::string text =
      line.dump(-1, ' ', false, Ordered::error_handler_t::replace) + "\n";
  const ssize_t written = write(fd_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return;
  TellNote("castor",
           absl::StrCat("--log-json: ",
                        written < 0 ? std::strerror(errno) : "the disk is full",
                        "; the run goes on without"));
  close(fd_);
  fd_ = -1;
}

Progress::Progress(const Config* config, const RunReport* report, int columns)
    : config_(*config),
      report_(*report),
      columns_(std::min(columns, kMostColumns)) {}

void Progress::AddStep(const StepReport& step) {
  unprinted_.push_back(step);
  if (log_ == nullptr) return;
  Ordered line = {
      {"step", step.step},
      {"epoch", EpochAt(report_, step.step)},
      {"loss", step.loss},
      {"learning_rate", step.learning_rate},
      {"seconds", step.seconds},
      {"tokens_per_second",
       step.seconds > 0 ? (step.tokens > 0 ? static_cast<double>(step.tokens)
                                           : report_.tokens_per_step) /
                              step.seconds
                        : 0},
      {"stall_seconds", step.stall_seconds},
      {"host_to_device_bytes", step.h2d_bytes},
      {"device_to_host_bytes", step.d2h_bytes},
      {"device_peak_bytes", step.device_peak_bytes},
      {"warmup", step.warmup},
      {"skipped", !step.overflow.empty()}};
  if (!step.terms.empty()) {
    line["loss_terms"] = LossTermsJson(NameTerms(config_.model, step.terms));
  }
  if (step.length > 0) line["length"] = step.length;
  if (config_.fp16.enabled) line["loss_scale"] = step.loss_scale;
  log_->Add(line);
}

void Progress::TellForecast(const Forecast& forecast) {
  const bool first = told_step_ns_ < 0;
  const bool newly_measured = forecast.measured && !told_measured_;
  const auto told = static_cast<double>(told_step_ns_);
  const bool moved =
      std::abs(static_cast<double>(forecast.step_ns) - told) > 0.1 * told;
  if (!first && !newly_measured && !(forecast.measured && moved)) return;
  told_step_ns_ = forecast.step_ns;
  told_measured_ = forecast.measured;
  Say(ForecastLine(config_, forecast, report_.tokens_per_step));
}

void Progress::PrintLine() {
  Say(ProgressLine(config_, report_, since_print_));
  since_print_ = {};
}

void Progress::Print(bool all) {
  for (const StepReport& step : std::exchange(unprinted_, {})) {
    since_print_.Add(step);
    if (!step.overflow.empty()) Say(OverflowLine(config_, step));
    if (live()) {
      if (static_cast<int64_t>(lately_.losses().size()) >= kStepsLately) {
        lately_ = {};
      }
      lately_.Add(step);
      continue;
    }
    if (step.step % config_.steps_per_print == 0 || step.step == 1) PrintLine();
  }
  if (live() && !lately_.empty()) {
    const int64_t now = NowNs();
    if (all || now - drawn_ns_ >= kRedrawNs) {
      drawn_ns_ = now;
      Clear();
      std::fputs(LiveLine(config_, report_, lately_, columns_).c_str(), stdout);
      shown_ = true;
    }
  } else if (all && !since_print_.empty()) {
    PrintLine();
  }
  FlushOutput();
}

void Progress::AddEvaluation(const EvaluationFigures& evaluation, bool best) {
  Say(EvaluationLine(evaluation, best));
  if (log_ == nullptr) return;
  Ordered line = {{"step", evaluation.step},
                  {"epoch", EpochAt(report_, evaluation.step)},
                  {"validation_loss", evaluation.loss},
                  {"perplexity", evaluation.perplexity},
                  {"token_accuracy", evaluation.accuracy},
                  {"best", best}};
  if (!evaluation.terms.empty()) {
    line["loss_terms"] = LossTermsJson(evaluation.terms);
    line["accuracies"] = AccuraciesJson(evaluation.terms);
  }
  log_->Add(line);
}

void Progress::Say(absl::string_view line) {
  Clear();
  std::printf("%s\n", std::string(line).c_str());
}

void Progress::Clear() {
  if (!shown_) return;
  shown_ = false;
  // To the line's beginning, and erase it to its end.
  std::fputs("\r\x1b[K", stdout);
  FlushOutput();
}

int TerminalColumns() {
  const char* const kind = std::getenv("TERM");
  if (isatty(STDOUT_FILENO) == 0 || kind == nullptr ||
      std::strcmp(kind, "dumb") == 0) {
    return 0;
  }
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  // A line that fills the last column would wrap.
  return known && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

}  // namespace castor::cli
