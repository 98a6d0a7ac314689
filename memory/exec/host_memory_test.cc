#include "memory/exec/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/units.h"
#include "memory/plan/plan.h"

namespace castor {
namespace {

std::unique_ptr<HostMemory> Make(int64_t budget_bytes,
                                 int64_t pinned_bytes = 0) {
  auto memory = HostMemory::Create(
      {.budget_bytes = budget_bytes, .pinned_bytes = pinned_bytes});
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

bool IsZero(const HostBlock& block) {
  return std::all_of(block.data(), block.data() + block.size(),
                     [](std::byte b) { return b == std::byte{0}; });
}

TEST(HostMemory, BlocksArePageAlignedAndZero) {
  auto memory = Make(1 << 20);
  for (int64_t bytes : {0, 1, 4096, 5000, 100000}) {
    auto block = memory->Allocate(bytes, Category::kStaging, "test");
    ASSERT_TRUE(block.ok()) << block.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % 4096, 0u);
    EXPECT_EQ(block->size(), bytes);
    EXPECT_FALSE(block->pinned());
    EXPECT_TRUE(IsZero(*block));
    std::memset(block->data(), 1, bytes);
  }
  EXPECT_EQ(memory->stats().used_bytes, 0);
}

TEST(HostMemory, FillsTheBudgetToTheLastByteAndThenRefuses) {
  auto memory = Make(10 * 256);
  auto a = memory->Allocate(7 * 256, Category::kOptimizerStates, "states");
  ASSERT_TRUE(a.ok());
  auto refused = memory->Allocate(3 * 256 + 1, Category::kParameters, "home");
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  for (const char* part :
       {"host", "home", "parameters", "wants 1024", "free 768 of 2560",
        "optimizer states 1.75 KiB", "at least 2816 bytes"}) {
    EXPECT_TRUE(absl::StrContains(refused.status().message(), part))
        << part << " in: " << refused.status();
  }
  auto b = memory->Allocate(3 * 256, Category::kParameters, "home");
  EXPECT_TRUE(b.ok());
  EXPECT_FALSE(memory->Allocate(0, Category::kStaging, "zero").ok());
  EXPECT_FALSE(memory->Allocate(INT64_MAX, Category::kStaging, "all").ok());
  *a = HostBlock();
  EXPECT_TRUE(memory->Allocate(7 * 256, Category::kStaging, "again").ok());
}

TEST(HostMemory, RefusesOptionsThatCannotWork) {
  const auto create = [](int64_t budget, int64_t pinned) {
    return HostMemory::Create({.budget_bytes = budget, .pinned_bytes = pinned})
        .status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(create(-1, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(create(0, -1)));
  EXPECT_TRUE(
      absl::IsInvalidArgument(create(kUnlimitedBytes, kUnlimitedBytes)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Make(100)->Allocate(-1, Category::kStaging, "x").status()));
}

TEST(HostMemory, UnlimitedBudgetIsBoundedByTheSystemAlone) {
  auto memory = Make(kUnlimitedBytes);
  EXPECT_TRUE(memory->Allocate(1 << 20, Category::kStaging, "some").ok());
  auto refused =
      memory->Allocate(int64_t{1} << 59, Category::kStaging, "too much");
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "system"))
      << refused.status();
  EXPECT_EQ(memory->stats().used_bytes, 0);
}

TEST(HostMemory, CountsByCategoryAndKeepsThePeak) {
  auto memory = Make(1 << 20);
  auto a = memory->Allocate(1000, Category::kParameters, "a");
  {
    auto b = memory->Allocate(3000, Category::kOptimizerStates, "b");
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(memory->stats().used_bytes, 1024 + 3072);
  }
  const HostMemoryStats stats = memory->stats();
  EXPECT_EQ(stats.used[Category::kParameters], 1024);
  EXPECT_EQ(stats.used[Category::kOptimizerStates], 0);
  EXPECT_EQ(stats.used_bytes, 1024);
  EXPECT_EQ(stats.peak_bytes, 4096);
  EXPECT_EQ(stats.used_at_peak[Category::kOptimizerStates], 3072);
}

TEST(HostMemory, BlockMovesWithItsBytes) {
  auto memory = Make(1 << 20);
  HostBlock block = *memory->Allocate(100, Category::kStaging, "block");
  std::byte* const data = block.data();
  HostBlock other = std::move(block);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(block.data(), nullptr);  // NOLINT: moved from, on purpose
  HostBlock third = *memory->Allocate(100, Category::kStaging, "third");
  third = std::move(other);  // gives back its own first
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(memory->stats().used_bytes, 256);
  third = HostBlock();
  EXPECT_EQ(memory->stats().used_bytes, 0);
}

TEST(HostMemory, PinnedPoolIsFilledFirstAndNeverGrows) {
  auto memory = Make(1 << 20, 5 * 4096);
  if (!memory->pinned_note().empty()) {
    GTEST_SKIP() << memory->pinned_note();
  }
  EXPECT_EQ(memory->stats().pinned_capacity_bytes, 5 * 4096);
  HostBlock a = *memory->Allocate(2 * 4096, Category::kParameters, "a");
  HostBlock b = *memory->Allocate(4096, Category::kParameters, "b");
  HostBlock c = *memory->Allocate(3 * 4096, Category::kParameters, "c");
  HostBlock d = *memory->Allocate(2 * 4096, Category::kParameters, "d");
  EXPECT_TRUE(a.pinned());
  EXPECT_TRUE(b.pinned());
  EXPECT_FALSE(c.pinned());  // no room for it, but for the next
  EXPECT_TRUE(d.pinned());
  EXPECT_EQ(memory->stats().pinned_used_bytes, 5 * 4096);
  EXPECT_EQ(memory->stats().used_bytes, 8 * 4096);
  // Freed neighbours become one hole, and its bytes are zero again.
  for (HostBlock* block : {&a, &b, &d}) {
    std::memset(block->data(), 1, block->size());
  }
  d = HostBlock();
  a = HostBlock();
  b = HostBlock();
  HostBlock e = *memory->Allocate(5 * 4096, Category::kParameters, "e");
  EXPECT_TRUE(e.pinned());
  EXPECT_TRUE(IsZero(e));
}

TEST(HostMemory, SaysWhyThereIsNoPinnedPool) {
  // Not even root, whom no limit binds, has such an address space.
  auto memory = Make(int64_t{1} << 59, int64_t{1} << 58);
  EXPECT_TRUE(absl::StrContains(memory->pinned_note(), "pinned_memory"))
      << memory->pinned_note();
  EXPECT_EQ(memory->stats().pinned_capacity_bytes, 0);
  auto block = memory->Allocate(4096, Category::kStaging, "block");
  ASSERT_TRUE(block.ok());
  EXPECT_FALSE(block->pinned());
}

TEST(HostMemory, PoolIsCappedByTheBudget) {
  auto memory = Make(4096, int64_t{1} << 58);
  EXPECT_LE(memory->stats().pinned_capacity_bytes, 4096);
}

TEST(HostMemory, RandomSequencesKeepSumsAndContents) {
  const uint32_t seed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr int64_t kBudget = 250'000;
  auto memory = Make(kBudget, 128 << 10);
  std::vector<std::pair<HostBlock, uint8_t>> blocks;
  int64_t used = 0;
  const auto counted = [](int64_t bytes) {
    return std::max<int64_t>(kBlockAlignment, RoundUp(bytes, kBlockAlignment));
  };
  int refused = 0;
  for (int step = 0; step < 4000; ++step) {
    if (random() % 2 == 0) {
      const int64_t bytes = random() % 40'000;
      auto block = memory->Allocate(
          bytes, static_cast<Category>(random() % kNumCategories), "x");
      ASSERT_EQ(block.ok(), used + counted(bytes) <= kBudget);
      if (!block.ok()) {
        ++refused;
        continue;
      }
      ASSERT_TRUE(IsZero(*block));
      const uint8_t value = random() % 255 + 1;
      std::memset(block->data(), value, bytes);
      used += counted(bytes);
      blocks.emplace_back(*std::move(block), value);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto& [block, value] = blocks.back();
      for (int64_t i = 0; i < block.size(); ++i) {
        ASSERT_EQ(static_cast<uint8_t>(block.data()[i]), value);
      }
      used -= counted(block.size());
      blocks.pop_back();
    }
    const HostMemoryStats stats = memory->stats();
    ASSERT_EQ(stats.used_bytes, used);
    ASSERT_EQ(stats.used.Sum(), used);
    ASSERT_LE(stats.pinned_used_bytes, stats.pinned_capacity_bytes);
  }
  EXPECT_GT(refused, 100);
}

TEST(HostMemory, ThreadsShareOneBudget) {
  auto memory = Make(64 * 4096, 16 * 4096);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&memory, thread] {
      for (int i = 0; i < 500; ++i) {
        auto block = memory->Allocate(4096 * (1 + (i + thread) % 4),
                                      Category::kStaging, "thread");
        ASSERT_TRUE(block.ok()) << block.status();
        std::memset(block->data(), thread, block->size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory->stats().used_bytes, 0);
  EXPECT_LE(memory->stats().peak_bytes, 16 * 4096);
}

// Locks up to a limit in all, and up to one in a call, and remembers the
// ranges.
class FakePinner : public HostPinner {
 public:
  explicit FakePinner(int64_t limit_bytes, int64_t call_bytes = kUnlimitedBytes)
      : limit_bytes_(limit_bytes), call_bytes_(call_bytes) {}
  ~FakePinner() override { EXPECT_TRUE(pinned.empty()); }
  absl::Status PinHost(void* data, int64_t bytes) override {
    ++calls;
    if (bytes > call_bytes_) return absl::ResourceExhaustedError("a long call");
    if (bytes + pinned_bytes > limit_bytes_) {
      return absl::ResourceExhaustedError("too much");
    }
    pinned[static_cast<std::byte*>(data)] = bytes;
    pinned_bytes += bytes;
    return absl::OkStatus();
  }
  void UnpinHost(void* data) override {
    const auto it = pinned.find(static_cast<std::byte*>(data));
    ASSERT_TRUE(it != pinned.end());
    pinned_bytes -= it->second;
    pinned.erase(it);
  }
  // Returns true if one call has locked all of the block.
  bool Has(const HostBlock& block) const {
    auto it = pinned.upper_bound(block.data());
    if (it == pinned.begin()) return false;
    --it;
    return block.data() + block.size() <= it->first + it->second;
  }
  std::map<std::byte*, int64_t> pinned;
  int64_t pinned_bytes = 0;
  int calls = 0;

 private:
  const int64_t limit_bytes_, call_bytes_;
};

TEST(HostMemory, ADevicesPinnerLocksThePoolInExactSizeAndUntilTheEnd) {
  FakePinner pinner(1 << 20);
  auto memory = HostMemory::Create(
      {.budget_bytes = 1 << 20, .pinned_bytes = 3 * 4096, .pinner = &pinner});
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(pinner.pinned_bytes, 3 * 4096);
  EXPECT_EQ((*memory)->pinned_note(), "");
  {
    auto block = (*memory)->Allocate(3 * 4096, Category::kParameters, "home");
    ASSERT_TRUE(block.ok());
    EXPECT_EQ(block->data(), pinner.pinned.begin()->first);
    EXPECT_TRUE(block->pinned());
    std::memset(block->data(), 1, block->size());
  }
  // Blocks are zero at first, though a device's pages are never given back.
  auto again = (*memory)->Allocate(3 * 4096, Category::kParameters, "home");
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->pinned());
  EXPECT_TRUE(IsZero(*again));
  *again = HostBlock();
  memory->reset();
  EXPECT_TRUE(pinner.pinned.empty());
}

// Returns the system's flags of the mapping that `data` lies in.
std::string MappingFlags(const void* data) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<uintptr_t>(data);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') {
      here = begin <= at && at < end;
    } else if (here && absl::StartsWith(line, "VmFlags:")) {
      return line + " ";
    }
  }
  return "";
}

