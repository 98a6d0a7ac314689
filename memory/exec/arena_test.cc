#include "memory/exec/arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

constexpr int64_t kUnit = 256;

// An arena of `units` units on a device of its own, and short ways to use it.
class ArenaTest : public testing::Test {
 protected:
  void Make(int64_t memory_bytes, bool scribble = false) {
    arena_.reset();
    auto device = HostDevice::Create({.memory_bytes = memory_bytes});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto arena = Arena::Create(device_.get(), {.scribble_freed = scribble});
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
  }
  BlockId Units(int64_t units, End end,
                Category category = Category::kActivations) {
    auto block = arena_->Allocate(units * kUnit, category, end, "test");
    EXPECT_TRUE(block.ok()) << block.status();
    EXPECT_TRUE(arena_->CheckConsistency().ok()) << arena_->CheckConsistency();
    return *block;
  }
  BlockId Low(int64_t units) { return Units(units, End::kLow); }
  BlockId High(int64_t units) { return Units(units, End::kHigh); }
  int64_t UnitOf(BlockId block) {
    return (static_cast<std::byte*>(arena_->Pointer(block)) -
            device_->memory()) /
           kUnit;
  }
  void Fill(BlockId block, char value) {
    device_->Wait(StreamId::kCompute, arena_->WaitToWrite(block), 0);
    void* const data = arena_->Pointer(block);
    const int64_t bytes = arena_->Bytes(block);
    arena_->NoteWrite(
        block, device_->Enqueue(StreamId::kCompute, 0,
                                [data, bytes, value](const ExecContext&) {
                                  std::memset(data, value, bytes);
                                  return absl::OkStatus();
                                }));
  }
  std::string Read(BlockId block) {
    std::string bytes(arena_->Bytes(block), '?');
    device_->Wait(StreamId::kDeviceToHost, arena_->WaitToRead(block), 0);
    const Fence read =
        device_->Copy(StreamId::kDeviceToHost, 0, bytes.data(),
                      arena_->Pointer(block), arena_->Bytes(block));
    arena_->NoteRead(block, read);
    EXPECT_TRUE(device_->Synchronize(read).ok());
    return bytes;
  }
  // Holds `stream` until open_ is set.
  Fence Hold(StreamId stream) {
    return device_->Enqueue(stream, 0, [this](const ExecContext&) {
      while (!open_.load()) std::this_thread::yield();
      return absl::OkStatus();
    });
  }

  std::atomic<bool> open_{false};
  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
};

TEST_F(ArenaTest, EndsGrowTowardsEachOther) {
  Make(10 * kUnit);
  EXPECT_EQ(UnitOf(Low(2)), 0);
  EXPECT_EQ(UnitOf(High(3)), 7);
  EXPECT_EQ(UnitOf(Low(1)), 2);
  EXPECT_EQ(UnitOf(High(1)), 6);
  EXPECT_EQ(arena_->LargestHoleBytes(), 3 * kUnit);
  EXPECT_EQ(arena_->free_bytes(), 3 * kUnit);
}

TEST_F(ArenaTest, RoundsSizesUpAndCapacityDown) {
  Make(4 * kUnit + 255);
  EXPECT_EQ(arena_->capacity_bytes(), 4 * kUnit);
  auto zero = arena_->Allocate(0, Category::kStaging, End::kLow, "zero");
  auto one = arena_->Allocate(1, Category::kStaging, End::kLow, "one");
  auto more = arena_->Allocate(257, Category::kStaging, End::kLow, "more");
  ASSERT_TRUE(zero.ok() && one.ok() && more.ok());
  EXPECT_EQ(arena_->Bytes(*zero), kUnit);
  EXPECT_EQ(arena_->Bytes(*one), kUnit);
  EXPECT_EQ(arena_->Bytes(*more), 2 * kUnit);
  EXPECT_NE(arena_->Pointer(*zero), arena_->Pointer(*one));
  EXPECT_EQ(arena_->free_bytes(), 0);
  EXPECT_EQ(arena_->Owner(*more), "more");
}

