// Measures what no plan says of its steps and only steps that ran can tell
// (Overheads in memory/plan/simulate/simulator.h): how long blocks were moved
// together before each operator, and how late queues went on after what they
// waited for.
#ifndef CASTOR_RUN_PROGRAM_OVERHEAD_METER_H_
#define CASTOR_RUN_PROGRAM_OVERHEAD_METER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "device/fence.h"
#include "memory/plan/simulate/simulator.h"
#include "run/program/timeline.h"

namespace castor {

// When recent items of each stream were over.
class RecentEnds {
 public:
  // Each stream's events in its order.
  void Add(const TimelineEvent& event);
  // The end of the last work of all that a wait was for; -1: not known.
  int64_t OverNs(const TimelineEvent& wait) const;

 private:
  // The latest works of each stream: their number on it, and their end.
  std::array<std::deque<std::pair<int64_t, int64_t>>, kNumStreams> ends_;
};

class OverheadMeter {
 public:
  // An event of a step; of a wait when what it was for was over, or -1. The
  // compute stream's in order.
  void Add(const TimelineEvent& event, int64_t over_ns);
  // Adds what another one measured, in another step.
  void Merge(const OverheadMeter& other);
  // Means over the steps, of handoffs over nine in ten: in the longest a thread
  // had lost its processor. For a step of so many moments.
  Overheads Take(int64_t moments) const;

 private:
  int64_t steps_ = 1;
  std::vector<int64_t> moved_ns_;  // by moment, of all steps together
  int64_t pending_ns_ = 0;         // moves before the operator that comes next
  std::array<std::vector<int64_t>, kNumStreams> handoffs_;
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_OVERHEAD_METER_H_
