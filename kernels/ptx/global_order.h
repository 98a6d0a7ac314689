// Tracks the order of accesses to global memory by the threads of a launch. Two
// accesses of one place by different threads, one of which writes, are a race,
// whatever the values and the order in which the machine runs blocks, unless
// between them is
//
//   * a barrier of their block, or one of their warp, or
//   * a chain of releases and acquires from block to block. A thread releases
//     by red.release its own accesses, those of its warp before its lanes met
//     last, and those of its block before its last barrier. A thread acquires
//     them if it reads the released value, or one that atomics made of it, with
//     ld.relaxed or an atomic, followed by a fence.acq_rel; the other lanes of
//     its warp acquire them when they have met, other warps after a barrier.
//
// Atomics, and loads like them, at one place are no race with each other.
//
// Two bytes are the smallest place: accesses of single bytes are not tracked.
#ifndef CASTOR_KERNELS_PTX_GLOBAL_ORDER_H_
#define CASTOR_KERNELS_PTX_GLOBAL_ORDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

inline constexpr int kMostWarps = 32;  // of a block

// A warp's time: from 1 on, one more each time its lanes meet.
using WarpTime = uint32_t;

// The times before which all accesses of threads of the launch are known to
// have happened. Keys are (block * 64 + warp) * 64 + lane; lane kLanes stands
// for the warp, warp kMostWarps for the block, whose time is that of its
// barriers.
using Known = std::unordered_map<uint64_t, WarpTime>;

// The accesses to all places in one launch.
class GlobalOrder {
 public:
  static constexpr int64_t kMostBlocks = (1 << 21) - 1;

 private:
  friend class BlockOrder;

  static constexpr int64_t kGrain = 2;  // bytes
  static constexpr int64_t kPageBytes = 4096;

  // An access to a place: its thread and time.
  struct Visit {
    static constexpr uint32_t kSeveralBlocks = kMostBlocks;
    static constexpr uint32_t kSeveralWarps = kMostWarps;
    static constexpr uint32_t kSeveralLanes = kLanes;

    uint64_t block : 21;
    uint64_t warp : 6;
    uint64_t lane : 6;
    uint64_t atomic : 1;
    uint64_t time : 30;  // 0: no access

    bool operator==(const Visit&) const = default;
  };
  static_assert(sizeof(Visit) == 8);

  // The last write and, since then, the last read of each place.
  struct Page {
    Visit written[kPageBytes / kGrain], read[kPageBytes / kGrain];
  };
  Page& PageOf(uint64_t address);

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_number_ = ~uint64_t{0};
  Page* last_page_ = nullptr;
  // The released knowledge at each address.
  std::unordered_map<uint64_t, Known> released_;
};

// A block's threads.
class BlockOrder {
 public:
  // Makes the order of the launch's block `block`, which has not begun.
  // `launch` outlives it.
  BlockOrder(GlobalOrder* launch, int64_t block);

  // Returns true if a thread's access is no race. `atomic`: it is an atomic, or
  // a load like one.
  bool Touch(uint64_t address, int64_t bytes, int warp, int lane, bool write,
             bool atomic);

  // Notes that the thread has read a value of atomics at an address.
  void Look(uint64_t address, int warp, int lane);
  // Notes a fence, by which the thread acquires what was released at the
  // addresses that it has read.
  void Fence(int warp, int lane);
  void Release(uint64_t address, int warp, int lane);

  // Note that the lanes of a warp, or all threads of the block, have met.
  void MeetInWarp(int warp);
  void Meet();

 private:
  using Visit = GlobalOrder::Visit;

  // Returns true if the thread knows that the visit is over.
  bool Knows(const Visit& visit, int warp, int lane) const;
  bool Knows(uint64_t key, WarpTime time, int warp, int lane) const;
  void NoteRead(Visit* read, const Visit& mine);

  GlobalOrder* const launch_;
  const uint32_t block_;
  WarpTime barriers_ = 1;
  std::array<WarpTime, kMostWarps> time_, at_barrier_;  // of each warp
  // Knowledge of other blocks' work: of all warps, of all lanes of a warp, of
  // one lane (by warp * kLanes + lane), and of that lane after its next fence.
  Known known_;
  std::array<Known, kMostWarps> known_to_warp_;
  std::unordered_map<int, Known> known_to_lane_, seen_;
};

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_GLOBAL_ORDER_H_
