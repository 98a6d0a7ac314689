#include "device/cuda/pinned_ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "device/cuda/fake_api.h"

namespace castor::cuda {
namespace {

TEST(PinnedRing, CarriesSizesAroundItsPieces) {
  constexpr int kPieces = 3;
  constexpr int64_t kPiece = 1000;
  FakeApi api({.jitter_ns = 50'000});
  {
    auto stream = api.CreateStream(false);
    auto ring = PinnedRing::Create(&api, kPieces, kPiece);
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

TEST(PinnedRing, SaysThatThereIsNoMemoryForIt) {
  FakeApi api({.pinned_bytes = 100});
  EXPECT_TRUE(
      absl::IsResourceExhausted(PinnedRing::Create(&api, 2, 64).status()));
  EXPECT_EQ(api.live_objects(), 0);
}

TEST(PinnedRing, EndsWhenTheGpuHasFailed) {
  FakeApi api;
  auto stream = api.CreateStream(false);
  auto ring = PinnedRing::Create(&api, 2, 64);
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
