// A compact copy of a step's trace for the simulator, without names: a plan is
// found by many walks over it.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_TRACE_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_TRACE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tracer/step_trace.h"

namespace castor {

class SimulatedTrace {
 public:
  explicit SimulatedTrace(const StepTrace& trace);

  // An operator; OpRecord describes the fields.
  struct Op {
    OpKind kind = OpKind::kCompute;
    bool on_network = false;  // RunsOnNetwork, unless the host runs it
    int64_t first_use = 0;    // index of its uses among all uses
    int64_t num_uses = 0;
    int64_t non_model_peak_bytes = 0;
    int64_t duration_ns = 0;
    int64_t host_duration_ns = 0;
    int64_t reduced_bytes = 0;
  };
  struct Chunk {
    int64_t payload_bytes = 0;
    int64_t home_bytes = 0;
    int64_t payload_block = 0;  // bytes of its block on the device
    int64_t sum_bytes = 0;
    int64_t sum_block = 0;
    int64_t pieces = 1;
    bool holds_activations = false;
    int64_t last_reduce = -1;  // its moment; -1: none
    int64_t update = -1;       // likewise
  };

  int64_t moments() const { return static_cast<int64_t>(ops_.size()); }
  int64_t num_chunks() const { return static_cast<int64_t>(chunks_.size()); }
  const Op& op(int64_t t) const { return ops_[t]; }
  const Chunk& chunk(int64_t c) const { return chunks_[c]; }
  absl::Span<const ChunkUse> uses(const Op& op) const {
    return {uses_.data() + op.first_use, static_cast<size_t>(op.num_uses)};
  }
  // Returns the chunk of a reduce or an update.
  int64_t chunk_of(const Op& op) const {
    return uses_[op.first_use].chunk.value;
  }

  // The last moment of the last forward, after which the loss is known; -1 in a
  // trace without a forward.
  int64_t last_forward() const { return last_forward_; }
  bool global_norm() const { return global_norm_; }

 private:
  std::vector<ChunkUse> uses_;
  std::vector<Op> ops_;
  std::vector<Chunk> chunks_;
  int64_t last_forward_ = -1;
  bool global_norm_ = false;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_TRACE_H_
