// Long random sequences on an arena against a naive model of it: sums, the
// exact condition of failure, and what every block holds, written and read by
// work on several streams that is ordered by the arena's fences alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/units.h"
#include "device/host/host_device.h"
#include "memory/exec/arena.h"
#include "memory/plan/plan.h"

namespace castor {
namespace {

struct Case {
  uint32_t seed;
  int64_t memory_bytes;
  int64_t largest_bytes;
  bool scribble;
};

struct ModelBlock {
  BlockId id;
  int64_t bytes = 0;  // rounded
  Category a, b;
  int64_t bytes_of_b = 0;
  uint64_t pattern = 0;  // 0: not written yet
};

uint64_t Word(uint64_t pattern, int64_t i) {
  return pattern * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(i) * 0xD1B54A3Fu;
}

class RandomArena : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& c = GetParam();
    random_.seed(c.seed);
    auto device = HostDevice::Create({.memory_bytes = c.memory_bytes});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto arena = Arena::Create(device_.get(), {.scribble_freed = c.scribble});
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
  }
  int64_t Random(int64_t below) {
    return std::uniform_int_distribution<int64_t>(0, below - 1)(random_);
  }
  Category RandomCategory() {
    return static_cast<Category>(Random(kNumCategories));
  }
  // Some work is slow, so that fences are often not reached yet.
  int RandomDelay() { return Random(16) == 0 ? 50 : 0; }

  void Write(ModelBlock& block) {
    const StreamId stream = static_cast<StreamId>(Random(kNumStreams));
    block.pattern = ++last_pattern_;
    device_->Wait(stream, arena_->WaitToWrite(block.id), 0);
    uint64_t* const data = static_cast<uint64_t*>(arena_->Pointer(block.id));
    arena_->NoteWrite(
        block.id, device_->Enqueue(
                      stream, 0,
                      [data, words = block.bytes / 8, pattern = block.pattern,
                       delay = RandomDelay()](const ExecContext&) {
                        for (int i = 0; i < delay; ++i) {
                          std::this_thread::yield();
                        }
                        for (int64_t i = 0; i < words; ++i) {
                          data[i] = Word(pattern, i);
                        }
                        return absl::OkStatus();
                      }));
  }

  void Verify(const ModelBlock& block) {
    if (block.pattern == 0) return;
    const StreamId stream = static_cast<StreamId>(Random(kNumStreams));
    device_->Wait(stream, arena_->WaitToRead(block.id), 0);
    const uint64_t* const data =
        static_cast<const uint64_t*>(arena_->Pointer(block.id));
    arena_->NoteRead(
        block.id, device_->Enqueue(stream, 0,
                                   [this, data, words = block.bytes / 8,
                                    pattern = block.pattern,
                                    delay = RandomDelay()](const ExecContext&) {
                                     for (int i = 0; i < delay; ++i) {
                                       std::this_thread::yield();
                                     }
                                     int64_t wrong = 0;
                                     for (int64_t i = 0; i < words; ++i) {
                                       wrong += data[i] != Word(pattern, i);
                                     }
                                     wrong_words_ += wrong;
                                     return absl::OkStatus();
                                   }));
  }

  void CheckSums() {
    ASSERT_TRUE(arena_->CheckConsistency().ok()) << arena_->CheckConsistency();
    BytesByCategory used;
    int64_t transient = 0;
    std::map<std::byte*, int64_t> extents;
    used[Category::kActivations] = transient = arena_->top_bytes();
    for (const ModelBlock& block : blocks_) {
      const int64_t of_a = block.bytes - block.bytes_of_b;
      used[block.a] += of_a;
      used[block.b] += block.bytes_of_b;
      transient += IsTransient(block.a) ? of_a : 0;
      transient += IsTransient(block.b) ? block.bytes_of_b : 0;
      extents[static_cast<std::byte*>(arena_->Pointer(block.id))] = block.bytes;
    }
    ASSERT_EQ(used, arena_->stats().used);
    ASSERT_EQ(used.Sum(), arena_->stats().used_bytes);
    ASSERT_EQ(transient, arena_->stats().transient_bytes);
    ASSERT_EQ(peak_, arena_->stats().peak_bytes);
    ASSERT_EQ(peak_, arena_->stats().used_at_peak.Sum());
    ASSERT_LE(peak_, device_->memory_bytes());
    // No two blocks overlap, none lies outside of the device's memory.
    ASSERT_EQ(extents.size(), blocks_.size());
    std::byte* at = device_->memory();
    for (const auto& [begin, bytes] : extents) {
      ASSERT_GE(begin, at);
      at = begin + bytes;
    }
    ASSERT_LE(
        at, device_->memory() + arena_->capacity_bytes() - arena_->top_bytes());
  }

