// Look-ups over a trace that the parts of the analysis share: programs, which
// stream has which role, what a plan does with a chunk, when it is used.
//
// Everything out of range is answered with none (-1, null), so that callers
// need not trust the contents.
#ifndef CASTOR_INSIGHT_TRACE_INDEX_H_
#define CASTOR_INSIGHT_TRACE_INDEX_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tracer/trace_file.h"

namespace castor {

// The sum, or the largest number where it would not fit.
constexpr int64_t AddUpTo(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return a < 0 ? std::numeric_limits<int64_t>::min()
                 : std::numeric_limits<int64_t>::max();
  }
  return sum;
}

class TraceIndex {
 public:
  // `contents` outlives the index. O(n log n).
  explicit TraceIndex(const TraceContents& contents);

  const TraceContents& contents() const { return contents_; }

  // Streams by their names in the run record; by their usual numbers where
  // there is none.
  int64_t num_streams() const { return num_streams_; }
  int64_t compute() const { return compute_; }
  int64_t to_device() const { return to_device_; }
  int64_t to_host() const { return to_host_; }
  int64_t host_compute() const { return host_compute_; }
  int64_t network() const { return network_; }
  int64_t data() const { return data_; }
  // Returns the ranks' record of the network's work with that count, or null.
  const NetworkRecord* Network(int64_t stream, int64_t count) const;

  // Programs in the order of their first step trace.
  int64_t num_programs() const { return trace_of_program_.size(); }
  const StepTrace* Trace(int64_t program) const;
  const OpRecord* Op(int64_t program, int64_t moment) const;
  const ChunkInfo* Chunk(int64_t program, int64_t chunk) const;
  // Work of no step counts as work of the first training program.
  int64_t ProgramOfStep(int64_t step) const;
  int64_t ProgramOfPlan(int64_t plan) const;
  int64_t PlanOfStep(int64_t step) const;
  const PlanRecord* Plan(int64_t plan) const;
  const PlanRecord* PlanRecordOfStep(int64_t step) const {
    return Plan(PlanOfStep(step));
  }
  int64_t main_program() const { return main_program_; }
  // The number of chunks of all programs together.
  int64_t num_chunks() const { return num_chunks_; }

  // How many chunks of the program have optimizer states.
  int64_t ChunksWithStates(int64_t program) const;
  // The moments that use a chunk, ascending.
  const std::vector<int64_t>& Uses(int64_t program, int64_t chunk) const;
  // The first one later than `after`, or -1.
  int64_t NextUse(int64_t program, int64_t chunk, int64_t after) const;
  // The last reduce of the chunk's gradients, or -1.
  int64_t LastReduce(int64_t program, int64_t chunk) const;

  // The action that copies a block of the chunk at `moment`, or null.
  const ActionRecord* Copy(int64_t plan, ChunkBlock block,
                           CopyDirection direction, int64_t moment,
                           int64_t chunk) const;
  // Returns whether the operator at `moment` writes the chunk's gradients to a
  // block.
  bool HasGradientBlock(int64_t plan, int64_t moment, int64_t chunk) const;
  // The moment of the first drop later than `after`, or -1.
  int64_t NextDrop(int64_t plan, int64_t chunk, int64_t after) const;
  // The drop after which a fetch at `moment` brings the chunk back, in this
  // step or the one before. Null where it was never dropped.
  const ActionRecord* DropBefore(int64_t plan, int64_t chunk,
                                 int64_t moment) const;
  // Returns whether the plan starts with the chunk on the device.
  bool StartsResident(int64_t plan, int64_t chunk) const;
  bool OnDeviceSide(int64_t plan, int64_t chunk) const;

  // When the host thread issued the operator; -1 where it is not known.
  int64_t IssuedNs(int64_t step, int64_t moment) const;

 private:
  struct ProgramIndex {
    std::vector<std::vector<int64_t>> uses;
    std::vector<int64_t> last_reduce;
    int64_t chunks_with_states = 0;
  };
  struct PlanIndex {
    // For each ChunkBlock the actions on such blocks, by chunk, moment, number.
    std::array<std::vector<int64_t>, kNumChunkBlocks> actions;
    std::vector<int64_t> initial;
    std::vector<int64_t> device_side;
  };

  void IndexStreams();
  void IndexPrograms();
  void IndexPlans();
  // `order` has a plan's actions by chunk, moment and number. The result is the
  // range of those on the chunk at the latest moment up to `moment` that has
  // any.
  std::pair<size_t, size_t> LatestOn(int64_t plan,
                                     const std::vector<int64_t>& order,
                                     int64_t moment, int64_t chunk) const;
  // The plan's actions on such blocks, as in PlanIndex.
  const std::vector<int64_t>& ActionsOn(int64_t plan, ChunkBlock block) const;
  // The range of those on the chunk's payload.
  std::pair<size_t, size_t> PayloadActions(int64_t plan, int64_t chunk) const;

  const TraceContents& contents_;
  int64_t num_streams_ = 0;
  int64_t compute_ = -1, to_device_ = -1, to_host_ = -1, host_compute_ = -1;
  int64_t network_ = -1;  // on one rank there is none
  int64_t data_ = -1;     // where no data are streamed there is none
  std::vector<const NetworkRecord*> networks_;  // by stream, count
  std::vector<int64_t> trace_of_program_;
  std::vector<int64_t> program_of_plan_;
  int64_t main_program_ = -1;
  int64_t num_chunks_ = 0;
  std::vector<ProgramIndex> programs_;
  std::vector<PlanIndex> plans_;
  struct Issue {
    int64_t step, moment, time_ns;
  };
  std::vector<Issue> issues_;  // by step, moment
};

}  // namespace castor

#endif  // CASTOR_INSIGHT_TRACE_INDEX_H_
