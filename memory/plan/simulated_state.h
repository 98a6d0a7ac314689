// What the simulator knows at one instant of a step: its clocks, the device's
// bytes, and each chunk.
#ifndef CASTOR_MEMORY_PLAN_SIMULATED_STATE_H_
#define CASTOR_MEMORY_PLAN_SIMULATED_STATE_H_

#include <cstdint>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/plan/simulated_device.h"
#include "memory/plan/simulated_memory.h"
#include "memory/plan/simulated_queues.h"
#include "memory/plan/simulated_trace.h"

namespace castor {

// One chunk. Its times stay when its block goes: a later block of it comes
// after them.
struct SimulatedChunk {
  // What the bytes on the device are, where several ranks share a chunk, and
  // of activations, which are each rank's own.
  enum class Content : uint8_t {
    kParameters,  // the same on all ranks: home keeps this one's shard
    kLocal,       // with gradients of this rank's own: only it has them, whole
    kSpent,       // reduced for the last time, worth nothing until the update;
                  // or activations that are not made, or were read
  };

  // A block beside the payload, while there is one.
  struct Beside {
    bool exists = false;
    int64_t ns = 0;  // from when on it may be written, then its last use
    SimulatedMemory::Spans block;
  };

  int64_t arrived_ns = 0;  // the last fetch
  int64_t used_ns = 0;     // the last operator that used it
  int64_t written_ns = 0;  // the last one that changed it
  int64_t copied_ns = 0;   // the last copy back
  int64_t home_ns = 0;     // its home is valid for the device: copied, updated
  Content content = Content::kParameters;
  bool holds_activations = false;
  bool home_current = true;  // when the content is parameters
  bool speculated = false;   // updated and not committed
  Beside gradients;
  Beside sum;
  SimulatedMemory::Spans block;
};

struct SimulatedState {
  // As a run begins: idle queues, and on the device what the plan starts with.
  // All but the overheads must outlive it.
  SimulatedState(const Plan& plan, const PlanRequest& request,
                 const SimulatedTrace& trace, const Overheads& overheads);

  // Whether it is a reduce by which the device adds up a chunk of the host's
  // side.
  bool AddsOnDevice(const SimulatedTrace::Op& op) const {
    return op.kind == OpKind::kReduce && chunks[trace.chunk_of(op)].sum.exists;
  }
  // What is to cross the bus with a copy of the chunk as it is now.
  int64_t BytesOnBus(int64_t chunk) const;
  // All other ranks' shards of a chunk, or parts of this one's, come over the
  // network, from `ready_ns` on. Returns when they are there.
  int64_t Exchange(int64_t chunk, int64_t ready_ns);
  // Whether ranks add up sums in the middle of an update, and when all other
  // ranks' are there, from `ready_ns` on.
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
  // Chunks whose sums the host has got from the device, and not squared.
  std::vector<int64_t> sums_to_square;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATED_STATE_H_
