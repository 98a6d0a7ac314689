// When each chunk is needed on the device, seen from the end of each use.
//
// A *use* is a moment at which a chunk must be resident. A *gap* lies between
// two uses of a chunk that follow each other, around the end of the step too.
// In each gap a chunk either stays, which costs room, or leaves and comes back,
// which costs copies. That is all a plan decides: the gaps are its variables.
//
//   moment       3    4    5    6    7    8
//   operator    c/fwd  .    .    .   c/bwd reduce(c)
//   gap of c     from [4    5    6 ]  to
//
// A gap in which the host reduces or updates the chunk is *forced*: the chunk
// must leave, and cannot be fetched before the host is done. Where the
// gradients that the host reduces come from a block beside the payload
// (plan.h), the chunk may stay; only if it leaves does its fetch wait for the
// host.
#ifndef CASTOR_MEMORY_PLAN_USE_INDEX_H_
#define CASTOR_MEMORY_PLAN_USE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "memory/plan/plan.h"

namespace castor {

// A chunk's payload as it is counted on the device.
int64_t PayloadBlock(const ChunkInfo& chunk);
int64_t OptimizerBlock(const ChunkInfo& chunk);
// The sum of its gradients on the device.
int64_t SumBlock(const ChunkInfo& chunk);
// Its home as it is counted on the host.
int64_t HomeBlock(const ChunkInfo& chunk);
// Its bank (plan.h): a second set of its optimizer states but for the sum of
// gradients and, where there is no such sum, the gradients, whose place the new
// parameters take.
int64_t BankBlock(const ChunkInfo& chunk);

// Whether the chunk stays resident and dirty throughout: evaluation with
// optimizer states, and so the last update's payload, on the device.
bool IsPinned(const StepTrace& trace, const std::vector<Side>& side,
              int64_t chunk);

// Whether operator `op` runs on the device: all but the host's reduce, update.
bool RunsOnDevice(const OpRecord& op, const std::vector<Side>& side);
// Whether the network's stream runs operator `op`, which runs on the device or
// is a reduce with a sum there, beside compute. It runs what ranks add up, and
// updates of that which wait for no norm.
bool RunsOnNetwork(const StepTrace& trace, const OpRecord& op);

struct Gap {
  int64_t chunk = 0;
  int64_t bytes = 0;       // of its payload's block
  int64_t home_bytes = 0;  // of them, those that a fetch takes from its home
  // The uses around it, unrolled: 0 <= from < T, from + 1 < to <= from + T.
  int64_t from = 0;
  int64_t to = 0;
  // The first moment in whose actions it may be fetched again.
  int64_t ready = 0;
  // The first moment in the gap at which the host works on it, or -1.
  int64_t forced_by = -1;
  // Whether leaving takes a copy back, unless one happened since the write.
  bool dirty = false;
  // There is nothing to bring back: the use after it makes the activations that
  // the chunk is for, and the gap is forced, since it holds none.
  bool makes = false;

  bool forced() const { return forced_by >= 0; }
};

// Where a chunk's gradients of one micro batch lie beside its payload, if they
// do: from the first operator that writes them until the reduce, before which
// they are sent.
struct GradientBlock {
  int64_t chunk = 0;
  int64_t bytes = 0;
  int64_t from = 0;
  int64_t reduce = 0;
  // In whose actions it is dropped, >= reduce, and not after the next operator
  // that writes the chunk's gradients.
  int64_t drop = 0;
  int64_t next_write = 0;
  // Whether it is sent before its reduce, or read by it on the device.
  bool sent = true;

  friend bool operator==(const GradientBlock&, const GradientBlock&) = default;
};

// Where the sum of a chunk's gradients lies on the device (plan.h): from its
// first reduce in the step until it was sent, after its last one.
struct DeviceSum {
  int64_t chunk = 0;
  int64_t bytes = 0;
  int64_t from = 0;    // its first reduce
  int64_t reduce = 0;  // its last one
  // In whose actions it is dropped, > reduce, at most T.
  int64_t drop = 0;

