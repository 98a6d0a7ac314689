// How long operators and copies of one shape of step took, from the events of
// its steps.
#ifndef CASTOR_RUN_PROGRAM_DURATION_METER_H_
#define CASTOR_RUN_PROGRAM_DURATION_METER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "device/fence.h"
#include "memory/plan/plan.h"
#include "tracer/events.h"
#include "tracer/step_trace.h"

namespace castor {

class DurationMeter {
 public:
  // A piece of work of the shape of step that is being measured, and a wait of
  // a stream, `waiter`. Each stream's in order.
  void Add(const WorkRecord& work);
  void AddWait(const WorkRecord& waiter);
  // The same for work of a stream that does other work meanwhile which nobody
  // tells of: when the stream stood still before it is not known.
  void AddWithoutPause(const WorkRecord& work) {
    last_end_ns_ = -1;
    Add(work);
  }
  // Adds the durations of another one, as if they had been added here.
  void Merge(const DurationMeter& other);

  // Which of several durations of an operator counts: the least, which nothing
  // else disturbed, or the median, which is what the operator takes beside all
  // else that runs: with it counts how long compute stood still before the
  // operator without having to wait for anything. Medians are scaled so that
  // their sum is the median of the steps' sums: what now and then interrupts
  // one operator or another is in no operator's median, but in every step.
  enum class Statistic { kLeast, kMedian };

  // Durations by moment into the trace; with kLeast never more than what was
  // measured before. What was not seen keeps its duration, but the first time
  // an optimizer's operator is taken to last as long on one side of the bus as
  // it was seen to on the other. The speeds of the bus and of the network go
  // into `bus`, where they were used: of the network the best that was seen,
  // since the time of a collective is also that of waiting for the last rank.
  void Fill(Statistic statistic, StepTrace* trace, BusModel* bus) const;

 private:
  struct OfStep {
    uint16_t tag;
    int64_t duration_ns;
    int64_t pause_ns;
  };
  using ByMoment = std::vector<std::vector<OfStep>>;
  struct Copy {
    int64_t chunk, duration_ns;
    int64_t moment = -1;
  };

  ByMoment device_, host_;
  std::array<std::vector<Copy>, 2> copies_;  // to the device, from it
  std::vector<Copy> exchanges_;              // on the network
  // The end and the tag of the compute stream's last work.
  int64_t last_end_ns_ = -1;
  uint16_t last_tag_ = 0;
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_DURATION_METER_H_
