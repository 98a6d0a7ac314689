// What several ranks need beside their shards, known from the trace.
//
// A rank keeps one shard of each chunk. Two things are larger: a payload that
// leaves the device with gradients of this rank's own in it, which no shard can
// hold, and the parts that the other ranks send of theirs.
//
//   host    slots, each as large as the largest trainable payload. A payload
//           with gradients lies in one from its copy back until its reduce; the
//           parts of a reduce in another until they are added.
//   device  one block for the parts, where sums are on the device's side.
#ifndef CASTOR_MEMORY_PLAN_SHARD_STAGING_H_
#define CASTOR_MEMORY_PLAN_SHARD_STAGING_H_

#include <cstdint>

#include "tracer/step_trace.h"

namespace castor {

struct ShardStaging {
  int64_t slots = 0;
  int64_t slot_bytes = 0;
  int64_t parts_bytes = 0;  // on the device

  // Gives the bytes that budgets count.
  int64_t HostBytes() const;
  int64_t DeviceBytes() const;
};

// All 0 on one rank, which is one whose trace has no shard_bytes, and for
// evaluation. O(total uses).
//
// Slots: a chunk may need one from the first gradient of a micro batch to its
// reduce; the most that are between the two at once, one for parts, and one so
// that a copy does not wait for the reduce before to end.
ShardStaging FindShardStaging(const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SHARD_STAGING_H_
