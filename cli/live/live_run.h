// Those who follow a run while it goes on: the dashboard and TensorBoard.
#ifndef CASTOR_CLI_LIVE_LIVE_RUN_H_
#define CASTOR_CLI_LIVE_LIVE_RUN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/live/dashboard.h"
#include "cli/live/live_options.h"
#include "cli/live/tensorboard_file.h"
#include "runtime/train/trainer.h"
#include "tracer/trace_file.h"

namespace castor::cli {

// InvalidArgument: the port is no number from 0 to 65535.
absl::Status CheckLiveOptions(const LiveOptions& options);

// Whatever happens to those who follow, the run goes on: a failure to write is
// told once, on standard error.
class LiveRun {
 public:
  // Prints where they are found. `trainer` outlives this object and has the
  // steps before the first one. InvalidArgument names an option that cannot be
  // carried out.
  static absl::StatusOr<std::unique_ptr<LiveRun>> Create(
      const LiveOptions& options, const RunRecord& run, const Trainer* trainer);

  // Called by the trainer's thread when a step is wholly over.
  void AddStep(const StepReport& step);
  void AddValidation(int64_t step, const LiveValidation& validation);
  // Called when all steps before the change have been added.
  void AddBudget(const BudgetRecord& change);
  // See Dashboard::End.
  void End(const std::string& state, const std::string& message);

 private:
  LiveRun(const RunRecord& run, const Trainer* trainer)
      : tokens_per_step_(run.tokens_per_step), trainer_(trainer) {}
  LiveMemory Memory() const;
  void Write(int64_t step, absl::Span<const Scalar> scalars);

  const int64_t tokens_per_step_;
  const Trainer* const trainer_;
  std::unique_ptr<Dashboard> dashboard_;
  std::unique_ptr<TensorBoardFile> tensorboard_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_LIVE_LIVE_RUN_H_
