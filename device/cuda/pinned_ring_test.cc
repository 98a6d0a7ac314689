#include "device/cuda/pinned_ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/sanitizers.h"
#include "base/thread_pool.h"
#include "device/cuda/fake_api.h"

namespace castor::cuda {
namespace {

TEST(PinnedRing, CarriesSizesAroundItsPieces) {
  constexpr int kPieces = 3;
  constexpr int64_t kPiece = 1000;
  FakeApi api({.jitter_ns = 50'000});
  ThreadPool copiers(1);
  {
    auto stream = api.CreateStream(false);
    auto ring = PinnedRing::Create(&api, kPieces, kPiece, &copiers);
    ASSERT_TRUE(stream.ok() && ring.ok());
    for (int64_t bytes : {1, 999, 1000, 1001, 2999, 3000, 3001, 10'007}) {
      SCOPED_TRACE(bytes);
      std::vector<uint8_t> sent(bytes), device(bytes), got(bytes);
      for (int64_t i = 0; i < bytes; ++i) sent[i] = i * 7 + i / 256;
      ASSERT_TRUE(
          (*ring)->FromHost(device.data(), sent.data(), bytes, *stream).ok());
      std::vector<uint8_t> expected = sent;
      // It was read: what the host does with it now does not matter.
      std::fill(sent.begin(), sent.end(), 0xEE);
      ASSERT_TRUE(
          (*ring)->ToHost(got.data(), device.data(), bytes, *stream).ok());
      EXPECT_EQ(got, expected);
    }
    ring->reset();
    api.DestroyStream(*stream);
  }
  EXPECT_EQ(api.live_objects(), 0);
}

int64_t PageFaultsOfThisThread() {
  rusage usage{};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_minflt;
}

// Pages that nobody has touched: the thread that writes one first has a fault.
class FreshPages {
 public:
  explicit FreshPages(int64_t bytes) : bytes_(bytes) {
    void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(data, MAP_FAILED);
    data_ = static_cast<uint8_t*>(data);
    madvise(data, bytes, MADV_NOHUGEPAGE);
  }
  ~FreshPages() { munmap(data_, bytes_); }
  FreshPages(const FreshPages&) = delete;
  FreshPages& operator=(const FreshPages&) = delete;
  uint8_t* data() { return data_; }

 private:
  const int64_t bytes_;
  uint8_t* data_ = nullptr;
};

TEST(PinnedRing, ManyThreadsFillAndEmptyItsPieces) {
  constexpr int64_t kBytes = (int64_t{9} << 20) + 12'345;
  FakeApi api;
  ThreadPool copiers(3);
  ASSERT_TRUE(copiers.status().ok());
  auto stream = api.CreateStream(false);
  auto ring = PinnedRing::Create(&api, 4, int64_t{1} << 20, &copiers);
  ASSERT_TRUE(stream.ok() && ring.ok());
  std::vector<uint8_t> sent(kBytes), device(kBytes);
  for (int64_t i = 0; i < kBytes; ++i) sent[i] = i * 7 + i / 256;
  ASSERT_TRUE(
      (*ring)->FromHost(device.data(), sent.data(), kBytes, *stream).ok());
  // Until others than this thread were seen to write, which is nearly always
  // the first time. ThreadSanitizer's own memory has such faults, too: there
  // the threads write once, under its eyes.
  bool others = false;
  for (int round = 0; round < 1000 && !others; ++round) {
    FreshPages got(kBytes);
    const int64_t before = PageFaultsOfThisThread();
    ASSERT_TRUE(
        (*ring)->ToHost(got.data(), device.data(), kBytes, *stream).ok());
    others = CASTOR_THREAD_SANITIZER != 0 ||
             PageFaultsOfThisThread() - before < kBytes / 4096 / 2;
    ASSERT_TRUE(std::equal(sent.begin(), sent.end(), got.data()));
  }
  EXPECT_TRUE(others);
  ring->reset();
  api.DestroyStream(*stream);
}

// Two directions have one pool.
TEST(PinnedRing, SharesItsThreadsWithAnother) {
  constexpr int64_t kBytes = int64_t{5} << 20;
  FakeApi api;
  ThreadPool copiers(3);
  ASSERT_TRUE(copiers.status().ok());
  const auto copy = [&](uint8_t value) {
    auto stream = api.CreateStream(false);
    auto ring = PinnedRing::Create(&api, 4, int64_t{1} << 20, &copiers);
    ASSERT_TRUE(stream.ok() && ring.ok());
    std::vector<uint8_t> sent(kBytes, value), device(kBytes), got(kBytes);
    for (int round = 0; round < 10; ++round) {
      std::fill(got.begin(), got.end(), 0);
      ASSERT_TRUE(
          (*ring)->FromHost(device.data(), sent.data(), kBytes, *stream).ok());
      ASSERT_TRUE(
          (*ring)->ToHost(got.data(), device.data(), kBytes, *stream).ok());
      ASSERT_EQ(got, sent);
    }
    ring->reset();
    api.DestroyStream(*stream);
  };
  std::thread other(copy, 1);
  copy(2);
  other.join();
}

TEST(PinnedRing, SaysThatThereIsNoMemoryForIt) {
  FakeApi api({.pinned_bytes = 100});
  ThreadPool copiers(1);
  EXPECT_TRUE(absl::IsResourceExhausted(
      PinnedRing::Create(&api, 2, 64, &copiers).status()));
  EXPECT_EQ(api.live_objects(), 0);
}

TEST(PinnedRing, EndsWhenTheGpuHasFailed) {
  FakeApi api;
  ThreadPool copiers(1);
  auto stream = api.CreateStream(false);
  auto ring = PinnedRing::Create(&api, 2, 64, &copiers);
  ASSERT_TRUE(stream.ok() && ring.ok());
  std::vector<uint8_t> host(1000), device(1000);
  api.Break();
  EXPECT_FALSE(
      (*ring)->FromHost(device.data(), host.data(), 1000, *stream).ok());
  EXPECT_FALSE((*ring)->ToHost(host.data(), device.data(), 1000, *stream).ok());
  ring->reset();
  api.DestroyStream(*stream);
}

}  // namespace
}  // namespace castor::cuda