// Sees the pages of the pool as the device does that is to lock them.
class LookingPinner : public HostPinner {
 public:
  absl::Status PinHost(void* data, int64_t bytes) override {
    at = data;
    flags = MappingFlags(data);
    std::vector<unsigned char> resident(bytes / 4096);
    EXPECT_EQ(mincore(data, bytes, resident.data()), 0);
    for (const unsigned char page : resident) touched += page & 1;
    return absl::OkStatus();
  }
  void UnpinHost(void*) override {}
  void* at = nullptr;
  std::string flags;
  int touched = 0;
};

TEST(HostMemory, ADeviceLocksHugePagesThatNobodyHasTouched) {
  LookingPinner pinner;
  auto memory = HostMemory::Create(
      {.budget_bytes = 32 << 20, .pinned_bytes = 8 << 20, .pinner = &pinner});
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(pinner.touched, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pinner.at) % (2 << 20), 0u);
  if (MappingFlags(&pinner) == "" ||
      !std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "this system does not say which pages are huge";
  }
  EXPECT_TRUE(absl::StrContains(pinner.flags, " hg ")) << pinner.flags;
}

TEST(HostMemory, LocksInPartsWhatOneCallDoesNot) {
  constexpr int64_t kMiB = 1 << 20;
  FakePinner pinner(1024 * kMiB, /*call_bytes=*/100 * kMiB);
  {
    auto memory = HostMemory::Create({.budget_bytes = 512 * kMiB,
                                      .pinned_bytes = 300 * kMiB + 4096,
                                      .pinner = &pinner});
    ASSERT_TRUE(memory.ok()) << memory.status();
    // 300, 152, then 76 four times.
    EXPECT_EQ(pinner.calls, 6);
    EXPECT_EQ(pinner.pinned.size(), 4u);
    EXPECT_EQ((*memory)->stats().pinned_capacity_bytes, 300 * kMiB + 4096);
    EXPECT_EQ((*memory)->pinned_note(), "");
    // A copy may take at once what one call has locked; parts side by side stay
    // parts, also when their blocks have gone.
    for (int round = 0; round < 2; ++round) {
      std::vector<HostBlock> blocks;
      for (int i = 0; i < 6; ++i) {
        auto block =
            (*memory)->Allocate(50 * kMiB, Category::kParameters, "home");
        ASSERT_TRUE(block.ok()) << block.status();
        EXPECT_EQ(block->pinned(), i < 4);
        EXPECT_EQ(pinner.Has(*block), i < 4);
        blocks.push_back(*std::move(block));
      }
      // The rest of the first part, and no part has room for more of it.
      auto rest = (*memory)->Allocate(26 * kMiB, Category::kParameters, "home");
      ASSERT_TRUE(rest.ok()) << rest.status();
      EXPECT_TRUE(pinner.Has(*rest));
      auto more = (*memory)->Allocate(77 * kMiB, Category::kParameters, "home");
      ASSERT_TRUE(more.ok()) << more.status();
      EXPECT_FALSE(more->pinned());
    }
  }
  EXPECT_TRUE(pinner.pinned.empty());
}