  friend bool operator==(const DeviceSum&, const DeviceSum&) = default;
};

// All that a plan may have with these sides: of every trainable chunk on the
// host's side, and on several ranks on the device's, in every micro batch that
// is not its last, by ascending reduce, each dropped as soon as it can be.
// O(total uses).
std::vector<GradientBlock> PossibleGradientBlocks(
    const StepTrace& trace, const std::vector<Side>& side);

// A chunk's that the device can add up, and the gradient blocks that it must
// have for that.
struct PossibleSum {
  DeviceSum sum;
  std::vector<GradientBlock> blocks;
};

// All that a plan may have with these sides: of every chunk on the host's side
// that is reduced more than once in a step, where there may be a block of
// `possible` (PossibleGradientBlocks) before each reduce but the last; by
// ascending last reduce. O(total uses).
std::vector<PossibleSum> PossibleDeviceSums(
    const StepTrace& trace, const std::vector<Side>& side,
    const std::vector<GradientBlock>& possible);

// Whether a copy of the chunk from the device that is issued before operator
// `moment` may be that of its sum, which is sent right after its last reduce:
// for whoever sees copies without their plan.
bool MayBeSum(const StepTrace& trace, int64_t moment, int64_t chunk);

struct Use {
  int64_t moment = 0;
  bool writes = false;
  // The gap after it; -1 when the next moment uses the chunk too.
  int64_t gap = -1;
  // What the payload holds is worth nothing after it: its gradients are in a
  // sum on the device, or backward has come to its activations.
  bool spends = false;
};

class UseIndex {
 public:
  // O(total uses). The trace must be well formed (memory/plan/trace_check.h).
  // `beside`: the gradient blocks that the plan has, some of the possible ones
  // in their order; `sums`: its sums on the device, whose blocks are among
  // them.
  UseIndex(const StepTrace& trace, const std::vector<Side>& side,
           std::vector<GradientBlock> beside = {},
           std::vector<DeviceSum> sums = {});

  int64_t moments() const { return moments_; }
  const std::vector<Gap>& gaps() const { return gaps_; }
  // The gaps by their first moment, from + 1, which is at most T: those of
  // moment t are from begin_of(t) up to begin_of(t + 1).
  const std::vector<int64_t>& gaps_by_begin() const { return by_begin_; }
  int64_t begin_of(int64_t moment) const { return begin_of_[moment]; }
  // The gaps by the moment of their next use, those across the end of the step
  // last.
  const std::vector<int64_t>& gaps_by_need() const { return by_need_; }
  const std::vector<GradientBlock>& gradient_blocks() const { return beside_; }
  const std::vector<DeviceSum>& device_sums() const { return sums_; }
  // By ascending moment. Empty for pinned chunks.
  absl::Span<const Use> uses(int64_t chunk) const {
    return {uses_.data() + first_use_[chunk],
            static_cast<size_t>(num_uses_[chunk])};
  }

  // When operator t starts if nothing ever waits; [T] is the step's length.
  const std::vector<int64_t>& start_ns() const { return start_ns_; }
  // The same for unrolled moments, in [0, 2T].
  int64_t StartNs(int64_t moment) const;
  // The last unrolled moment that starts by then, >= 0. About O(1).
  int64_t MomentAt(int64_t time_ns) const;

 private:
  // What the host does to a chunk at a moment: at those of `reads_block` on
  // what came from a gradient block.
  struct HostWork {
    int64_t moment = 0;
    bool reads_block = false;
  };

  // Makes room for all uses, and finds none yet.
  void CountUses(const StepTrace& trace);
  void AddUse(int64_t chunk, const Use& use) {
    uses_[first_use_[chunk] + num_uses_[chunk]++] = use;
  }
  // Adds the chunk's gaps.
  void FindGaps(const ChunkInfo& info, int64_t chunk,
                const std::vector<HostWork>& work);
  void SortGaps();
  void SetClock();

  int64_t moments_;
  // Those of a chunk follow one another.
  std::vector<Use> uses_;
  std::vector<int64_t> first_use_, num_uses_;
  std::vector<Gap> gaps_;
  std::vector<GradientBlock> beside_;
  std::vector<DeviceSum> sums_;
  std::vector<int64_t> start_ns_;
  std::vector<int64_t> by_begin_, begin_of_, by_need_;
  // The last moment that starts by each multiple of `clock_ns_`.
  int64_t clock_ns_ = 1;
  std::vector<int64_t> by_clock_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_USE_INDEX_H_
