#include "base/name_pattern.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

namespace castor {
namespace {

TEST(NamePattern, MatchesTheWholeName) {
  EXPECT_TRUE(MatchesPattern("*.bias", "transformer.h.0.attn.c_attn.bias"));
  EXPECT_FALSE(MatchesPattern("*.bias", "transformer.bias.weight"));
  EXPECT_TRUE(MatchesPattern("*ln_*", "transformer.h.0.ln_1.weight"));
  EXPECT_FALSE(MatchesPattern("wte.*", "transformer.wte.weight"));
  EXPECT_TRUE(MatchesPattern("*wte.*", "transformer.wte.weight"));
  EXPECT_TRUE(MatchesPattern("h.?.x", "h.7.x"));
  EXPECT_FALSE(MatchesPattern("h.?.x", "h.11.x"));
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_FALSE(MatchesPattern("", "a"));
  EXPECT_TRUE(MatchesPattern("", ""));
  const std::vector<std::string> patterns = {"a", "b*"};
  EXPECT_TRUE(MatchesAnyPattern(patterns, "bc"));
  EXPECT_FALSE(MatchesAnyPattern(patterns, "c"));
}

// The definition, word for word.
bool Oracle(absl::string_view pattern, absl::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    return Oracle(pattern.substr(1), name) ||
           (!name.empty() && Oracle(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         Oracle(pattern.substr(1), name.substr(1));
}

TEST(NamePatternProperty, AgreesWithTheDefinition) {
  EXPECT_TRUE(rc::check([] {
    const auto pattern =
        *rc::gen::resize(10, rc::gen::container<std::string>(
                                 rc::gen::element('a', 'b', '*', '*', '?')));
    const auto name = *rc::gen::resize(
        12, rc::gen::container<std::string>(rc::gen::element('a', 'b')));
    RC_ASSERT(MatchesPattern(pattern, name) == Oracle(pattern, name));
  }));
}

}  // namespace
}  // namespace castor
