// `castor train --dashboard PORT`: shows a run in a browser while it goes on.
//
//   GET /           the page (viewer/src/dashboard.ts)
//   GET /live.json  the run as JSON: its description, its state, its steps, its
//                   memory now. ?since=STEP: only the points after that step;
//                   ?validated=STEP: only the evaluations after that one. When
//                   "every" differs from the answer before, the points have
//                   been merged: ask again from 0 (live_history.h).
//
// The run hands over numbers, under a lock held for microseconds; answers are
// made from a copy by the server's threads, so that no client holds up a step.
// Cost: AddStep takes 0.1 us while nobody asks.
#ifndef CASTOR_CLI_LIVE_DASHBOARD_H_
#define CASTOR_CLI_LIVE_DASHBOARD_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/live/live_history.h"
#include "cli/serve/loopback_server.h"
#include "memory/exec/category.h"
#include "run/report/step_meter.h"
#include "tracer/trace_file.h"

namespace castor::cli {

// The bytes in use when a step was issued, and the most since the run began.
struct LiveMemory {
  BytesByCategory device, host;
  BytesByCategory device_at_peak, host_at_peak;
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;
};

// The results of an evaluation.
struct LiveValidation {
  double loss = 0;
  double perplexity = 0;
  double accuracy = 0;  // of tokens; NaN: not known
};

class Dashboard {
 public:
  // Points of a history; see LiveHistory.
  static constexpr int64_t kMaxPoints = 4096;
  // A page asks every second. When the run ends, a page that has asked lately
  // is given this long to hear of it.
  static constexpr std::chrono::milliseconds kLastWords{1500};

  // `step` steps are over already. InvalidArgument: see LoopbackServer::Start.
  static absl::StatusOr<std::unique_ptr<Dashboard>> Start(int port,
                                                          const RunRecord& run,
                                                          int64_t step);
  ~Dashboard();

  std::string url() const { return server_->url(); }

  void AddStep(const StepReport& step, const LiveMemory& memory);
  void AddValidation(int64_t step, const LiveValidation& validation);
  // Notes that the steps that are added from now on have this budget.
  void AddBudget(const BudgetRecord& change);
  // `state` is "finished", "interrupted" or "failed", and `message` says why.
  // Returns when pages that watch have had time to ask once more.
  void End(const std::string& state, const std::string& message);

 private:
  Dashboard(const RunRecord& run, int64_t step);
  HttpReply Answer(const HttpQuery& query);

  const RunRecord run_;
  const int64_t first_step_;
  // Guards all members below except the server.
  std::mutex mutex_;
  LiveHistory history_{kMaxPoints};
  LiveMemory memory_;
  std::vector<std::pair<int64_t, LiveValidation>> validations_;
  int64_t budget_bytes_;               // the device's, now
  std::vector<BudgetRecord> budgets_;  // its latest changes
  std::string state_ = "running";
  std::string message_;
  std::chrono::steady_clock::time_point asked_{};  // last

  std::unique_ptr<LoopbackServer> server_;  // ends before all that it reads
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_LIVE_DASHBOARD_H_
