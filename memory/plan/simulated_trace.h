// A step's trace as the simulator walks through it: what its clocks ask for,
// close together and without names, since a plan is found by walking many
// times.
#ifndef CASTOR_MEMORY_PLAN_SIMULATED_TRACE_H_
#define CASTOR_MEMORY_PLAN_SIMULATED_TRACE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tracer/step_trace.h"

namespace castor {

class SimulatedTrace {
 public:
  // Copies what it needs.
  explicit SimulatedTrace(const StepTrace& trace);

  // An operator: OpRecord has the words.
  struct Op {
    OpKind kind = OpKind::kCompute;
    bool on_network = false;  // unless the host runs it (RunsOnNetwork)
    int64_t first_use = 0;    // those of its chunks, among all uses
    int64_t num_uses = 0;
    int64_t non_model_peak_bytes = 0;
    int64_t duration_ns = 0;
    int64_t host_duration_ns = 0;
    int64_t reduced_bytes = 0;
  };
  struct Chunk {
    int64_t payload_bytes = 0;
    int64_t home_bytes = 0;
    int64_t payload_block = 0;  // as it counts on the device
    int64_t sum_bytes = 0;
    int64_t sum_block = 0;
    int64_t pieces = 1;
    bool holds_activations = false;
    int64_t last_reduce = -1;  // its moment; -1: the chunk has none
    int64_t update = -1;       // likewise
  };

  int64_t moments() const { return static_cast<int64_t>(ops_.size()); }
  int64_t num_chunks() const { return static_cast<int64_t>(chunks_.size()); }
  const Op& op(int64_t t) const { return ops_[t]; }
  const Chunk& chunk(int64_t c) const { return chunks_[c]; }
  absl::Span<const ChunkUse> uses(const Op& op) const {
    return {uses_.data() + op.first_use, static_cast<size_t>(op.num_uses)};
  }
  // The chunk of a reduce or an update.
  int64_t chunk_of(const Op& op) const {
    return uses_[op.first_use].chunk.value;
  }

  // The last moment of all forwards, after which the loss is known; -1 in a
  // trace without any.
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

#endif  // CASTOR_MEMORY_PLAN_SIMULATED_TRACE_H_
