#include "text/tokenizer/longest_matches.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace castor::text {
namespace {

struct Match {
  size_t place, length;
  int32_t value;
  bool operator==(const Match& other) const {
    return place == other.place && length == other.length &&
           value == other.value;
  }
};

std::vector<Match> Find(const LongestMatches& matches, const std::string& text,
                        size_t begin, size_t end) {
  std::vector<Match> found;
  matches.FindBackwards(text, begin, end,
                        [&](size_t place, size_t length, int32_t value) {
                          found.push_back({place, length, value});
                        });
  return found;
}

TEST(LongestMatches, GivesTheLongestAtEachPlaceFromTheLast) {
  LongestMatches matches;
  EXPECT_TRUE(matches.empty());
  EXPECT_TRUE(matches.Add("ab", 0));
  EXPECT_TRUE(matches.Add("abc", 1));
  EXPECT_TRUE(matches.Add("c", 2));
  EXPECT_FALSE(matches.Add("c", 3));
  matches.Finish();
  EXPECT_EQ(Find(matches, "xabcab", 0, 6),
            (std::vector<Match>{{4, 2, 0}, {3, 1, 3}, {1, 3, 1}}));
  // A string that begins before the end of the range may go beyond it.
  EXPECT_EQ(Find(matches, "xabcab", 1, 2), (std::vector<Match>{{1, 3, 1}}));
}

TEST(LongestMatches, FindsNothingWhereNothingWasAdded) {
  LongestMatches matches;
  matches.Finish();
  EXPECT_TRUE(Find(matches, "abc", 0, 3).empty());
}

TEST(LongestMatches, IsWhatComparingAllStringsAtAllPlacesGives) {
  std::mt19937 random(7);
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t i = 1 + random() % most; i > 0; --i) text += "ab"[random() % 2];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    LongestMatches matches;
    std::vector<std::string> strings;
    for (size_t i = 1 + random() % 12; i > 0; --i) {
      const std::string string = word(9);
      if (matches.Add(string, static_cast<int32_t>(strings.size()))) {
        strings.push_back(string);
      } else {
        // Gives the one that was there its number back.
        for (size_t s = 0; s < strings.size(); ++s) {
          if (strings[s] == string)
            matches.Add(string, static_cast<int32_t>(s));
        }
      }
    }
    matches.Finish();
    const std::string text = word(60);
    const size_t begin = random() % text.size();
    const size_t end = begin + 1 + random() % (text.size() - begin);
    std::vector<Match> want;
    for (size_t place = end; place-- > begin;) {
      Match longest = {place, 0, -1};
      for (size_t s = 0; s < strings.size(); ++s) {
        if (strings[s].size() > longest.length &&
            text.compare(place, strings[s].size(), strings[s]) == 0) {
          longest = {place, strings[s].size(), static_cast<int32_t>(s)};
        }
      }
      if (longest.length > 0) want.push_back(longest);
    }
    ASSERT_EQ(Find(matches, text, begin, end), want) << round << " " << text;
  }
}

}  // namespace
}  // namespace castor::text
