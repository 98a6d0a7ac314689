// An index of the moments at which each chunk is needed on the device, and of
// the gaps between them.
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
// gradients that the host reduces come from a gradient block (plan.h), the
// chunk may stay; only if it leaves does its fetch wait for the host.
#ifndef CASTOR_MEMORY_PLAN_RESIDENCY_USE_INDEX_H_
#define CASTOR_MEMORY_PLAN_RESIDENCY_USE_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "memory/plan/plan.h"

namespace castor {

// Returns the bytes of a chunk's payload as they count on the device.
int64_t PayloadBlock(const ChunkInfo& chunk);
int64_t OptimizerBlock(const ChunkInfo& chunk);
// Returns the bytes of the chunk's device sum.
int64_t SumBlock(const ChunkInfo& chunk);
// Returns the bytes of the chunk's home as they count on the host.
int64_t HomeBlock(const ChunkInfo& chunk);
// Returns the bytes of the chunk's bank (plan.h): a second set of its optimizer
// states without the sum of gradients and, where there is no such sum, the
// gradients, whose place the new parameters take.
int64_t BankBlock(const ChunkInfo& chunk);

// Returns true if the chunk stays resident and dirty throughout: in evaluation,
// if its optimizer states, and so the last update's payload, are on the device.
bool IsPinned(const StepTrace& trace, const std::vector<Side>& side,
              int64_t chunk);

// Returns true if `op` runs on the device: all but the host's reduce and
// update.
bool RunsOnDevice(const OpRecord& op, const std::vector<Side>& side);
// Returns true if the network's stream runs `op` concurrently with compute:
// `op` adds up ranks' gradients, or updates from them without waiting for a
// norm. `op` must run on the device, or be a reduce into a device sum.
bool RunsOnNetwork(const StepTrace& trace, const OpRecord& op);

struct Gap {
  int64_t chunk = 0;
  int64_t bytes = 0;       // of its payload's block
  int64_t home_bytes = 0;  // those of them that a fetch reads from the home
  // The uses around it, unrolled: 0 <= from < T, from + 1 < to <= from + T.
  int64_t from = 0;
  int64_t to = 0;
  // The first moment in whose actions it may be fetched again.
  int64_t ready = 0;
  // The first moment in the gap at which the host works on the chunk, or -1.
  int64_t forced_by = -1;
  // True if the chunk must be copied back before it leaves, unless it was since
  // its last write.
  bool dirty = false;
  // True if the use after the gap makes the chunk's activations: the gap is
  // forced, since the chunk holds none in it, and there is nothing to copy.
  bool makes = false;

  bool forced() const { return forced_by >= 0; }
};

// A gradient block: the separate buffer on the device for a chunk's gradients
// of one micro batch, from the first operator that writes them until the
// reduce, before which they are sent.
struct GradientBlock {
  int64_t chunk = 0;
  int64_t bytes = 0;
  int64_t from = 0;
  int64_t reduce = 0;
  // The moment in whose actions it is dropped, >= reduce, and not after the
  // next operator that writes the chunk's gradients.
  int64_t drop = 0;
  int64_t next_write = 0;
  // True if it is sent before its reduce, false if the reduce reads it on the
  // device.
  bool sent = true;

  friend bool operator==(const GradientBlock&, const GradientBlock&) = default;
};

// A device sum: the block for the sum of a chunk's gradients (plan.h), from its
// first reduce in the step until it was sent, after its last one.
struct DeviceSum {
  int64_t chunk = 0;
  int64_t bytes = 0;
  int64_t from = 0;    // its first reduce
  int64_t reduce = 0;  // its last one
  // The moment in whose actions it is dropped, > reduce, at most T.
  int64_t drop = 0;

  friend bool operator==(const DeviceSum&, const DeviceSum&) = default;
};

// Returns all gradient blocks that a plan may have with these sides: for every
// trainable chunk on the host's side, and with several ranks also on the
// device's, in every micro batch but its last, by ascending reduce, each
// dropped as soon as it can be. O(total uses).
std::vector<GradientBlock> PossibleGradientBlocks(
    const StepTrace& trace, const std::vector<Side>& side);

// A device sum that a plan may have, and the gradient blocks that it needs.
struct PossibleSum {
  DeviceSum sum;
  std::vector<GradientBlock> blocks;
};

// Returns all device sums that a plan may have with these sides: for every
// chunk on the host's side that is reduced more than once in a step and has a
// block of `possible` (PossibleGradientBlocks) before each reduce but the last;
// by ascending last reduce. O(total uses).
std::vector<PossibleSum> PossibleDeviceSums(
    const StepTrace& trace, const std::vector<Side>& side,
    const std::vector<GradientBlock>& possible);

// Returns true if a copy of the chunk from the device that is issued before
// operator `moment` may be that of its device sum, which is sent right after
// its last reduce: for code that sees copies without their plan.
bool MayBeSum(const StepTrace& trace, int64_t moment, int64_t chunk);

struct Use {
  int64_t moment = 0;
  bool writes = false;
  // The gap after it; -1 when the next moment uses the chunk too.
  int64_t gap = -1;
  // True if the payload's content is not needed after the use: its gradients
  // are in a device sum, or backward has come to its activations.
  bool spends = false;
};

class UseIndex {
 public:
  // O(total uses). The trace must be well formed
  // (memory/plan/check/trace_check.h). `beside` are the plan's gradient blocks,
  // some of the possible ones in their order; `sums` are its device sums, whose
  // blocks are among them.
  UseIndex(const StepTrace& trace, const std::vector<Side>& side,
           std::vector<GradientBlock> beside = {},
           std::vector<DeviceSum> sums = {});

  int64_t moments() const { return moments_; }
  const std::vector<Gap>& gaps() const { return gaps_; }
  // The gaps by their first moment, from + 1, which is at most T; those of
  // moment t are in [begin_of(t), begin_of(t + 1)).
  const std::vector<int64_t>& gaps_by_begin() const { return by_begin_; }
  int64_t begin_of(int64_t moment) const { return begin_of_[moment]; }
  // The gaps by the moment of their next use, those across the end of the step
  // last.
  const std::vector<int64_t>& gaps_by_need() const { return by_need_; }
  const std::vector<GradientBlock>& gradient_blocks() const { return beside_; }
  const std::vector<DeviceSum>& device_sums() const { return sums_; }
  // The chunk's uses by ascending moment. Empty for pinned chunks.
  absl::Span<const Use> uses(int64_t chunk) const {
    return {uses_.data() + first_use_[chunk],
            static_cast<size_t>(num_uses_[chunk])};
  }

  // The start of operator t if nothing ever waits; [T] is the step's length.
  const std::vector<int64_t>& start_ns() const { return start_ns_; }
  // The same for unrolled moments, in [0, 2T].
  int64_t StartNs(int64_t moment) const;
  // Returns the last unrolled moment that starts by `time_ns`, >= 0. About
  // O(1).
  int64_t MomentAt(int64_t time_ns) const;

 private:
  // Work of the host on a chunk at a moment; with `reads_block` on gradients
  // that came from a gradient block.
  struct HostWork {
    int64_t moment = 0;
    bool reads_block = false;
  };

  // Allocates room for all uses.
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
  // The uses of one chunk are adjacent.
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

#endif  // CASTOR_MEMORY_PLAN_RESIDENCY_USE_INDEX_H_