TEST_F(ArenaTest, FillsToTheLastUnitAndThenRefusesWithFigures) {
  Make(8 * kUnit);
  Low(5);
  const BlockId high = High(2);
  auto refused =
      arena_->Allocate(2 * kUnit, Category::kWorkspace, End::kHigh, "attn");
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  for (const char* part :
       {"device", "attn", "workspace", "wants 512", "free 256 of 2048",
        "largest hole 256", "activations 1.75 KiB", "at least 2304 bytes"}) {
    EXPECT_TRUE(absl::StrContains(refused.status().message(), part))
        << part << " in: " << refused.status();
  }
  High(1);
  EXPECT_EQ(arena_->free_bytes(), 0);
  EXPECT_FALSE(
      arena_->Allocate(0, Category::kWorkspace, End::kLow, "attn").ok());
  arena_->Free(high);
  EXPECT_EQ(UnitOf(High(2)), 6);
}

TEST_F(ArenaTest, RefusesSizesThatNoArenaHas) {
  Make(8 * kUnit);
  EXPECT_TRUE(absl::IsInvalidArgument(
      arena_->Allocate(-1, Category::kStaging, End::kLow, "x").status()));
  EXPECT_TRUE(absl::IsResourceExhausted(
      arena_->Allocate(INT64_MAX, Category::kStaging, End::kLow, "x")
          .status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Arena::Create(nullptr).status()));
}

TEST_F(ArenaTest, DeviceWithoutMemoryGivesNothing) {
  for (int64_t bytes : {0, 255}) {
    Make(bytes);
    EXPECT_TRUE(arena_->CheckConsistency().ok());
    EXPECT_TRUE(absl::IsResourceExhausted(
        arena_->Allocate(0, Category::kStaging, End::kLow, "x").status()));
  }
}

TEST_F(ArenaTest, FreshBlockWaitsForTheSegmentsItTakesAndNoOthers) {
  Make(4 * kUnit);
  const BlockId a = Low(2), b = Low(2);
  const Fence use_of_a = Hold(StreamId::kHostToDevice);
  const Fence use_of_b = Hold(StreamId::kDeviceToHost);
  arena_->NoteRead(a, use_of_a);
  arena_->NoteWrite(b, use_of_b);
  arena_->Free(a);
  arena_->Free(b);
  const BlockId first = Low(1);
  EXPECT_EQ(arena_->WaitToWrite(first), use_of_a);
  EXPECT_EQ(arena_->WaitToRead(first), use_of_a);
  const BlockId second = Low(2);
  Fence both = use_of_a;
  both.Add(use_of_b);
  EXPECT_EQ(arena_->WaitToWrite(second), both);
  EXPECT_EQ(arena_->WaitToWrite(Low(1)), use_of_b);
  // A block that was taken and never used passes on the fences that it waited
  // for.
  arena_->Free(second);
  EXPECT_EQ(arena_->WaitToWrite(Low(2)), both);
  open_ = true;
}

TEST_F(ArenaTest, ReadersWaitForWritesAndWritersForAll) {
  Make(4 * kUnit);
  const BlockId block = Low(1);
  arena_->NoteWrite(block, Fence(StreamId::kCompute, 5));
  arena_->NoteRead(block, Fence(StreamId::kDeviceToHost, 3));
  EXPECT_EQ(arena_->WaitToRead(block), Fence(StreamId::kCompute, 5));
  Fence all(StreamId::kCompute, 5);
  all.Add(StreamId::kDeviceToHost, 3);
  EXPECT_EQ(arena_->WaitToWrite(block), all);
}

TEST_F(ArenaTest, LowEndPrefersHolesWhoseFencesAreReached) {
  Make(6 * kUnit);
  const BlockId busy = Low(2);
  Low(1);
  arena_->NoteRead(busy, Hold(StreamId::kCompute));
  arena_->Free(busy);
  EXPECT_EQ(UnitOf(Low(2)), 3);
  // Nothing else is left: the busy hole.
  EXPECT_EQ(UnitOf(Low(2)), 0);
  open_ = true;
}

TEST_F(ArenaTest, HighEndTakesComputesOwnPastBeforeACopys) {
  Make(6 * kUnit);
  const BlockId copied = High(1);
  High(1);
  const BlockId computed = High(1);
  High(1);
  arena_->NoteRead(copied, Hold(StreamId::kDeviceToHost));
  arena_->NoteRead(computed, Hold(StreamId::kCompute));
  arena_->Free(copied);
  arena_->Free(computed);
  EXPECT_EQ(UnitOf(High(1)), 3);
  EXPECT_EQ(UnitOf(High(1)), 1);
  EXPECT_EQ(UnitOf(High(1)), 0);
  EXPECT_EQ(UnitOf(High(1)), 5);
  open_ = true;
}

