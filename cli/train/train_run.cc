#include "cli/train/train_run.h"

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/output_file.h"
#include "cli/output/standard_output.h"
#include "cli/run/ranks.h"
#include "cli/train/memory_picture.h"
#include "cli/train/rank_report.h"
#include "cli/train/trace_request.h"
#include "device/comm/agreement.h"
#include "run/config/rate_notes.h"

namespace castor::cli {

absl::Status WriteSummary(const std::string& path, const std::string& text) {
  return path.empty() ? absl::OkStatus() : WriteWhole(path, text);
}

absl::Status AsUsersError(absl::string_view option,
                          const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", status.message()));
}

const char* EndedBy(const absl::Status& status, bool came_to_a_step) {
  return ExitCode(status) == kUserError && !came_to_a_step ? kRefused : kFailed;
}

absl::StatusOr<int> TrainRun::Run(bool* has_summary) {
  absl::Status status = Begin();
  const bool begun = status.ok();
  if (status.ok()) status = Loop();
  progress_.Clear();
  if (status.ok()) status = End();
  status = checkpoints_.WithWayBack(status);
  // No effect if the others know, or have met the same.
  if (!status.ok() && ranks_ != nullptr) ranks_->Fail(status);
  if (!status.ok() && begun) {
    // The steps so far are reported all the same; the failure itself is what
    // the user is told.
    TakeReports();
    report_.error = std::string(status.message());
    report_.ended = EndedBy(status, session_.trainer().step() > first_step_);
    *has_summary = true;
    if (trace_ != nullptr) trace_->Finish("failed", report_.error);
    if (live_ != nullptr) live_->End("failed", report_.error);
    if (first_) {
      WriteSummary(
          arguments_.summary_path,
          SummaryJson(config_, session_.trainer().admission(), report_, {}))
          .IgnoreError();
    }
  }
  CASTOR_RETURN_IF_ERROR(status);
  *has_summary = true;
  if (report_.ended == kFailed) return absl::OutOfRangeError(report_.error);
  return report_.ended == kInterrupted
             ? InterruptedBy(session_.trainer().stop_reason())
             : kSuccess;
}

absl::Status TrainRun::Begin() {
  const AdmissionReport& admission = session_.trainer().admission();
  if (!session_.device_note().empty()) {
    std::printf("device: %s\n", session_.device_note().c_str());
  }
  std::fputs(FormatAdmission(admission).c_str(), stdout);
  report_.tokens_per_step = session_.tokens_per_step();
  report_.epoch = session_.epoch();
  if (session_.streams()) report_.data_wait_seconds = 0;
  if (const std::string line = EpochLine(config_, report_.epoch);
      !line.empty()) {
    progress_.Say(line);
  }
  if (const std::string& sample = session_.first_sample(); !sample.empty()) {
    progress_.Say(absl::StrCat(
        "the first sample, what is learned of it in [[ ]]: ", sample));
  }
  progress_.TellForecast(admission.forecast);
  if (const std::string note = session_.trainer().pinned_note();
      !note.empty()) {
    std::printf("note: %s\n", note.c_str());
  }
  for (const std::string& note : config_.notes.lines) {
    std::printf("note: %s\n", note.c_str());
  }
  for (const std::string& note : RateNotes(config_)) {
    std::printf("note: %s\n", note.c_str());
  }
  std::printf("%s\n", checkpoints_.Describe().c_str());
  report_.device_budget_bytes = admission.device_arena_bytes;
  if (ranks_ != nullptr) report_.world_size = ranks_->world_size();

  CASTOR_RETURN_IF_ERROR(checkpoints_.Restore(&session_));
  CASTOR_RETURN_IF_ERROR(CheckSameInputs(ranks_, session_.inputs()));
  report_.best = session_.best();
  if (!arguments_.log_path.empty() && first_) {
    auto log = JsonLog::Open(arguments_.log_path, session_.trainer().step());
    CASTOR_RETURN_IF_ERROR(AsUsersError("--log-json", log.status()));
    progress_.set_log(*std::move(log));
  }
  RunRecord described = DescribeRun(config_, report_.tokens_per_step);
  if (config_.memory.follows_device) {
    described.device_budget_bytes = report_.device_budget_bytes;
  }
  if (arguments_.live.any() && first_) {
    CASTOR_ASSIGN_OR_RETURN(live_, LiveRun::Create(arguments_.live, described,
                                                   &session_.trainer()));
  }
  if (!arguments_.trace_path.empty()) {
    const auto window =
        WindowOf(arguments_.trace_steps, session_.trainer().step() + 1,
                 config_.memory.warmup_steps);
    CASTOR_RETURN_IF_ERROR(Annotate("--trace-steps", window.status()));
    auto trace = RunTrace::Create(arguments_.trace_path, described, *window,
                                  &session_.trainer(), session_.streams());
    CASTOR_RETURN_IF_ERROR(AsUsersError("--trace", trace.status()));
    trace_ = *std::move(trace);
  }
  CASTOR_RETURN_IF_ERROR(checkpoints_.Prepare());
  if (const absl::Status open = requests_.Open(); !open.ok()) {
    std::printf("note: castor resize cannot reach this run: %s\n",
                std::string(open.message()).c_str());
  }
  FlushOutput();
  return absl::OkStatus();
}

absl::Status TrainRun::Loop() {
  Trainer& trainer = session_.trainer();
  first_step_ = trainer.step();
  if (session_.LacksEvaluation()) {
    const absl::Status evaluated = Evaluate();
    if (!absl::IsCancelled(evaluated)) {
      CASTOR_RETURN_IF_ERROR(evaluated);
      // The checkpoint from which the run goes on says that it lacks this.
      CASTOR_RETURN_IF_ERROR(Saving([&] { return checkpoints_.SaveAgain(); }));
    }
  }
  while (trainer.step() < config_.steps && !trainer.stopping() &&
         !EndsEarly()) {
    const absl::StatusOr<double> loss = session_.Step();
    const absl::Status& trained = loss.status();
    TellOfData();
    if (const std::string note = trainer.TakePlanNote();
        first_ && !note.empty()) {
      progress_.Clear();
      TellNote("castor", note);
    }
    if (const absl::Status& why = trainer.cannot_go_on(); !why.ok()) {
      return EndInOrder(why);
    }
    if (!trained.ok()) {
      return InOrderAfter(trained) ? EndInOrder(trained) : trained;
    }
    if (std::isfinite(*loss)) checkpoints_.Prove();
    const int64_t step = trainer.step();
    TellOfFollowing();
    TakeReports();
    progress_.TellForecast(trainer.training_forecast());
    progress_.Print(/*all=*/false);
    CASTOR_RETURN_IF_ERROR(Resize());
    if (session_.EvaluatesAfter(step)) {
      const absl::Status evaluated = Evaluate();
      if (absl::IsCancelled(evaluated)) {
        session_.best().is_due = true;  // when the run goes on
        break;
      }
      if (!evaluated.ok()) {
        return InOrderAfter(evaluated) ? EndInOrder(evaluated) : evaluated;
      }
    }
    if (config_.checkpoint.save_interval > 0 &&
        step % config_.checkpoint.save_interval == 0) {
      // What is told of the step is told before its checkpoint is there: a run
      // that goes on from it would never tell it.
      CASTOR_RETURN_IF_ERROR(trainer.Drain());
      TakeReports();
      progress_.Print(/*all=*/false);
      progress_.Clear();
      CASTOR_RETURN_IF_ERROR(Saving([&] { return checkpoints_.Save(); }));
    }
  }
  CASTOR_RETURN_IF_ERROR(trainer.Drain());
  // The last step's outcome is known only now. (Where a loss scale cannot sink,
  // that is of no matter when no other step is to come.)
  if (!config_.fp16.enabled && !trainer.cannot_go_on().ok()) {
    return EndInOrder(trainer.cannot_go_on());
  }
  TakeReports();
  progress_.Print(/*all=*/true);
  return absl::OkStatus();
}

absl::Status TrainRun::Resize() {
  Trainer& trainer = session_.trainer();
  if (config_.memory.follows_device) return absl::OkStatus();
  const int64_t asked = trainer.requested_device_memory();
  if (asked == 0) return absl::OkStatus();
  const absl::Status set =
      trainer.SetDeviceMemory(asked, /*refusal=*/nullptr, BudgetAsker::kResize);
  if (!set.ok() && !absl::IsResourceExhausted(set) &&
      !absl::IsUnimplemented(set)) {
    return set;
  }
  const std::string line =
      set.ok()
          ? ResizedLine(config_, trainer.admission().device_arena_bytes,
                        trainer.training_forecast(), report_.tokens_per_step)
          : std::string(set.message());
  TellOfBudget(absl::StrCat(set.ok() ? "resized: " : "not resized: ", line));
  const int64_t before = report_.device_budget_bytes;
  report_.device_budget_bytes = trainer.admission().device_arena_bytes;
  if (set.ok()) TellOfChange(before, trainer.step(), BudgetAsker::kResize);
  requests_.Answer(asked, {.done = set.ok(), .line = line});
  return absl::OkStatus();
}

// The lines of the steps before it come first.
void TrainRun::TellOfBudget(const std::string& line) {
  TakeReports();
  progress_.Print(/*all=*/true);
  if (first_) progress_.Say(line);
  FlushOutput();
}

void TrainRun::TellOfChange(int64_t before, int64_t step, BudgetAsker asker) {
  ++report_.resizes;
  const int64_t now = report_.device_budget_bytes;
  if (live_ == nullptr || now == before) return;
  live_->AddBudget(
      {.step = step, .from_bytes = before, .to_bytes = now, .asker = asker});
}

void TrainRun::TellOfFollowing() {
  if (!config_.memory.follows_device) return;
  Trainer& trainer = session_.trainer();
  const int64_t before = report_.device_budget_bytes;
  const int64_t now = trainer.admission().device_arena_bytes;
  if (now != before) {
    // The peaks in the lines of steps are those in this budget, too.
    report_.device_budget_bytes = now;
    TellOfBudget(
        absl::StrCat(now < before ? "shrunk: " : "grown: ",
                     ResizedLine(config_, now, trainer.training_forecast(),
                                 report_.tokens_per_step)));
    TellOfChange(before, trainer.step() - 1, BudgetAsker::kFollow);
  }
  if (const std::string note = trainer.TakeMemoryNote(); !note.empty()) {
    TellOfBudget(absl::StrCat("note: ", note));
  }
  // A process that asks for another budget is told at once, by the rank that is
  // asked.
  if (const int64_t asked = requests_.asked()->load(); asked != 0) {
    const absl::Status refused = trainer.SetDeviceMemory(asked);
    requests_.Answer(asked,
                     {.done = false, .line = std::string(refused.message())});
  }
}

// Returns true if parameters and states are still those of the last good step,
// since a step failed before it had begun, or an evaluation did. Several ranks
// must all know it, as they do of batches without labels.
bool TrainRun::InOrderAfter(const absl::Status& failed) {
  return session_.trainer().step() > first_step_ &&
         (ranks_ == nullptr || absl::IsInvalidArgument(failed)) &&
         session_.trainer().Drain().ok();
}

// Saves the last good step, after which nothing was changed, and ends the run.
absl::Status TrainRun::EndInOrder(const absl::Status& why) {
  CASTOR_RETURN_IF_ERROR(session_.trainer().Drain());
  const absl::Status saved = checkpoints_.SaveLast();
  if (!saved.ok()) {
    return absl::Status(
        why.code(), absl::StrCat(why.message(), "; nor could that be saved: ",
                                 saved.message()));
  }
  TakeReports();
  progress_.Print(/*all=*/true);
  if (const std::string saved_as = checkpoints_.newest(); !saved_as.empty()) {
    std::printf("saved %s\n", saved_as.c_str());
  }
  FlushOutput();
  CASTOR_RETURN_IF_ERROR(MeetAllRanks(ranks_, "the last checkpoint"));
  return why;
}

// Tells what became known of data that are streamed, and how long they were
// waited for.
void TrainRun::TellOfData() {
  for (const std::string& note : session_.TakeDataNotes()) {
    if (first_) progress_.Say(note);
  }
  const Session::DataWait wait = session_.data_wait();
  if (wait.end_ns == wait.begin_ns) return;
  *report_.data_wait_seconds +=
      static_cast<double>(wait.end_ns - wait.begin_ns) * 1e-9;
  if (trace_ != nullptr) trace_->OnDataWait(wait.begin_ns, wait.end_ns);
}

void TrainRun::TakeReports() {
  report_.last_step = session_.trainer().step();
  for (StepReport& step : session_.TakeReports()) {
    if (trace_ != nullptr) trace_->OnResult(step);
    if (live_ != nullptr) live_->AddStep(step);
    report_.steps.Add(step);
    progress_.AddStep(step);
  }
  report_.forecast = session_.trainer().training_forecast();
  report_.predicted_device_peak_bytes =
      session_.trainer().predicted_device_peak_bytes();
  report_.predicted_host_peak_bytes =
      session_.trainer().predicted_host_peak_bytes();
  report_.plans = session_.trainer().plans();
  report_.speculation = session_.trainer().speculation();
  report_.device_peak_bytes = session_.trainer().arena_stats().peak_in_budget;
  report_.host_peak_bytes = session_.trainer().host_stats().peak_bytes;
  TellOfTrace();
}

// Tells once that the trace is not complete, when that happens: the model is
// trained all the same.
void TrainRun::TellOfTrace() {
  if (trace_ == nullptr || told_of_trace_ || trace_->status().ok()) return;
  told_of_trace_ = true;
  TellNote("castor",
           absl::StrCat("the trace is not complete: ",
                        trace_->status().message(), "; training goes on"));
}

absl::Status TrainRun::Evaluate() {
  CASTOR_ASSIGN_OR_RETURN(const Session::Evaluation result,
                          session_.Evaluate());
  // Evaluation waited for the step; its line comes first.
  TakeReports();
  progress_.Print(/*all=*/true);
  const EvaluationFigures figures = {.step = session_.trainer().step(),
                                     .loss = result.loss,
                                     .perplexity = result.perplexity(),
                                     .accuracy = result.accuracy(),
                                     .terms = result.terms};
  const BestMetric metric = config_.checkpoint.best_metric;
  const bool best = Judge(metric, config_.early_stopping_threshold,
                          figures.step, figures.Of(metric), &session_.best());
  report_.best = session_.best();
  report_.evaluations.push_back(figures);
  if (live_ != nullptr) {
    live_->AddValidation(figures.step, {.loss = figures.loss,
                                        .perplexity = figures.perplexity,
                                        .accuracy = figures.accuracy});
  }
  progress_.AddEvaluation(figures, best);
  FlushOutput();
  if (!best || !config_.checkpoint.load_best) return absl::OkStatus();
  return Saving([&] { return checkpoints_.SaveBest(); });
}

// The trace knows why no step goes on meanwhile.
absl::Status TrainRun::Saving(absl::FunctionRef<absl::Status()> save) {
  const Trainer& trainer = session_.trainer();
  const int64_t start_ns = trainer.NowNs();
  const absl::Status saved = save();
  if (trace_ != nullptr) {
    trace_->OnWork(PauseWork(WorkKind::kSaving, start_ns, trainer.NowNs()),
                   /*network=*/nullptr);
  }
  return saved;
}

// Returns the same on all ranks, since the evaluations are the same.
bool TrainRun::EndsEarly() const {
  return config_.early_stopping_patience > 0 &&
         session_.best().without_gain >= config_.early_stopping_patience;
}

// Says how a run ended in which nothing failed.
void TrainRun::JudgeEnd() {
  const Trainer& trainer = session_.trainer();
  const int64_t step = trainer.step();
  report_.ended = step >= config_.steps && !session_.LacksEvaluation()
                      ? kFinished
                  : EndsEarly() && !trainer.stopping() ? kStoppedEarly
                                                       : kInterrupted;
  if (step == config_.steps && trainer.state().skipped_steps == step) {
    report_.ended = kFailed;
    report_.error = absl::StrCat(
        "nothing was trained: each of the ", step, " steps was skipped, since ",
        config_.fp16.enabled
            ? "its gradients are beyond fp16's range; set fp16.loss_scale to "
              "0, a scale that follows them, or train in bf16"
            : "a gradient was not finite; lower the learning rate, or look at "
              "the data");
  }
}

absl::Status TrainRun::End() {
  CASTOR_RETURN_IF_ERROR(checkpoints_.SaveLast());
  Trainer& trainer = session_.trainer();
  JudgeEnd();
  const bool interrupted = report_.ended == kInterrupted;
  // Followers of the run need not know why all was done.
  const bool done = report_.ended == kStoppedEarly;
  TakeReports();
  report_.best_checkpoint = checkpoints_.best();
  if (report_.ended == kStoppedEarly) {
    std::printf("%s\n", EarlyStopLine(config_, report_).c_str());
  }
  if (!arguments_.no_parameters_sha256) {
    CASTOR_ASSIGN_OR_RETURN(
        report_.parameters_sha256,
        ParametersSha256(trainer.parameters(), trainer.store(), ranks_));
  }
  if (interrupted) {
    std::printf("interrupted after step %ld%s\n",
                static_cast<long>(trainer.step()),
                config_.checkpoint.dir.empty()
                    ? "; nothing was saved (\"checkpoint\": false)"
                    : "; go on with --resume latest");
  }
  std::fputs(MemoryPicture(*trainer.training_plan(), trainer.training_request())
                 .c_str(),
             stdout);
  if (ranks_ != nullptr) {
    CASTOR_RETURN_IF_ERROR(MergeReports(*ranks_, &report_));
  }
  std::fputs(FinalTable(config_, trainer.admission(), report_).c_str(), stdout);
  if (const std::string saved = checkpoints_.newest(); !saved.empty()) {
    std::printf("  %-26s %s\n", "checkpoint", saved.c_str());
  }
  if (trace_ != nullptr) {
    trace_->Finish(done ? kFinished : report_.ended, report_.error);
    const absl::Status merged = trace_->Merge();
    std::printf("  %-26s %s\n", "trace", trace_->path().c_str());
    TellOfTrace();
    if (trace_->status().ok() && !merged.ok() && first_) {
      TellNote("castor",
               absl::StrCat("the ranks' traces stay in files of their own: ",
                            merged.message()));
    }
  }
  if (!arguments_.summary_path.empty() && first_) {
    // A run that is started again when all is done has no figures, and leaves
    // those of the one that did it.
    const bool is_done =
        report_.ended == kFinished && trainer.step() == first_step_ &&
        report_.evaluations.empty() &&
        IsSummaryOf(arguments_.summary_path, report_.parameters_sha256);
    if (!is_done) {
      CASTOR_RETURN_IF_ERROR(
          WriteSummary(arguments_.summary_path,
                       SummaryJson(config_, trainer.admission(), report_, {})));
    }
    std::printf("  %-26s %s%s\n", "summary", arguments_.summary_path.c_str(),
                is_done ? " (stays that of the run that finished)" : "");
  }
  if (live_ != nullptr) {
    FlushOutput();
    live_->End(done ? kFinished : report_.ended, report_.error);
  }
  FlushOutput();
  // A failure on one rank up to here ends all of them, and rank 0 tells it.
  return ranks_ == nullptr ? absl::OkStatus()
                           : EndTogether(*ranks_, "the run's end");
}

}  // namespace castor::cli
