// What orders the threads of a launch that touch one place of global memory.
// Two of different threads, of which one writes, are a race whatever the values
// and however the machine happens to run blocks, unless between them lies
//
//   * a barrier of their block, or one of their warp, or
//   * a chain of releases and acquires from block to block: what a thread did,
//     its warp before its lanes met last, and its block before its last
//     barrier, is known to whoever reads the value that the thread's
//     red.release has left, or one that atomics made of it, with ld.relaxed or
//     an atomic, and has a fence.acq_rel behind it; to the other lanes of his
//     warp when they have met, to other warps behind a barrier.
//
// Atomics, and loads like them, at one place are no race with each other.
//
// Two bytes are the smallest place: accesses of single bytes are not watched.
#ifndef CASTOR_KERNELS_PTX_GLOBAL_ORDER_H_
#define CASTOR_KERNELS_PTX_GLOBAL_ORDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

inline constexpr int kMostWarps = 32;  // of a block

// How far a warp has come: from 1 on, one more wherever its lanes meet.
using WarpTime = uint32_t;

// What is known to have happened: all that threads of the launch did before a
// time. Keys are (block * 64 + warp) * 64 + lane; lane kLanes stands for the
// warp, warp kMostWarps for the block, whose time is that of its barriers.
using Known = std::unordered_map<uint64_t, WarpTime>;

// Who touched which place, in one launch.
class GlobalOrder {
 public:
  static constexpr int64_t kMostBlocks = (1 << 21) - 1;

 private:
  friend class BlockOrder;

  static constexpr int64_t kGrain = 2;  // bytes
  static constexpr int64_t kPageBytes = 4096;

  // Who was at a place, and when.
  struct Visit {
    static constexpr uint32_t kSeveralBlocks = kMostBlocks;
    static constexpr uint32_t kSeveralWarps = kMostWarps;
    static constexpr uint32_t kSeveralLanes = kLanes;

    uint64_t block : 21;
    uint64_t warp : 6;
    uint64_t lane : 6;
    uint64_t atomic : 1;
    uint64_t time : 30;  // 0: nobody was

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
  // What those have left who released at an address.
  std::unordered_map<uint64_t, Known> released_;
};

// A block's threads.
class BlockOrder {
 public:
  // `launch` outlives this. BlockOrder is for the launch's block `block`, which
  // has not begun.
  BlockOrder(GlobalOrder* launch, int64_t block);

  // Whether a thread's access, of an atomic or a load like one or of another
  // instruction, is no race.
  bool Touch(uint64_t address, int64_t bytes, int warp, int lane, bool write,
             bool atomic);

  // The thread has read what atomics left at an address ...
  void Look(uint64_t address, int warp, int lane);
  // ... and knows behind a fence what those knew who released it.
  void Fence(int warp, int lane);
  void Release(uint64_t address, int warp, int lane);

  // The lanes of a warp, or all threads, have met.
  void MeetInWarp(int warp);
  void Meet();

 private:
  using Visit = GlobalOrder::Visit;

  // Whether the thread knows that the visit is over.
  bool Knows(const Visit& visit, int warp, int lane) const;
  bool Knows(uint64_t key, WarpTime time, int warp, int lane) const;
  void NoteRead(Visit* read, const Visit& mine);

  GlobalOrder* const launch_;
  const uint32_t block_;
  WarpTime barriers_ = 1;
  std::array<WarpTime, kMostWarps> time_, at_barrier_;  // of each warp
  // These say how far the work of other blocks is known: to all warps, to a
  // warp's lanes besides, to one of its lanes (by warp * kLanes + lane), and to
  // that lane behind its next fence.
  Known known_;
  std::array<Known, kMostWarps> known_to_warp_;
  std::unordered_map<int, Known> known_to_lane_, seen_;
};

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_GLOBAL_ORDER_H_