TEST(HostMemory, LocksAsMuchAsItMayAndSaysHowMuch) {
  constexpr int64_t kMiB = 1 << 20;
  FakePinner pinner(230 * kMiB);
  {
    auto memory = HostMemory::Create({.budget_bytes = 512 * kMiB,
                                      .pinned_bytes = 256 * kMiB,
                                      .pinned_home_bytes = 200 * kMiB,
                                      .pinner = &pinner});
    ASSERT_TRUE(memory.ok()) << memory.status();
    // 256 no, 128 yes, 128 no, 64 yes, 64 no, 32 yes, 32 no, 16 no.
    EXPECT_EQ(pinner.pinned_bytes, 224 * kMiB);
    EXPECT_EQ((*memory)->stats().pinned_capacity_bytes, 224 * kMiB);
    for (const char* part :
         {"only 224 MiB of pinned memory", "locking 256 MiB failed (too much",
          "copies of the rest", "small pinned ring", "memory.pinned_memory"}) {
      EXPECT_TRUE(absl::StrContains((*memory)->pinned_note(), part))
          << part << " in: " << (*memory)->pinned_note();
    }
    // Homes keep their share of the pool.
    auto slot = (*memory)->Allocate(25 * kMiB, Category::kStaging, "slot");
    ASSERT_TRUE(slot.ok()) << slot.status();
    EXPECT_FALSE(slot->pinned());
    *slot = HostBlock();
    slot = (*memory)->Allocate(24 * kMiB, Category::kStaging, "slot");
    ASSERT_TRUE(slot.ok()) << slot.status();
    EXPECT_TRUE(slot->pinned());
  }
  EXPECT_TRUE(pinner.pinned.empty());
}

