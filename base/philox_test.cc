#include "base/philox.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

// Known-answer vectors of the Random123 distribution (kat_vectors,
// philox4x32-10).
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0}, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                     0x9b00dbd8}));
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(Philox4x32({ones, ones}, ones),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                                     0x6d5451fd}));
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  EXPECT_EQ(Philox4x32({0x299f31d0a4093822u, 0x0370734413198a2eu},
                       0x85a308d3243f6a88u),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420,
                                     0x24126ea1}));
}

TEST(Philox, WordsFollowLanes) {
  const RandomKey key{42, 7};
  for (uint64_t element = 0; element < 16; ++element) {
    EXPECT_EQ(RandomWord(key, element),
              Philox4x32(key, element / 4)[element % 4]);
  }
}

TEST(MixKey, SeparatesNeighbours) {
  EXPECT_NE(MixKey(0, 1), MixKey(1, 0));
  EXPECT_NE(MixKey(0, 0), MixKey(0, 1));
}

}  // namespace
}  // namespace castor
