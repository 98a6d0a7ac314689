// The simulator's state at one instant of a step: its clocks, the device's
// bytes, and each chunk.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_STATE_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_STATE_H_

#include <cstdint>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulated_device.h"
#include "memory/plan/simulate/simulated_memory.h"
#include "memory/plan/simulate/simulated_queues.h"
#include "memory/plan/simulate/simulated_trace.h"

namespace castor {

// The state of one chunk. Its times stay when its block goes: a later block of
// it comes after them.
struct SimulatedChunk {
  // The content of the bytes on the device, where several ranks share a chunk,
  // and for activations, of which each rank has its own.
  enum class Content : uint8_t {
    kParameters,  // the same on all ranks; the home has this one's shard
    kLocal,       // with this rank's own gradients, which no other rank has
    kSpent,       // not needed: reduced for the last time and not updated yet;
                  // or activations that are not made, or were read
  };

  // A separate buffer on the device, beside the payload, while there is one.
  struct Beside {
    bool exists = false;
    int64_t ns = 0;  // the time from which it may be written, then its last use
    SimulatedMemory::Spans block;
  };

  int64_t arrived_ns = 0;  // the last fetch
  int64_t used_ns = 0;     // the last operator that used it
  int64_t written_ns = 0;  // the last one that changed it
  int64_t copied_ns = 0;   // the last copy back
  int64_t home_ns = 0;     // when its home became valid: copied or updated
  Content content = Content::kParameters;
  bool holds_activations = false;
  bool home_current = true;  // where the content is parameters
  bool speculated = false;   // updated, not committed
  Beside gradients;
  Beside sum;
  SimulatedMemory::Spans block;
};

struct SimulatedState {
  // Makes the state at the start of a run: idle queues, and the plan's initial
  // chunks on the device. All arguments but the overheads must outlive it.
  SimulatedState(const Plan& plan, const PlanRequest& request,
                 const SimulatedTrace& trace, const Overheads& overheads);

  // Returns true if `op` is a reduce in which the device adds up a chunk of the
  // host's side.
  bool AddsOnDevice(const SimulatedTrace::Op& op) const {
    return op.kind == OpKind::kReduce && chunks[trace.chunk_of(op)].sum.exists;
  }
  // Returns the bytes that a copy of the chunk, as it is now, moves over the
  // bus.
  int64_t BytesOnBus(int64_t chunk) const;
  // Receives all other ranks' shards of a chunk, or their parts of this rank's
  // shard, over the network from `ready_ns` on. Returns the time of arrival.
  int64_t Exchange(int64_t chunk, int64_t ready_ns);
  // AddsSumsOfRanks returns true if ranks add up sums in the middle of an
  // update. ReceiveSums receives the other ranks' sums from `ready_ns` on and
  // returns the time of arrival.
  bool AddsSumsOfRanks(const SimulatedTrace::Op& op) const {
    return sharded && op.reduced_bytes > 0;
  }
  int64_t ReceiveSums(const SimulatedTrace::Op& op, int64_t ready_ns) {
    return queues.Receive(ready_ns, op.reduced_bytes * other_ranks);
  }

  const Plan& plan;
  const SimulatedTrace& trace;
  const int64_t other_ranks;  // that share the chunks
  const bool sharded;
  SimulatedQueues queues;
  SimulatedDevice device;
  std::vector<SimulatedChunk> chunks;  // indexed by ChunkId
  // Chunks whose sums have come to the host from the device, not squared yet.
  std::vector<int64_t> sums_to_square;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_STATE_H_
