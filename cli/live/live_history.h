// The curves that the dashboard draws: a run's steps in bounded memory.
//
// The steps are cut into *points* of `every()` steps each, at first 1. When
// there are as many points as there is room for, neighbours become one, so that
// a run of a million steps keeps the shape of its curves in the same room.
#ifndef CASTOR_CLI_LIVE_LIVE_HISTORY_H_
#define CASTOR_CLI_LIVE_LIVE_HISTORY_H_

#include <cstdint>
#include <vector>

namespace castor::cli {

// One step, or several in a row.
struct LivePoint {
  int64_t step = 0;   // the last one
  int64_t steps = 0;  // how many
  // Means over the steps:
  double loss = 0;
  double seconds = 0;
  double stall_seconds = 0;
  double h2d_bytes = 0;
  double d2h_bytes = 0;
  // Values of the last of the steps:
  double learning_rate = 0;
  // Maxima over the steps:
  int64_t device_budget_bytes = 0;
  int64_t device_bytes = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_bytes = 0;
  // True if it holds for any of the steps:
  bool warmup = false;

  friend bool operator==(const LivePoint&, const LivePoint&) = default;
};

// Returns one point for `a` and then `b`.
LivePoint Merge(const LivePoint& a, const LivePoint& b);

class LiveHistory {
 public:
  // Has room for `capacity` points, an even number.
  explicit LiveHistory(int64_t capacity) : capacity_(capacity) {}

  // Adds a step (`steps` is 1), later than all before it.
  void Add(const LivePoint& step);

  // Whole points, in order. They change only when every() does, then all at
  // once.
  const std::vector<LivePoint>& points() const { return points_; }
  int64_t every() const { return every_; }
  // The last step alone; steps is 0 before the first.
  const LivePoint& latest() const { return latest_; }

 private:
  const int64_t capacity_;
  int64_t every_ = 1;
  std::vector<LivePoint> points_;
  LivePoint open_;  // less than every_ steps
  LivePoint latest_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_LIVE_LIVE_HISTORY_H_