TEST_F(ArenaTest, ABlockGetsItsPlannedPlace) {
  Make(8 * kUnit);
  const auto at = [&](int64_t unit, int64_t units) {
    auto block = arena_->Allocate(units * kUnit, Category::kActivations,
                                  End::kLow, "planned", unit * kUnit);
    EXPECT_TRUE(block.ok()) << block.status();
    EXPECT_TRUE(arena_->CheckConsistency().ok()) << arena_->CheckConsistency();
    return *block;
  };
  const BlockId two = at(2, 2), six = at(6, 1);
  EXPECT_EQ(UnitOf(two), 2);
  EXPECT_EQ(arena_->Offset(six), 6 * kUnit);
  // It waits for the last use of its bytes, which first fit would avoid.
  const Fence held = Hold(StreamId::kDeviceToHost);
  arena_->NoteRead(six, held);
  arena_->Free(six);
  const BlockId again = at(5, 3);
  EXPECT_EQ(UnitOf(again), 5);
  EXPECT_EQ(arena_->WaitToWrite(again), held);
  EXPECT_EQ(arena_->stats().placed_as_planned, 3);
  EXPECT_EQ(arena_->stats().misplaced, 0);
  // Some of its bytes are another block's, or beyond the end: it is misplaced.
  EXPECT_EQ(UnitOf(at(3, 2)), 0);
  EXPECT_EQ(UnitOf(at(8, 1)), 4);
  EXPECT_EQ(arena_->stats().misplaced, 2);
  EXPECT_EQ(arena_->stats().compactions, 0);
  open_ = true;
}

TEST_F(ArenaTest, BlocksMoveAsideWhenNoHoleFits) {
  // L0 . L2 . . H5 . H7: 4 free units, the largest hole has 2.
  Make(8 * kUnit);
  const BlockId l0 = Low(1), gap1 = Low(1), l2 = Low(1);
  const BlockId h7 = High(1), gap6 = High(1), h5 = High(1);
  Fill(l0, '0');
  Fill(l2, '2');
  Fill(h5, '5');
  Fill(h7, '7');
  arena_->Free(gap1);
  arena_->Free(gap6);
  // Three units: moving either of L2 and H5 does.
  const BlockId three = Low(3);
  EXPECT_EQ(arena_->stats().compactions, 1);
  EXPECT_EQ(arena_->stats().moved_bytes, kUnit);
  arena_->Free(three);
  // Four: low blocks have slid down, high ones up.
  const BlockId four = High(4);
  EXPECT_EQ(arena_->stats().compactions, 2);
  EXPECT_EQ(arena_->stats().moved_bytes, 2 * kUnit);
  EXPECT_EQ(UnitOf(l0), 0);
  EXPECT_EQ(UnitOf(l2), 1);
  EXPECT_EQ(UnitOf(four), 2);
  EXPECT_EQ(UnitOf(h5), 6);
  EXPECT_EQ(UnitOf(h7), 7);
  Fill(four, '4');
  EXPECT_EQ(Read(l0), std::string(kUnit, '0'));
  EXPECT_EQ(Read(l2), std::string(kUnit, '2'));
  EXPECT_EQ(Read(four), std::string(4 * kUnit, '4'));
  EXPECT_EQ(Read(h5), std::string(kUnit, '5'));
  EXPECT_EQ(Read(h7), std::string(kUnit, '7'));
}

TEST_F(ArenaTest, CompactionMovesTheFewestBytes) {
  // . . [5 units] . . [1 unit] . : three units are to be had by moving one.
  Make(11 * kUnit);
  const BlockId gap0 = Low(2), large = Low(5), gap7 = Low(2), small = Low(1);
  Fill(large, 'l');
  Fill(small, 's');
  arena_->Free(gap0);
  arena_->Free(gap7);
  Low(3);
  EXPECT_EQ(arena_->stats().moved_bytes, kUnit);
  EXPECT_EQ(UnitOf(large), 2);
  EXPECT_EQ(Read(large), std::string(5 * kUnit, 'l'));
  EXPECT_EQ(Read(small), std::string(kUnit, 's'));
}

TEST_F(ArenaTest, MoveOntoItselfKeepsTheBytes) {
  // A block that slides by less than its own size, down and up.
  for (End end : {End::kLow, End::kHigh}) {
    Make(8 * kUnit);
    const BlockId gap = Units(1, end), block = Units(5, end);
    Fill(block, 'b');
    arena_->Free(gap);
    Units(3, end);
    EXPECT_EQ(arena_->stats().moved_bytes, 5 * kUnit);
    EXPECT_EQ(UnitOf(block), end == End::kLow ? 0 : 3);
    EXPECT_EQ(Read(block), std::string(5 * kUnit, 'b'));
  }
}