TEST(HostMemory, KeepsThePoolForHomesThatComeLate) {
  FakePinner pinner(1 << 20);
  auto memory = HostMemory::Create({.budget_bytes = 1 << 20,
                                    .pinned_bytes = 3 * 4096,
                                    .pinned_home_bytes = 2 * 4096,
                                    .pinner = &pinner});
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto take = [&](Category category) {
    auto block = (*memory)->Allocate(4096, category, "x");
    EXPECT_TRUE(block.ok()) << block.status();
    return *std::move(block);
  };
  HostBlock slot = take(Category::kStaging);
  EXPECT_TRUE(slot.pinned());
  const HostBlock late_slot = take(Category::kStaging);
  EXPECT_FALSE(late_slot.pinned());
  const HostBlock home = take(Category::kParameters);
  EXPECT_TRUE(home.pinned());
  // Blocks that others than homes have given back, they may have again.
  slot = HostBlock();
  slot = take(Category::kStaging);
  EXPECT_TRUE(slot.pinned());
  const HostBlock last_home = take(Category::kParameters);
  EXPECT_TRUE(last_home.pinned());
  EXPECT_FALSE(take(Category::kParameters).pinned());
}

TEST(HostMemory, SaysOnceWhyADeviceCouldNotLockThePool) {
  FakePinner pinner(4096);
  auto memory = HostMemory::Create(
      {.budget_bytes = 1 << 20, .pinned_bytes = 2 * 4096, .pinner = &pinner});
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (const char* part :
       {"too much", "8.00 KiB", "small pinned ring", "memory.pinned_memory"}) {
    EXPECT_TRUE(absl::StrContains((*memory)->pinned_note(), part))
        << part << " in: " << (*memory)->pinned_note();
  }
  EXPECT_FALSE(absl::StrContains((*memory)->pinned_note(), "GPU"));
  auto block = (*memory)->Allocate(4096, Category::kParameters, "home");
  ASSERT_TRUE(block.ok());
  EXPECT_FALSE(block->pinned());
}

}  // namespace
}  // namespace castor
