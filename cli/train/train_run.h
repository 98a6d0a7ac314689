// A run of castor train on one rank, from its first step to its last line: it
// trains, evaluates, saves, and reports.
#ifndef CASTOR_CLI_TRAIN_TRAIN_RUN_H_
#define CASTOR_CLI_TRAIN_TRAIN_RUN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/live/live_run.h"
#include "cli/resize/memory_requests.h"
#include "cli/run/session.h"
#include "cli/train/progress.h"
#include "cli/train/report.h"
#include "cli/train/run_checkpoints.h"
#include "cli/train/train_command.h"
#include "device/comm/communicator.h"
#include "run/config/config.h"
#include "run/report/run_trace.h"
#include "tracer/events.h"

namespace castor::cli {

// Writes a summary, if one was asked for: if `path` is not "".
absl::Status WriteSummary(const std::string& path, const std::string& text);

// Returns `status`, if it is an error, as one of the user's, about this option.
absl::Status AsUsersError(absl::string_view option, const absl::Status& status);

// Returns how a run ended that failed with `status`: one that came to no step,
// with an error that the user is to mend, was refused.
const char* EndedBy(const absl::Status& status, bool came_to_a_step);

// All that it is given must outlive it.
class TrainRun {
 public:
  TrainRun(const TrainArguments& arguments, RunCheckpoints& checkpoints,
           MemoryRequests& requests, Session& session)
      : arguments_(arguments),
        requests_(requests),
        session_(session),
        config_(session.config()),
        checkpoints_(checkpoints),
        ranks_(session.trainer().communicator()),
        first_(ranks_ == nullptr || ranks_->rank() == 0),
        progress_(&config_, &report_, first_ ? TerminalColumns() : 0) {}

  // Trains, and returns the exit code. *has_summary: the run's summary was
  // written, if one was asked for.
  absl::StatusOr<int> Run(bool* has_summary);

 private:
  absl::Status Begin();
  absl::Status Loop();
  absl::Status End();
  void JudgeEnd();
  absl::Status Evaluate();
  // Gives the device's memory the size that castor resize asks for, if it does.
  absl::Status Resize();
  // Prints that the budget follows the device.
  void TellOfFollowing();
  void TellOfBudget(const std::string& line);
  // Tells of a change of the budget, which was `before` in the steps up to this
  // one.
  void TellOfChange(int64_t before, int64_t step, BudgetAsker asker);
  absl::Status Saving(absl::FunctionRef<absl::Status()> save);
  bool InOrderAfter(const absl::Status& failed);
  absl::Status EndInOrder(const absl::Status& why);
  void TellOfData();
  void TakeReports();
  void TellOfTrace();
  bool EndsEarly() const;

  const TrainArguments& arguments_;
  MemoryRequests& requests_;
  Session& session_;
  const Config& config_;
  RunCheckpoints& checkpoints_;
  Communicator* const ranks_;  // null: one rank
  const bool first_;           // rank 0, who speaks for all
  std::unique_ptr<RunTrace> trace_;
  bool told_of_trace_ = false;
  std::unique_ptr<LiveRun> live_;
  RunReport report_;
  int64_t first_step_ = 0;  // of the state that the run begins with
  Progress progress_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_TRAIN_RUN_H_