TEST_F(ArenaTest, MoveWaitsForUnfinishedUses) {
  Make(4 * kUnit);
  const BlockId gap = Low(1), block = Low(2);
  // A slow writer on another stream, which holds the block's old address.
  Hold(StreamId::kHostToDevice);
  void* const data = arena_->Pointer(block);
  arena_->NoteWrite(block, device_->Enqueue(StreamId::kHostToDevice, 0,
                                            [data](const ExecContext&) {
                                              std::memset(data, 'w', 2 * kUnit);
                                              return absl::OkStatus();
                                            }));
  arena_->Free(gap);
  const BlockId taker = Low(2);  // returns at once, moves later
  EXPECT_EQ(UnitOf(block), 0);
  EXPECT_FALSE(device_->Reached(arena_->WaitToRead(block)));
  Fill(taker, 't');
  open_ = true;
  EXPECT_EQ(Read(block), std::string(2 * kUnit, 'w'));
  EXPECT_EQ(Read(taker), std::string(2 * kUnit, 't'));
}

TEST_F(ArenaTest, CategoriesSumUpWhereABlockIsSplit) {
  Make(16 * kUnit);
  const BlockId payload = Units(10, End::kLow, Category::kParameters);
  const BlockId states = Units(4, End::kLow, Category::kOptimizerStates);
  arena_->SetSplit(payload, Category::kParameters, Category::kGradients, 1000);
  const ArenaStats& stats = arena_->stats();
  EXPECT_EQ(stats.used[Category::kParameters], 1560);
  EXPECT_EQ(stats.used[Category::kGradients], 1000);
  EXPECT_EQ(stats.used[Category::kOptimizerStates], 4 * kUnit);
  EXPECT_EQ(stats.used_bytes, 14 * kUnit);
  EXPECT_TRUE(arena_->CheckConsistency().ok());
  arena_->SetSplit(payload, Category::kParameters, Category::kGradients,
                   10 * kUnit);
  EXPECT_EQ(stats.used[Category::kParameters], 0);
  EXPECT_EQ(stats.used[Category::kGradients], 10 * kUnit);
  EXPECT_EQ(stats.transient_bytes, 0);
  arena_->Free(payload);
  arena_->Free(states);
  EXPECT_EQ(stats.used, BytesByCategory());
  EXPECT_TRUE(arena_->CheckConsistency().ok());
}

TEST_F(ArenaTest, PeaksAreExact) {
  Make(16 * kUnit);
  const ArenaStats& stats = arena_->stats();
  Units(3, End::kLow, Category::kParameters);
  const BlockId work = Units(4, End::kHigh, Category::kWorkspace);
  Units(1, End::kLow, Category::kStaging);
  arena_->Free(work);
  High(2);
  EXPECT_EQ(stats.peak_bytes, 8 * kUnit);
  EXPECT_EQ(stats.used_at_peak[Category::kParameters], 3 * kUnit);
  EXPECT_EQ(stats.used_at_peak[Category::kWorkspace], 4 * kUnit);
  EXPECT_EQ(stats.used_at_peak[Category::kActivations], 0);
  EXPECT_EQ(stats.transient_bytes, 2 * kUnit);
  arena_->Free(Units(1, End::kHigh, Category::kWorkspace));
  EXPECT_EQ(stats.peak_bytes, 8 * kUnit);
}

TEST_F(ArenaTest, ScribblesOverWhatIsFree) {
  Make(6 * kUnit, /*scribble=*/true);
  const BlockId gap = Low(1), block = Low(2);
  EXPECT_EQ(Read(gap), std::string(kUnit, '\xFF'));  // never written
  Fill(block, 'b');
  Fill(gap, 'g');
  arena_->Free(gap);
  const BlockId taker = Low(4);  // moves `block`, takes what it has left
  EXPECT_EQ(arena_->stats().moved_bytes, 2 * kUnit);
  EXPECT_EQ(Read(block), std::string(2 * kUnit, 'b'));
  EXPECT_EQ(Read(taker), std::string(4 * kUnit, '\xFF'));
}

TEST_F(ArenaTest, UseAfterFreeIsCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Make(4 * kUnit);
  const BlockId block = Low(1);
  arena_->Free(block);
  const BlockId next = Low(1);  // the same slot, another block
  EXPECT_NE(block, next);
  EXPECT_DEATH(arena_->Pointer(block), "broken invariant");
  EXPECT_DEATH(arena_->Free(block), "broken invariant");
  EXPECT_DEATH(arena_->Pointer(BlockId()), "broken invariant");
}

