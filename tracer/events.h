// Events on a device's streams, and changes of its memory. The same records are
// passed to a run's own meters while it goes on, and written to its trace file.
//
// Times are in nanoseconds: live on the device's clock, in a file from the
// run's origin.
#ifndef CASTOR_TRACER_EVENTS_H_
#define CASTOR_TRACER_EVENTS_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "base/ids.h"
#include "tracer/work_tag.h"

namespace castor {

// A finished piece of work on a stream.
struct WorkRecord {
  int64_t stream = 0;
  int64_t count = 0;  // number on the stream, as in fences; 0: a pause
  WorkKind kind = WorkKind::kOther;
  // Index of its StepRecord in a file that was read; -1: it belongs to no step
  // in the window.
  int64_t step = -1;
  Moment moment = {};  // of the operator, or of the plan's actions
  ChunkId chunk = {};
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // >= start_ns
  // The step's number in the work's tag (WorkTag::step), by which a reader
  // finds `step`.
  uint16_t tag = 0;

  friend bool operator==(const WorkRecord&, const WorkRecord&) = default;
};

// A wait of a stream.
struct WaitRecord {
  // The waiting stream, and the next work on it.
  WorkRecord waiter;
  // The wait lasts until all items up to `count` of `stream` are over.
  struct Until {
    int64_t stream = 0;
    int64_t count = 0;
    friend bool operator==(const Until&, const Until&) = default;
  };
  using Untils = absl::InlinedVector<Until, 4>;
  Untils until = {};

  friend bool operator==(const WaitRecord&, const WaitRecord&) = default;
};

// A collective: this rank entered when its work began, the last rank at
// ready_ns, and then the parts were exchanged.
struct NetworkRecord {
  int64_t stream = 0;  // stream and count are those of its work record
  int64_t count = 0;
  int64_t sequence = 0;   // among the run's collectives; the same on all ranks
  int64_t kind = 0;       // index of trace_names::kCollectives
  int64_t last_rank = 0;  // last to enter; this one if it did not wait
  int64_t ready_ns = 0;
  int64_t sent_bytes = 0;  // to other ranks, without headers
  int64_t received_bytes = 0;

  friend bool operator==(const NetworkRecord&, const NetworkRecord&) = default;
};

// Who had the budget of the device's memory changed.
enum class BudgetAsker : uint8_t {
  kProgram,  // the program that trains, by a call
  kResize,   // `castor resize`
  kFollow    // "device_memory": "follow", by what the device has free
};

// From the step after `step` on, a run has another budget.
struct BudgetRecord {
  int64_t time_ns = 0;  // when the device's memory had its new size
  int64_t step = 0;     // training steps that were over
  int64_t from_bytes = 0;
  int64_t to_bytes = 0;
  BudgetAsker asker = BudgetAsker::kProgram;

  friend bool operator==(const BudgetRecord&, const BudgetRecord&) = default;
};

}  // namespace castor

#endif  // CASTOR_TRACER_EVENTS_H_
