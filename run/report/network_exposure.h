// How long the compute stream stood still for the network, and for which late
// rank.
//
// A wait of compute's is divided by following it back: from what it waited for,
// item by item on that item's stream, through the waits of that stream to what
// they waited for in turn, until the wait's start. What lies on the network on
// that way is the network's: up to the last rank's coming, that rank's; from
// then on, the transfer's.
//
//   compute  |== op ==|......... wait .........|== op ==|
//   network        |-- gather ---|---- gather ---|
//                  '- rank 2 is late -'- parts -'
#ifndef CASTOR_RUN_REPORT_NETWORK_EXPOSURE_H_
#define CASTOR_RUN_REPORT_NETWORK_EXPOSURE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "run/program/timeline.h"

namespace castor {

class NetworkExposure {
 public:
  // Events of each stream in its own order. On one rank, which has no network,
  // nothing is kept.
  void Add(const TimelineEvent& event);

  struct Division {
    int64_t network_ns = 0;  // late ranks included
    // How much of it passed until a late rank came: indexed by rank, as long as
    // the highest rank that was late makes it.
    std::vector<int64_t> late_ns;
  };
  // Adds to `division` what a wait cost. Call when all that ended before it was
  // added. Nothing where no collective was seen.
  void Divide(const TimelineEvent& wait, Division* division) const;

 private:
  using Events = std::deque<TimelineEvent>;
  // The index of the last one up to `count`, or -1.
  static int64_t LastUpTo(const Events& events, int64_t count);

  std::array<Events, kNumStreams> events_;
  bool any_ = false;
};

}  // namespace castor

#endif  // CASTOR_RUN_REPORT_NETWORK_EXPOSURE_H_
