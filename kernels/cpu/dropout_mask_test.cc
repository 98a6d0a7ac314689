#include "kernels/cpu/dropout_mask.h"

#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr RandomKey kKey{0xdeadbeefcafef00du, 0x0123456789abcdefu};

TEST(RandomWords, EqualRandomWordFromAnyElement) {
  ForEachTarget([&](const char* target) {
    for (uint64_t begin :
         {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4},
          uint64_t{1000003}, (uint64_t{1} << 34) - 70,  // counter's carry
          (uint64_t{1} << 63) + 5}) {
      for (int64_t size : {0, 1, 2, 3, 4, 5, 31, 63, 64, 65, 127, 1000}) {
        std::vector<uint32_t> words(size + 1, 0x5a5a5a5au);
        cpu::RandomWords(kKey, begin, size, words.data());
        for (int64_t i = 0; i < size; ++i) {
          ASSERT_EQ(words[i], RandomWord(kKey, begin + i))
              << target << " " << begin << " + " << i;
        }
        ASSERT_EQ(words[size], 0x5a5a5a5au);
      }
    }
  });
}

TEST(DropoutMask, FollowsRandomWord) {
  const uint32_t threshold = 0x4ccccccdu;  // 0.3 * 2^32
  ForEachTarget([&](const char* target) {
    for (uint64_t begin : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40}) {
      for (int64_t size : {0, 1, 5, 1023, 1024, 1025, 5000}) {
        std::vector<float> mask(size + 1, -1.0f);
        cpu::DropoutMask(kKey, begin, size, threshold, 1.25f, mask.data());
        for (int64_t i = 0; i < size; ++i) {
          const bool keep = RandomWord(kKey, begin + i) >= threshold;
          ASSERT_EQ(mask[i], keep ? 1.25f : 0.0f) << target << " " << i;
        }
        ASSERT_EQ(mask[size], -1.0f);
      }
    }
  });
}

}  // namespace
}  // namespace castor::kernels
