// What happens on a device's streams: the same records while a run goes on, of
// which its own meters are told, and in its trace's file.
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

// A stream did a piece of work.
struct WorkRecord {
  int64_t stream = 0;
  int64_t count = 0;  // the stream's items up to this one: what fences name
  WorkKind kind = WorkKind::kOther;
  // The index of its StepRecord in a file that was read; -1: of no step in the
  // window.
  int64_t step = -1;
  Moment moment = {};  // of the operator, or for whose actions it was queued
  ChunkId chunk = {};
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // >= start_ns
  // The step's number, with which its work is queued (WorkTag::step). A reader
  // finds `step` by it.
  uint16_t tag = 0;

  friend bool operator==(const WorkRecord&, const WorkRecord&) = default;
};

// A stream stood still.
struct WaitRecord {
  // Who waits: the stream, and the work that is next on it.
  WorkRecord waiter;
  // What it waits for: on each stream named, all items up to a count.
  struct Until {
    int64_t stream = 0;
    int64_t count = 0;
    friend bool operator==(const Until&, const Until&) = default;
  };
  using Untils = absl::InlinedVector<Until, 4>;
  Untils until = {};

  friend bool operator==(const WaitRecord&, const WaitRecord&) = default;
};

// A collective: this rank was there when its work began, the last rank at
// ready_ns, and then the parts crossed.
struct NetworkRecord {
  int64_t stream = 0;  // stream and count are those of its work record
  int64_t count = 0;
  int64_t sequence = 0;   // among the run's collectives; the same on all ranks
  int64_t kind = 0;       // index of trace_names::kCollectives
  int64_t last_rank = 0;  // who came last; this rank if it waited for nobody
  int64_t ready_ns = 0;
  int64_t sent_bytes = 0;  // to other ranks, without headers
  int64_t received_bytes = 0;

  friend bool operator==(const NetworkRecord&, const NetworkRecord&) = default;
};

}  // namespace castor

#endif  // CASTOR_TRACER_EVENTS_H_
