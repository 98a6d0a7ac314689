// The device's bytes as the simulator counts them: bytes that stay throughout,
// the blocks of chunks, and non-model bytes, which come and go as one.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_DEVICE_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_DEVICE_H_

#include <cstdint>
#include <vector>

#include "memory/plan/simulate/simulated_memory.h"

namespace castor {

class SimulatedDevice {
 public:
  // `staying_bytes` of the budget are taken throughout.
  SimulatedDevice(int64_t budget_bytes, int64_t staying_bytes)
      : memory_(budget_bytes - staying_bytes), resident_bytes_(staying_bytes) {}

  // The same as SimulatedMemory::TakeLow.
  SimulatedMemory::Spans TakeBlock(int64_t bytes, int64_t ready_ns,
                                   int64_t* from_ns) {
    resident_bytes_ += bytes;
    return memory_.TakeLow(bytes, ready_ns, from_ns);
  }
  // Frees a block, all use of which is over at `from_ns`.
  void GiveBlock(const SimulatedMemory::Spans& block, int64_t from_ns) {
    for (const SimulatedMemory::Span& span : block) {
      resident_bytes_ -= span.bytes;
      memory_.Give(span, from_ns);
    }
  }

  // Sets the bytes of activations, temporaries and workspaces from now on.
  // Bytes that go were used by operators that are over at `used_ns`. Bytes that
  // come take the highest addresses that are free by `ready_ns`; returns the
  // time from which they may be written, or 0 if none come.
  int64_t SetNonModel(int64_t bytes, int64_t used_ns, int64_t ready_ns);

  // The same as SimulatedMemory::Forget.
  void Forget(int64_t now_ns) { memory_.Forget(now_ns); }

  int64_t non_model_bytes() const { return non_model_bytes_; }
  int64_t bytes_in_use() const { return resident_bytes_ + non_model_bytes_; }

 private:
  SimulatedMemory memory_;
  std::vector<SimulatedMemory::Span> non_model_;  // in the order of taking
  int64_t resident_bytes_ = 0;
  int64_t non_model_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_DEVICE_H_
