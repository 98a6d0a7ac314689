// The layout of a trainable chunk's *optimizer states*: arrays, one after the
// other, each with a value for every element of the chunk.
//
//   master         the parameters themselves, of which payloads are rounded
//   slot 0         what the optimizer keeps of each parameter: a *state slot*
//   ...
//   slot n-1
//   sum     fp32   of micro batches' gradients; only with accumulation
//
// Master and slots have formats of their own (base/state_format.h). A master is
// fp32; or, where payloads are bf16, bf16 or split: then its first part holds
// the payload's bits, so that the payload's own place is free for gradients
// whatever the master's format.
//
// Where the optimizer keeps a value of each of a parameter's *margins*, its
// rows and its columns (margins.h), these are fp32 and no part of a chunk's
// states: they are small, stay in host memory, and every rank has all of them.
//
// The memory manager counts slots, gives them room and moves them. Only the
// optimizer knows their meaning (run/optim/optimizer.h).
#ifndef CASTOR_MEMORY_PLAN_LAYOUT_STATE_LAYOUT_H_
#define CASTOR_MEMORY_PLAN_LAYOUT_STATE_LAYOUT_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/state_format.h"

namespace castor {

// The most state slots that an optimizer can have.
inline constexpr int kMaxStateSlots = 8;

struct StateSlot {
  std::string name;  // for messages
  StateFormat format = StateFormat::kFloat32;

  friend bool operator==(const StateSlot&, const StateSlot&) = default;
};

// Names an array that is kept from step to step: master, a slot, or the values
// of a parameter's margins.
class StatePart {
 public:
  static const StatePart kMaster;
  static const StatePart kMargins;
  static constexpr StatePart Slot(int slot) { return StatePart(slot + 1); }

  // 0 is master, i + 1 is slot i: the order of the arrays in memory. They are
  // the numbers in checkpoints (docs/checkpoint-format.md), as is that of the
  // margins, which follows the last slot that there can be.
  constexpr explicit StatePart(int index) : index_(index) {}
  constexpr int index() const { return index_; }
  constexpr bool is_master() const { return index_ == 0; }
  constexpr bool is_margins() const { return index_ == kMaxStateSlots + 1; }
  constexpr int slot() const { return index_ - 1; }

  friend constexpr auto operator<=>(StatePart, StatePart) = default;

 private:
  int index_;
};
inline constexpr StatePart StatePart::kMaster{0};
inline constexpr StatePart StatePart::kMargins{kMaxStateSlots + 1};

struct StateLayout {
  StateFormat master = StateFormat::kFloat32;
  std::vector<StateSlot> slots;
  // The number of sums over all elements of a parameter that an update needs,
  // which ranks that share a chunk add up in the middle of it.
  int sums = 0;
  // If true, it keeps a value of each margin, and needs a sum over each.
  bool margins = false;

  // The number of parts of a chunk's states; they are numbered from 0.
  int num_parts() const { return 1 + static_cast<int>(slots.size()); }
  StateFormat format(StatePart part) const {
    return part.is_master()    ? master
           : part.is_margins() ? StateFormat::kFloat32
                               : slots[part.slot()].format;
  }
  // The type of the values in master's first part, of which payloads are
  // rounded.
  DType master_dtype() const {
    return master == StateFormat::kFloat32 ? DType::kFloat32 : DType::kBFloat16;
  }
  // Bytes of the arrays before that of `part`, of so many elements each, a
  // multiple of kStateTile; for StatePart(num_parts()), of all before the sum.
  int64_t BytesBefore(StatePart part, int64_t elements) const {
    int64_t bytes = 0;
    for (int i = 0; i < part.index(); ++i) {
      bytes += StateBytes(format(StatePart(i)), elements);
    }
    return bytes;
  }
  // Bytes of all arrays, with the sum if `accumulate`.
  int64_t Bytes(int64_t elements, bool accumulate) const {
    return BytesBefore(StatePart(num_parts()), elements) +
           (accumulate ? elements * kSumBytes : 0);
  }
  static constexpr int64_t kSumBytes = int64_t{sizeof(float)};
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_LAYOUT_STATE_LAYOUT_H_
