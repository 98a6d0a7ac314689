#include "insight/cause_texts.h"

#include <initializer_list>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

// Returns true if braces are left once the words that may stand there are gone.
bool HasOtherBraces(absl::string_view text,
                    std::initializer_list<absl::string_view> words) {
  std::string rest(text);
  for (const absl::string_view word : words) {
    rest = absl::StrReplaceAll(rest, {{word, ""}});
  }
  return absl::StrContains(rest, "{") || absl::StrContains(rest, "}");
}

TEST(CauseTexts, HaveARowForEachCauseWithWordsThatAreKnown) {
  std::set<absl::string_view> titles;
  for (int cause = 0; cause < kNumWaitCauses; ++cause) {
    const CauseRow& row = RowOf(static_cast<WaitCause>(cause));
    EXPECT_EQ(static_cast<int>(row.cause), cause);
    EXPECT_TRUE(titles.insert(row.title).second) << row.title;
    EXPECT_FALSE(HasOtherBraces(row.title, {"{rank}"})) << row.title;
    for (const absl::string_view text : {row.text, row.back_to_back}) {
      EXPECT_FALSE(HasOtherBraces(
          text, {"{who}", "{root}", "{needs}", "{subject}", "{ending}"}))
          << text;
    }
    EXPECT_FALSE(HasOtherBraces(
        row.remedy, {"{rank}", "{memory}", "{states}", "{threads}", "{bus}",
                     "{network}", "{batch}"}))
        << row.remedy;
    // Each is a sentence, whose end may come with a word in braces.
    EXPECT_TRUE(absl::EndsWith(row.text, ".") ||
                absl::EndsWith(row.text, "{ending}"))
        << row.text;
    EXPECT_TRUE(row.remedy.empty() || absl::EndsWith(row.remedy, ".") ||
                absl::EndsWith(row.remedy, "{batch}"))
        << row.remedy;
  }
}

}  // namespace
}  // namespace castor