TEST_F(ArenaTest, CountsWhatIsClaimedElsewhere) {
  Make(8 * kUnit);
  const BlockId first = Units(2, End::kLow, Category::kParameters);
  const BlockId second = Units(2, End::kLow, Category::kParameters);
  EXPECT_FALSE(arena_->Claim(4 * kUnit + 1));
  EXPECT_EQ(arena_->claimed_bytes(), 0);
  ASSERT_TRUE(arena_->Claim(3 * kUnit + 1));
  EXPECT_TRUE(arena_->CheckConsistency().ok()) << arena_->CheckConsistency();
  EXPECT_EQ(arena_->stats().used_bytes, 7 * kUnit + 1);
  EXPECT_EQ(arena_->stats().used[Category::kActivations], 3 * kUnit + 1);
  // Addresses are free, bytes are not.
  EXPECT_EQ(arena_->LargestHoleBytes(), 4 * kUnit);
  EXPECT_FALSE(
      arena_->Allocate(kUnit, Category::kParameters, End::kLow, "test").ok());
  arena_->Free(first);
  const BlockId third = Low(2);
  arena_->Unclaim(3 * kUnit + 1);
  arena_->Free(second);
  arena_->Free(third);
  EXPECT_EQ(arena_->stats().used_bytes, 0);
  EXPECT_EQ(arena_->stats().peak_bytes, 7 * kUnit + 1);
}

TEST_F(ArenaTest, ResizesMovingBlocksThatLieBehindANearerEnd) {
  auto device = HostDevice::Create(
      {.memory_bytes = 8 * kUnit, .most_memory_bytes = 1 << 20});
  ASSERT_TRUE(device.ok()) << device.status();
  device_ = *std::move(device);
  auto arena = Arena::Create(device_.get(), {.scribble_freed = true});
  ASSERT_TRUE(arena.ok()) << arena.status();
  arena_ = *std::move(arena);
  const BlockId low = Low(2);
  const BlockId high = High(3);
  Fill(low, 'l');
  Fill(high, 'h');
  const void* const base = device_->memory();
  // This is too small for the blocks that are there.
  EXPECT_TRUE(absl::IsResourceExhausted(arena_->Resize(5 * kUnit - 1)));
  EXPECT_EQ(arena_->capacity_bytes(), 8 * kUnit);
  ASSERT_TRUE(arena_->Resize(5 * kUnit + 17).ok());
  EXPECT_TRUE(arena_->CheckConsistency().ok()) << arena_->CheckConsistency();
  EXPECT_EQ(device_->memory_bytes(), 5 * kUnit + 17);
  EXPECT_EQ(device_->memory(), base);
  EXPECT_EQ(arena_->capacity_bytes(), 5 * kUnit);
  EXPECT_EQ(UnitOf(high), 2);
  EXPECT_EQ(Read(low), std::string(2 * kUnit, 'l'));
  EXPECT_EQ(Read(high), std::string(3 * kUnit, 'h'));
  EXPECT_FALSE(arena_->Allocate(1, Category::kWorkspace, End::kHigh, "t").ok());
  // More than there was at first.
  ASSERT_TRUE(arena_->Resize(100 * kUnit).ok());
  EXPECT_TRUE(arena_->CheckConsistency().ok()) << arena_->CheckConsistency();
  const BlockId large = Low(95);
  Fill(large, 'x');
  EXPECT_EQ(Read(large), std::string(95 * kUnit, 'x'));
  EXPECT_EQ(Read(high), std::string(3 * kUnit, 'h'));
  EXPECT_EQ(arena_->stats().peak_in_budget, 100 * kUnit);
  arena_->Free(large);
  ASSERT_TRUE(arena_->Resize(6 * kUnit).ok());
  EXPECT_EQ(arena_->stats().peak_bytes, 100 * kUnit);
  EXPECT_EQ(arena_->stats().peak_in_budget, 5 * kUnit);
  // No more than addresses are kept for.
  EXPECT_TRUE(absl::IsResourceExhausted(arena_->Resize(int64_t{2} << 20)));
  EXPECT_EQ(arena_->capacity_bytes(), 6 * kUnit);
  // The end is lent.
  ASSERT_TRUE(arena_->GrowTop(kUnit).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(arena_->Resize(8 * kUnit)));
}

}  // namespace
}  // namespace castor
