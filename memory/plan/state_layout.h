// What lies beside the payload of a trainable chunk: its *optimizer states*,
// one array after the other, each with a value for every element of the chunk.
//
//   master  fp32   the parameters themselves
//   slot 0         what the optimizer keeps of each parameter: a *state slot*
//   ...
//   slot n-1
//   sum     fp32   of micro batches' gradients; only with accumulation
//
// Memory counts slots, gives them room and moves them. What a slot means, its
// optimizer alone knows (runtime/optim/optimizer.h).
#ifndef CASTOR_MEMORY_PLAN_STATE_LAYOUT_H_
#define CASTOR_MEMORY_PLAN_STATE_LAYOUT_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace castor {

// The most slots of an optimizer.
inline constexpr int kMaxStateSlots = 8;

struct StateSlot {
  std::string name;  // for messages
  DType dtype = DType::kFloat32;

  friend bool operator==(const StateSlot&, const StateSlot&) = default;
};

// One of the arrays that are kept from step to step: master, or a slot.
class StatePart {
 public:
  static const StatePart kMaster;
  static constexpr StatePart Slot(int slot) { return StatePart(slot + 1); }

  // 0 is master, i + 1 is slot i: so the arrays lie in memory, and so
  // checkpoints number them (docs/checkpoint-format.md).
  constexpr explicit StatePart(int index) : index_(index) {}
  constexpr int index() const { return index_; }
  constexpr bool is_master() const { return index_ == 0; }
  constexpr int slot() const { return index_ - 1; }

  friend constexpr auto operator<=>(StatePart, StatePart) = default;

 private:
  int index_;
};
inline constexpr StatePart StatePart::kMaster{0};

struct StateLayout {
  std::vector<StateSlot> slots;
  // How many sums over all elements of a parameter an update wants, which ranks
  // that share a chunk add up in the middle of it.
  int sums = 0;

  // How many parts there are; they are numbered from 0.
  int num_parts() const { return 1 + static_cast<int>(slots.size()); }
  DType dtype(StatePart part) const {
    return part.is_master() ? DType::kFloat32 : slots[part.slot()].dtype;
  }
  // The bytes that one element takes in all arrays before that of `part`; for
  // the number after the last part, in all before the sum.
  int64_t bytes_before(StatePart part) const {
    int64_t bytes = 0;
    for (int i = 0; i < part.index(); ++i) bytes += SizeOf(dtype(StatePart(i)));
    return bytes;
  }
  // The bytes that one element takes in all arrays, with the sum's if
  // `accumulate`.
  int64_t bytes_per_element(bool accumulate) const {
    return bytes_before(StatePart(num_parts())) + (accumulate ? kSumBytes : 0);
  }
  static constexpr int64_t kSumBytes = SizeOf(DType::kFloat32);
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_STATE_LAYOUT_H_
