// The trace file of a run: what was planned, all that happens in a window of
// its steps, and the result of each step. Each of several ranks writes a file
// of its own (tracer/rank_traces.h), until Merge makes them one.
#ifndef CASTOR_RUN_REPORT_RUN_TRACE_H_
#define CASTOR_RUN_REPORT_RUN_TRACE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "run/program/duration_meter.h"
#include "run/report/refused_run.h"
#include "run/report/step_meter.h"
#include "run/run_observer.h"
#include "tracer/events.h"
#include "tracer/trace_writer.h"

namespace castor {

// The training steps from `first` to `last`, and what lies between them, are
// traced in full.
struct TraceWindow {
  int64_t first = 1;
  int64_t last = 0;
};

// The steps of "FIRST:LAST" or "LAST"; where that is empty, from step `first`
// over the warm-up to some steps after it. InvalidArgument: it is neither.
absl::StatusOr<TraceWindow> WindowOf(const std::string& steps, int64_t first,
                                     int64_t warmup_steps);

// Whatever happens to the file does not stop the run that is traced: its disk
// is full, it has become as large as a trace may be, somebody cuts or removes
// it. Recording ends there, and status() says why.
class RunTrace final : public RunObserver {
 public:
  // Replaces `path`, or on rank K > 0 the file of that name for its rank.
  // `observed` outlives the trace, which observes it. With several ranks all of
  // them call it, between steps; where one cannot write, it fails on all.
  // `streams_data`: it is told of waits for data.
  static absl::StatusOr<std::unique_ptr<RunTrace>> Create(
      const std::string& path, RunRecord run, TraceWindow window,
      ObservedRun* observed, bool streams_data = false);
  ~RunTrace() override;

  // Writes the trace of a run that was not admitted: what was asked, and
  // `message`, which the user was told.
  static absl::Status WriteRefused(const std::string& path, RunRecord run,
                                   const RefusedRun& refused,
                                   const std::string& message);

  void OnStep(const StepStart& start) override;
  void OnOperator(uint16_t tag, Moment moment, const BytesByCategory& device,
                  int64_t used_bytes) override;
  void OnWork(const WorkRecord& work, const NetworkRecord* network) override;
  void OnWait(const WaitRecord& wait) override;
  void OnBudget(const BudgetRecord& change) override;

  // The last step, or the one that will not come, waited for its data, on the
  // run's clock.
  void OnDataWait(int64_t begin_ns, int64_t end_ns);
  // A training step is wholly over.
  void OnResult(const StepReport& report);
  // The run is over, drained unless it failed. `status`: "finished",
  // "interrupted", "failed". Needs no other rank.
  void Finish(const std::string& status, const std::string& message);
  // After Finish, on all ranks alike, unless the group has failed: their files
  // become one. Where that fails, they stay; the reason is returned on all.
  // Nothing to do on one rank.
  absl::Status Merge();

  // The first record that could not be written. What others did to the file is
  // noticed when a step is over.
  absl::Status status() const {
    return writer_ == nullptr ? written_ : writer_->status();
  }
  // The present name of this rank's file.
  const std::string& path() const { return path_; }

 private:
  RunTrace(std::unique_ptr<TraceWriter> writer, std::string path,
           TraceWindow window, ObservedRun* observed);
  // How this rank's times lie to rank 0's: measured and written.
  absl::Status WriteClock();
  int64_t FromOrigin(int64_t time_ns) const {
    return time_ns > origin_ns_ ? time_ns - origin_ns_ : 0;
  }
  WorkRecord FromOrigin(WorkRecord work) const {
    work.start_ns = FromOrigin(work.start_ns);
    work.end_ns = FromOrigin(work.end_ns);
    return work;
  }
  // Index of the plan's record, written if it is new.
  int64_t RecordOf(const StepStart& start);
  void WriteMeasured();
  void Close();

  std::unique_ptr<TraceWriter> writer_;  // null once it is merged
  absl::Status written_;                 // by the writer that is gone
  std::string path_;
  const TraceWindow window_;
  ObservedRun* const observed_;
  const int64_t origin_ns_;

  // The treatment of work of each tag; read by the streams' threads.
  enum Mark : uint8_t {
    kIgnored,
    kTraced,
    kMeasured,  // traced, and its durations are kept
  };
  std::array<std::atomic<Mark>, 1 << 16> marks_{};
  bool open_ = false;  // the step at hand is in the window
  int64_t data_stream_ = -1;
  int64_t data_waits_ = 0;

  std::map<std::shared_ptr<const Plan>, int64_t> plans_;  // record's index
  // Holds for each signature the last step trace that was written, and its
  // index.
  std::map<std::string, std::pair<int64_t, StepTrace>> traces_;
  BytesByCategory host_;  // last written

  // The steps of the window that follow the latest settled training plan, for
  // the durations that operators have beside all else that runs.
  std::mutex meter_mutex_;
  DurationMeter meter_;
  std::shared_ptr<const Plan> measured_plan_;
  int64_t measured_shape_ = 0;
  PlanRequest measured_request_;
  StepTrace measured_trace_;  // the request's
  bool wrote_measured_ = false;
};

}  // namespace castor

#endif  // CASTOR_RUN_REPORT_RUN_TRACE_H_
