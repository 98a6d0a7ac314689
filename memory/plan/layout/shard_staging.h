// The memory that several ranks need beside their shards, computed from the
// trace.
//
// A rank keeps one shard of each chunk. Two things do not fit into a shard: a
// payload that leaves the device with this rank's own gradients in it, and the
// parts of other ranks' gradients that a reduce receives.
//
//   host    slots, each as large as the largest trainable payload. A payload
//           with gradients lies in one from its copy back until its reduce; the
//           parts of a reduce in another until they are added.
//   device  one block for the parts, where sums are on the device's side.
#ifndef CASTOR_MEMORY_PLAN_LAYOUT_SHARD_STAGING_H_
#define CASTOR_MEMORY_PLAN_LAYOUT_SHARD_STAGING_H_

#include <cstdint>

#include "tracer/step_trace.h"

namespace castor {

struct ShardStaging {
  int64_t slots = 0;
  int64_t slot_bytes = 0;
  int64_t parts_bytes = 0;  // on the device

  // Return the bytes that count against the budgets.
  int64_t HostBytes() const;
  int64_t DeviceBytes() const;
};

// Computes the staging of a trace. All 0 on one rank (the trace has no
// shard_bytes then) and for evaluation. O(total uses).
//
// A chunk may need a slot from its first gradient of a micro batch to its
// reduce. So there are as many slots as chunks are between the two at once, one
// more for parts, and one so that a copy need not wait for the end of the
// reduce before it.
ShardStaging FindShardStaging(const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_LAYOUT_SHARD_STAGING_H_