  // Makes the top larger or smaller. Its owner writes to all of it.
  void ResizeTop() {
    const int64_t top = arena_->top_bytes();
    const int64_t bytes =
        RoundUp(Random(arena_->capacity_bytes() / 2), kBlockAlignment);
    if (bytes <= top) {
      arena_->ShrinkTop(bytes, top_written_);
      used_ -= top - bytes;
      return;
    }
    const ModelBlock* held = nullptr;
    if (Random(4) == 0 && !blocks_.empty()) {
      held = &blocks_[Random(blocks_.size())];
      arena_->Hold(held->id);
    }
    const void* const before =
        held == nullptr ? nullptr : arena_->Pointer(held->id);
    const auto ready = arena_->GrowTop(bytes);
    if (held != nullptr) {
      ASSERT_EQ(arena_->Pointer(held->id), before);
      arena_->LetGo(held->id);
    }
    if (!ready.ok()) {
      const bool fits = bytes - top <= arena_->free_bytes();
      ASSERT_EQ(absl::IsResourceExhausted(ready.status()), !fits);
      ASSERT_TRUE(!fits || held != nullptr) << ready.status();
      ASSERT_EQ(arena_->top_bytes(), top);
      return;
    }
    ++grown_;
    used_ += bytes - top;
    peak_ = std::max(peak_, used_);
    const StreamId stream = static_cast<StreamId>(Random(kNumStreams));
    device_->Wait(stream, *ready, 0);
    top_written_.Add(device_->Fill(
        stream, 0, device_->memory() + arena_->capacity_bytes() - bytes, 0x55,
        bytes - top));
  }

  std::mt19937 random_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
  std::vector<ModelBlock> blocks_;
  uint64_t last_pattern_ = 0;
  int64_t used_ = 0, peak_ = 0;
  int64_t grown_ = 0;  // how often the top was
  Fence top_written_;
  std::atomic<int64_t> wrong_words_{0};
};

TEST_P(RandomArena, AgreesWithANaiveModel) {
  const Case& c = GetParam();
  SCOPED_TRACE(testing::Message() << "seed " << c.seed);
  const int64_t capacity = c.memory_bytes / kBlockAlignment * kBlockAlignment;
  int refused = 0, placed = 0;
  for (int step = 0; step < 6000; ++step) {
    const int64_t what = Random(100);
    if (what < 40) {
      // Often small, sometimes just what is free or one byte too many.
      int64_t bytes = Random(8) == 0 ? Random(c.largest_bytes * 8)
                                     : Random(c.largest_bytes);
      if (Random(20) == 0) bytes = capacity - used_ + Random(2);
      const int64_t rounded =
          std::max<int64_t>(kBlockAlignment, RoundUp(bytes, kBlockAlignment));
      const Category category = RandomCategory();
      auto id = arena_->Allocate(bytes, category,
                                 Random(2) == 0 ? End::kLow : End::kHigh, "x");
      ASSERT_EQ(id.ok(), used_ + rounded <= capacity)
          << "step " << step << ": " << bytes << " bytes, used " << used_;
      if (!id.ok()) {
        ASSERT_TRUE(absl::IsResourceExhausted(id.status()));
        ++refused;
        continue;
      }
      ++placed;
      used_ += rounded;
      peak_ = std::max(peak_, used_);
      blocks_.push_back({*id, rounded, category, category, 0, 0});
      ASSERT_EQ(arena_->Bytes(*id), rounded);
      if (Random(8) != 0) Write(blocks_.back());
    } else if (!blocks_.empty()) {
      const int64_t index = Random(blocks_.size());
      ModelBlock& block = blocks_[index];
      if (what < 65) {
        Verify(block);
      } else if (what < 72) {
        Write(block);
      } else if (what < 76) {
        block.a = RandomCategory();
        block.b = RandomCategory();
        block.bytes_of_b = Random(block.bytes + 1);
        arena_->SetSplit(block.id, block.a, block.b, block.bytes_of_b);
      } else if (what >= 98) {
        ASSERT_NO_FATAL_FAILURE(ResizeTop());
      } else {
        if (Random(2) == 0) Verify(block);
        arena_->Free(block.id);
        used_ -= block.bytes;
        std::swap(block, blocks_.back());
        blocks_.pop_back();
      }
    }
    ASSERT_EQ(arena_->free_bytes(), capacity - used_);
    if (step % 50 == 0) {
      ASSERT_NO_FATAL_FAILURE(CheckSums());
    }
    if (step % 701 == 0) {
      ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
    }
  }
  for (const ModelBlock& block : blocks_) Verify(block);
  ASSERT_TRUE(device_->Synchronize(device_->NowAll()).ok());
  EXPECT_EQ(wrong_words_.load(), 0);
  // The sequence was worth running.
  EXPECT_GT(placed, 500);
  EXPECT_GT(refused, 50);
  EXPECT_GT(arena_->stats().compactions, 20);
  EXPECT_GT(grown_, 10);
  arena_->ShrinkTop(0, top_written_);
  // Everything given back leaves one hole.
  for (const ModelBlock& block : blocks_) arena_->Free(block.id);
  EXPECT_EQ(arena_->LargestHoleBytes(), capacity);
  EXPECT_EQ(arena_->stats().used, BytesByCategory());
  EXPECT_TRUE(arena_->CheckConsistency().ok());
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, RandomArena,
    testing::Values(Case{1, 64 << 10, 4 << 10, false},
                    Case{2, 64 << 10, 4 << 10, true},
                    Case{3, (100 << 10) + 77, 1 << 10, false},
                    Case{4, 16 << 10, 2 << 10, true},
                    Case{5, 1 << 20, 64 << 10, false},
                    Case{6, (256 << 10) - 1, 32 << 10, true}),
    [](const testing::TestParamInfo<Case>& info) {
      return "Seed" + std::to_string(info.param.seed);
    });

}  // namespace
}  // namespace castor
