// The state of a running warp, on which operations work: registers, shared
// memory, and copies under way.
#ifndef CASTOR_KERNELS_PTX_WARP_H_
#define CASTOR_KERNELS_PTX_WARP_H_

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/ptx/global_order.h"
#include "kernels/ptx/memory.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

enum class Space : uint8_t { kGlobal, kShared, kParameter };

// A block's shared memory. It tracks reads and writes: accesses of one place by
// two threads, one of which writes, are a race, whatever the values, unless a
// barrier of the block, or one of their warp, is between them.
class SharedMemory {
 public:
  explicit SharedMemory(int64_t bytes)
      : bytes_(bytes),
        written_((bytes + kGrain - 1) / kGrain),
        read_(written_.size()) {}

  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  uint8_t* at(uint64_t address) { return bytes_.data() + address; }

  // Fills the memory with garbage, before a block begins.
  void Reset();
  // Notes that all threads are at the barrier that is instruction `at` of the
  // program; -1: at several.
  void Barrier(int32_t at) {
    if (at != barrier_at_ || at < 0) alone_since_ = barriers_;
    barrier_at_ = at;
    ++barriers_;
  }
  // Sets where to note the barriers without which there would have been a race
  // (machine.h); null: nowhere.
  void set_needed(std::vector<bool>* needed) { needed_ = needed; }
  void BarrierOfWarp(int warp) { ++barriers_of_warp_[warp]; }

  // Returns true if the access is no race. The bytes are within the memory.
  bool Touch(uint64_t address, int64_t bytes, int warp, int lane, bool write) {
    const Visit mine = barriers_ << 32 |
                       uint64_t{barriers_of_warp_[warp]} << 16 |
                       static_cast<uint64_t>(warp << 8 | lane);
    const int64_t end = (static_cast<int64_t>(address) + bytes - 1) / kGrain;
    for (int64_t i = static_cast<int64_t>(address) / kGrain; i <= end; ++i) {
      if (Meet(written_[i], mine)) return false;
      Visit& read = read_[i];
      if (needed_ != nullptr && (ApartByOneBarrier(written_[i], mine) ||
                                 (write && ApartByOneBarrier(read, mine)))) {
        (*needed_)[barrier_at_] = true;
      }
      if (write) {
        if (Meet(read, mine)) return false;
        written_[i] = mine;
      } else if (read != mine && read != (mine | kSeveralLanes)) {
        read = !Meet(read, mine)      ? mine
               : SameWarp(read, mine) ? mine | kSeveralLanes
                                      : mine | kSeveralWarps;
      }
    }
    return true;
  }

 private:
  static constexpr int64_t kGrain = 2;  // bytes; the smallest of our accesses

  // The last access to a place: the number of the block's barriers before it in
  // the upper 32 bits, of its warp's in 16, the warp and the lane in 8 each.
  using Visit = uint64_t;
  static constexpr Visit kSeveralLanes = 0xff;
  static constexpr Visit kSeveralWarps = 0xffff;

  static bool SameWarp(Visit a, Visit b) {
    return (a >> 8 & 0xff) == (b >> 8 & 0xff);
  }
  // Returns true if two are of different threads, with no barrier between them.
  static bool Meet(Visit a, Visit b) {
    if (a >> 32 != b >> 32 || a == b) return false;
    return !SameWarp(a, b) || a >> 16 == b >> 16;
  }

  // Returns true if two are of different threads, with only the barrier at
  // barrier_at_ between them, once or several times.
  bool ApartByOneBarrier(Visit before, Visit mine) const {
    if (barrier_at_ < 0 || before >> 32 < alone_since_ ||
        before >> 32 == barriers_) {
      return false;
    }
    return Meet((before & 0xffffffff) | barriers_ << 32, mine);
  }

  std::vector<uint8_t> bytes_;
  std::vector<Visit> written_, read_;  // the last of each grain
  uint64_t barriers_ = 1;
  int32_t barrier_at_ = -1;  // where the last barrier was
  // barriers_ before the first of those at barrier_at_ since another.
  uint64_t alone_since_ = 1;
  std::vector<bool>* needed_ = nullptr;
  std::array<uint16_t, 32> barriers_of_warp_ = {};
};

// The state that all warps of a launch share.
struct BlockState {
  const GlobalMemory& global;
  absl::Span<const uint8_t> parameters;
  SharedMemory& shared;
  bool copies_land_late;
  // The running block's knowledge of the work of others.
  std::optional<BlockOrder> order;
};

class Warp {
 public:
  // Makes a warp of `blocks` blocks of `threads`. Its registers are full of
  // ones.
  Warp(const Program& program, BlockState& block, int index, uint32_t threads,
       uint32_t blocks);

  // Begins a new block. Registers keep the values of the last one.
  void Reset(uint32_t block);

  // Returns the values of an operand, one for each lane.
  template <class T>
  T* Values(const Operand& operand) {
    return reinterpret_cast<T*>(registers_.data() + operand.place);
  }
  LaneMask& Predicate(int32_t place) {
    return *reinterpret_cast<LaneMask*>(registers_.data() + place);
  }

  // The lanes that execute the instruction at hand.
  LaneMask mask() const { return mask_; }
  void set_mask(LaneMask mask) { mask_ = mask; }

  // Returns the address of these bytes for an access by `lane`; null after a
  // failure.
  uint8_t* Reach(Space space, int lane, uint64_t address, int64_t bytes,
                 bool write);
  // Does the same in global memory, for an atomic, or a load like one.
  uint8_t* ReachAtomically(int lane, uint64_t address, int64_t bytes,
                           bool write);

  // Starts a lane's copy of 16 bytes into shared memory: `bytes` from `from`,
  // then zeros.
  void StartCopy(int lane, uint64_t to, const uint8_t* from, int64_t bytes);
  // Finishes the copies of the lanes of mask().
  void FinishCopies();

  // Notes that the lanes of mask() have met.
  void Barrier() {
    block_.shared.BarrierOfWarp(index_);
    block_.order->MeetInWarp(index_);
  }

  // For a lane (global_order.h).
  void Look(int lane, uint64_t address) {
    block_.order->Look(address, index_, lane);
  }
  void Fence(int lane) { block_.order->Fence(index_, lane); }
  void Release(int lane, uint64_t address) {
    block_.order->Release(address, index_, lane);
  }

  // Fails the warp; the first failure stays.
  void Fail(int lane, const std::string& what);
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  int index() const { return index_; }

 private:
  struct Copy {
    int lane;
    uint64_t to;
    const uint8_t* from;
    int64_t bytes;
  };
  void Land(const Copy& copy);
  // Returns the address of these bytes; null after a failure.
  uint8_t* Find(Space space, int lane, uint64_t address, int64_t bytes,
                bool write);
  uint8_t* Race(int lane, const char* name, uint64_t address, int64_t bytes,
                bool write);

  const Program& program_;
  BlockState& block_;
  const int index_;
  std::vector<uint8_t> registers_;
  std::vector<Copy> copies_;
  LaneMask mask_ = 0;
  std::string failure_;
};

// Calls f(lane) for each lane of the mask.
template <class F>
inline void ForLanes(LaneMask mask, const F& f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_WARP_H_
