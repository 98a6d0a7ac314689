#include "insight/export/svg.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "insight/random_trace.h"
#include "insight/trace_sketch.h"
#include "rapidcheck/gtest.h"

namespace castor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Picture(const TraceView& view) {
  const absl::StatusOr<std::string> svg = SvgPicture(view);
  EXPECT_TRUE(svg.ok()) << svg.status();
  return svg.value_or("");
}

// The step is 1000 ns long and the axis 868 units: 0.868 units a ns, from 118.
TEST(Svg, DrawsWhatTheStepsStreamsDid) {
  const std::string svg = Picture(BuildTraceView(OneStep().contents, "a<b"));
  EXPECT_THAT(svg, HasSubstr("a&lt;b, sketch, host device, policy auto"));
  EXPECT_THAT(svg, HasSubstr("step 1, of median length: 1.00 us, 40.0 %"));
  // Compute waits from 100 to 300.
  EXPECT_THAT(svg, HasSubstr("M204.80 268.0h173.60v20h-173.60z"));
  // The first fetch is from 50 to 300, on the second lane.
  EXPECT_THAT(svg, HasSubstr("M161.40 292.0h217.00v20h-217.00z"));
  EXPECT_THAT(svg, HasSubstr(">peak 3.22 KiB  b/backward<"));
  EXPECT_THAT(svg, HasSubstr(">budget 9.77 KiB<"));
  EXPECT_THAT(svg, HasSubstr(">CPU optimizer<"));
  for (const char* const legend : {"parameters", "plan", "wait", "update"}) {
    EXPECT_THAT(svg, HasSubstr(absl::StrCat(">", legend, "<")));
  }
  EXPECT_THAT(svg, Not(HasSubstr(">pause<")));
}

TEST(Svg, HoldsNoMoreThanCanBeSeen) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  for (int64_t i = 0; i < 20'000; ++i) {
    sketch.Op(s, i % 2, 10 * i, 10 * i + 10);
    sketch.Issue(s, i % 2, 10 * i, {1'000 + i % 7, i % 5});
  }
  sketch.Result(1, 0, 200'000);
  const std::string svg = Picture(BuildTraceView(sketch.contents, ""));
  // Two colours of bars and two of memory, each at most so often as there is
  // room, where all events would take a MB.
  EXPECT_LT(svg.size(), 200'000u);
}

TEST(Svg, RefusesWhatHoldsNoSteps) {
  const absl::StatusOr<std::string> svg =
      SvgPicture(BuildTraceView(TraceContents(), "empty.trace"));
  EXPECT_EQ(svg.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(svg.status().message()),
              HasSubstr("empty.trace holds no steps"));
}

// Every tag is closed, quotes are paired, and nothing else is markup.
RC_GTEST_PROP(Svg, IsWellFormedWhateverTheTraceSays, (uint64_t seed)) {
  for (const bool wild : {false, true}) {
    const TraceView view =
        BuildTraceView(RandomTrace(seed, wild).Make(), "</svg>\"&");
    const absl::StatusOr<std::string> svg = SvgPicture(view);
    if (!svg.ok()) continue;
    std::vector<std::string> open;
    bool in_tag = false, quoted = false;
    std::string tag;
    for (const char c : *svg) {
      RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 || c == '\n');
      if (in_tag && c == '"') {
        quoted = !quoted;
      } else if (c == '<') {
        RC_ASSERT(!in_tag);
        in_tag = true;
        tag.clear();
      } else if (c == '>') {
        RC_ASSERT(in_tag && !quoted);
        in_tag = false;
        const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
        if (tag[0] == '/') {
          RC_ASSERT(!open.empty() && open.back() == tag.substr(1));
          open.pop_back();
        } else if (tag.back() != '/') {
          open.push_back(name);
        }
      } else if (in_tag) {
        tag.push_back(c);
      }
    }
    RC_ASSERT(open.empty() && !in_tag);
    RC_ASSERT(!absl::StrContains(*svg, "nan") &&
              !absl::StrContains(*svg, "inf"));
  }
}

}  // namespace
}  // namespace castor
