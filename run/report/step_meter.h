// Derives a step's time, traffic and peaks from the streams' events.
#ifndef CASTOR_RUN_REPORT_STEP_METER_H_
#define CASTOR_RUN_REPORT_STEP_METER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "memory/plan/plan.h"
#include "run/program/duration_meter.h"
#include "run/program/overhead_meter.h"
#include "run/program/timeline.h"
#include "run/report/network_exposure.h"
#include "tracer/step_trace.h"

namespace castor {

struct StepReport {
  int64_t step = 0;  // from 1
  // T, which batches that are formed by length have of their own, and how many
  // tokens the step had without padding; 0: as every other step.
  int64_t length = 0;
  int64_t tokens = 0;
  double loss = 0;
  // Of a loss of several terms, each one's mean over its labelled tokens; their
  // sum is the loss. Empty: it has one.
  std::vector<double> terms = {};
  double learning_rate = 0;
  double seconds = 0;        // from the end of the step before
  int64_t end_ns = 0;        // when its last work was over, device's clock
  double stall_seconds = 0;  // of the compute stream, waiting
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  int64_t device_peak_bytes = 0;  // since the budget was last changed
  bool warmup = false;
  double loss_scale = 1;       // of its gradients (fp16)
  double next_loss_scale = 1;  // another where this step's outcome changed it
  // A parameter whose gradient was not finite, for which the step was skipped
  // (GradientOutcome); empty if it was not.
  std::string overflow = {};
  int64_t network_bytes = 0;  // received from other ranks, of chunks
  // Payloads of all of the step's collectives, to and from other ranks.
  int64_t network_sent_bytes = 0;
  int64_t network_received_bytes = 0;
  // How much of stall_seconds was for the network, and how much of that passed
  // until a late rank came: indexed by rank, as long as the highest rank that
  // was late makes it.
  double network_wait_seconds = 0;
  std::vector<double> late_rank_seconds = {};
};

// A step that is wholly over, and how it followed its plan.
struct FinishedStep {
  int64_t step = 0;
  int64_t plan = 0;  // as it was given to Issued
  double seconds = 0;
  DurationMeter durations;
  OverheadMeter overheads;
};

// Work of a step may run while the next one is being issued; a step is
// finalised once it is known to be over.
class StepMeter {
 public:
  explicit StepMeter(Timeline* timeline) : timeline_(timeline) {}

  // The clock starts anew: what came before `now_ns` (an evaluation, a
  // checkpoint) is not the next step's time.
  void Restart(int64_t now_ns) { last_end_ns_ = now_ns; }

  // A training step whose work has `tag_step` was issued. With a number of a
  // `plan`, other than 0, its durations are kept for TakeFinished.
  void Issued(uint16_t tag_step, StepReport report, int64_t plan = 0);
  // Takes the outcome of that step's gradients. Call before it is finalised.
  void Settled(uint16_t tag_step, std::string overflow, double next_loss_scale);
  // All steps issued before `tag_step` are over.
  void FinaliseBefore(uint16_t tag_step);
  void FinaliseAll();

  std::vector<StepReport> TakeReports();
  // The steps that are wholly over whose durations are kept, in order; each
  // once.
  std::vector<FinishedStep> TakeFinished();

  // Measures work from now on, for Measure.
  void StartMeasuring();
  // The least duration of each operator since StartMeasuring into the trace,
  // and the bus's speed into `bus`. Call when the work is over.
  void Measure(StepTrace* trace, BusModel* bus);

 private:
  struct Open {
    StepReport report;
    int64_t end_ns = 0;
    int64_t wait_ns = 0;
    NetworkExposure::Division exposed = {};
    int64_t plan = 0;
    DurationMeter durations = {};
    OverheadMeter overheads = {};
  };
  void Collect();
  void Finalise(std::map<uint64_t, Open>::iterator open);

  Timeline* const timeline_;
  uint64_t issued_ = 0;
  std::map<uint64_t, Open> open_;        // by order of issue
  std::map<uint16_t, uint64_t> by_tag_;  // open steps
  std::vector<StepReport> done_;
  std::vector<FinishedStep> finished_;
  NetworkExposure exposure_;
  RecentEnds ends_;
  std::optional<DurationMeter> durations_;  // while measuring
  int64_t last_end_ns_ = 0;
};

}  // namespace castor

#endif  // CASTOR_RUN_REPORT_STEP_METER_H_
