#include "device/topology/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Place SomePlace() {
  return {.host = "node-7",
          .machine = "1b4e28ba",
          .machine_processors = 16,
          .allowed_processors = 12,
          .cores = {{2, 0, {4, 5}}, {3, 0, {7}}, {6, 1, {12, 13}}},
          .nodes = {{0, int64_t{64} << 30}, {1, int64_t{64} << 30}},
          .memory = {{"machine", int64_t{128} << 30}, {"group2-99", 4096}}};
}

TEST(Processors, AreWrittenAsRanges) {
  EXPECT_EQ(FormatProcessors({}), "");
  EXPECT_EQ(FormatProcessors({5}), "5");
  EXPECT_EQ(FormatProcessors({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(Processors, AreReadAsWritten) {
  for (const char* text : {"", "5", "0-3,8,10-11", "1048575"}) {
    const auto processors = ParseProcessors(text);
    ASSERT_TRUE(processors.ok()) << processors.status();
    EXPECT_EQ(FormatProcessors(*processors), text);
  }
  for (const char* text : {"-", "1-", "-1", "3-1", "1,1", "2,1", "1,", "a",
                           "0-2000000", "1-2-3", "0-3,2"}) {
    EXPECT_FALSE(ParseProcessors(text).ok()) << text;
  }
}

TEST(Place, IsReadAsWritten) {
  const auto again = ParsePlace(PlaceText(SomePlace()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, SomePlace());
  EXPECT_THAT(again->processors(), ElementsAre(4, 5, 7, 12, 13));
}

TEST(Place, ListsProcessorsInOrderThoughCoresInterleaveThem) {
  Place place;
  place.cores = {{0, 0, {0, 8}}, {1, 0, {1, 9}}};
  EXPECT_THAT(place.processors(), ElementsAre(0, 1, 8, 9));
}

TEST(Place, WithSpacesInItsNamesIsStillOneText) {
  Place place = SomePlace();
  place.host = "a b\nc";
  place.machine = "";
  const auto again = ParsePlace(PlaceText(place));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->host, "a?b?c");
  EXPECT_EQ(again->machine, "?");
}

TEST(Place, OfAnotherVersionOrCutIsRefused) {
  const std::string text = PlaceText(SomePlace());
  EXPECT_FALSE(ParsePlace("").ok());
  EXPECT_FALSE(
      ParsePlace(absl::StrReplaceAll(text, {{"place 1", "place 2"}})).ok());
  EXPECT_FALSE(ParsePlace(absl::StrCat(text, "colour red\n")).ok());
  EXPECT_FALSE(ParsePlace(absl::StrCat(text, "core 1 0 20\n")).ok());
  for (const char* line : {"core x 0 1\n", "core 9 0 \n", "core 9 -1 30\n",
                           "node 2 -5\n", "memory x 0\n", "memory x\n"}) {
    EXPECT_FALSE(ParsePlace(absl::StrCat(text, line)).ok()) << line;
  }
  // No prefix is accepted that ends before the last of the things that must be
  // there.
  for (size_t size = 0; size < text.find("memory machine"); ++size) {
    EXPECT_FALSE(ParsePlace(text.substr(0, size)).ok()) << size;
  }
  const auto refused = ParsePlace("nonsense");
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("same version of castor"));
}

}  // namespace
}  // namespace castor
