#include "memory/plan/blocks/kept_blocks.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "memory/plan/check/trace_check.h"

namespace castor {
namespace {

OpRecord OpOf(std::string name, Phase phase, int64_t peak_bytes,
              int64_t duration_ns) {
  OpRecord op;
  op.name = std::move(name);
  op.phase = phase;
  op.non_model_peak_bytes = peak_bytes;
  op.duration_ns = duration_ns;
  return op;
}

// Two blocks of two operators each, none of which is kept. The input of each
// has 1 byte, what it keeps 10 (7 of its first operator), a workspace 2, the
// gradient on its way 1.
StepTrace NoneKept() {
  const Phase f = Phase::kForward, b = Phase::kBackward;
  StepTrace trace;
  trace.ops = {
      OpOf("in", f, 1, 5),   OpOf("a1", f, 10, 10), OpOf("a2", f, 12, 20),
      OpOf("b1", f, 11, 30), OpOf("b2", f, 13, 40), OpOf("loss", f, 4, 6),
      OpOf("b1", b, 12, 33), OpOf("b2", b, 17, 44), OpOf("b'", b, 14, 50),
      OpOf("a1", b, 11, 11), OpOf("a2", b, 16, 22), OpOf("a'", b, 13, 60),
      OpOf("in'", b, 2, 7),
  };
  trace.blocks = {
      {.block = 0,
       .forward = Moment(1),
       .backward = Moment(9),
       .kept_bytes = 10,
       .kept_peak_bytes = {0, 3},
       .remake_bytes = 1},
      {.block = 1,
       .forward = Moment(3),
       .backward = Moment(6),
       .kept_bytes = 10,
       .kept_peak_bytes = {0, 3},
       .remake_bytes = 1},
  };
  return trace;
}

struct Seen {
  std::vector<std::string> names;
  std::vector<int64_t> peaks, durations;
};

Seen See(const StepTrace& trace) {
  Seen seen;
  for (const OpRecord& op : trace.ops) {
    seen.names.push_back(op.name);
    seen.peaks.push_back(op.non_model_peak_bytes);
    seen.durations.push_back(op.duration_ns);
  }
  return seen;
}

TEST(KeptBlocks, StayFromTheirForwardToTheirBackwardAndRunOnce) {
  std::vector<Moment> from;
  const StepTrace last =
      WithKeptBlocks(NoneKept(), KeptBlocks{false, true}, &from);
  const Seen seen = See(last);
  EXPECT_EQ(seen.names,
            (std::vector<std::string>{"in", "a1", "a2", "b1", "b2", "loss",
                                      "b'", "a1", "a2", "a'", "in'"}));
  EXPECT_EQ(seen.peaks,
            (std::vector<int64_t>{1, 10, 12, 11, 16, 14, 14, 11, 16, 13, 2}));
  EXPECT_EQ(seen.durations,
            (std::vector<int64_t>{5, 10, 20, 30, 40, 6, 50, 11, 22, 60, 7}));
  EXPECT_EQ(from[6], Moment(8));
  EXPECT_EQ(from[7], Moment(9));
  ASSERT_EQ(last.blocks.size(), 2u);
  EXPECT_TRUE(last.blocks[1].kept);
  EXPECT_EQ(last.blocks[1].backward, Moment(6));
  EXPECT_EQ(last.blocks[0].backward, Moment(7));
  EXPECT_TRUE(CheckTrace(last).ok()) << CheckTrace(last);
  EXPECT_EQ(CountBlocks(last).blocks, 2);
  EXPECT_EQ(CountBlocks(last).kept, 1);
  EXPECT_EQ(CountBlocks(last).kept_bytes, last.blocks[1].kept_bytes);
  EXPECT_EQ(CountBlocks(last).spared_bytes, last.blocks[0].kept_bytes);
  EXPECT_GT(CountBlocks(last).spared_bytes, 0);
  EXPECT_EQ(KeptBlocksOf(last), (KeptBlocks{false, true}));
}

TEST(KeptBlocks, FirstOneStaysAcrossTheOthers) {
  const Seen seen = See(WithKeptBlocks(NoneKept(), KeptBlocks{true}));
  EXPECT_EQ(seen.names,
            (std::vector<std::string>{"in", "a1", "a2", "b1", "b2", "loss",
                                      "b1", "b2", "b'", "a'", "in'"}));
  EXPECT_EQ(seen.peaks,
            (std::vector<int64_t>{1, 10, 15, 21, 23, 14, 22, 27, 24, 13, 2}));
}

// Operators that run once more take as long as in forward, where no more is
// known.
TEST(KeptBlocks, AnyChoiceLeadsToAnyOther) {
  StepTrace none = NoneKept();
  for (OpRecord& op : none.ops) {
    if (op.phase == Phase::kBackward && op.name.size() == 2) {
      op.duration_ns = op.duration_ns / 11 * 10;
    }
  }
  const std::vector<KeptBlocks> choices = {
      {}, {true}, {false, true}, {true, true}};
  for (const KeptBlocks& first : choices) {
    for (const KeptBlocks& second : choices) {
      const StepTrace direct = WithKeptBlocks(none, second);
      const StepTrace both =
          WithKeptBlocks(WithKeptBlocks(none, first), second);
      EXPECT_EQ(See(both).names, See(direct).names);
      EXPECT_EQ(both, direct);
    }
  }
  EXPECT_NE(WithKeptBlocks(none, choices[1]).signature,
            WithKeptBlocks(none, choices[2]).signature);
}

TEST(KeptBlocks, BlockWithNothingToDoInBackwardComesAfterTheLaterOne) {
  StepTrace trace = NoneKept();
  // b has no operators of its own in backward.
  trace.ops.erase(trace.ops.begin() + 8);
  trace.blocks[0].backward = Moment(8);
  const StepTrace all = WithKeptBlocks(trace, KeptBlocks{true, true});
  EXPECT_EQ(all.blocks[0].backward, all.blocks[1].backward);
  EXPECT_TRUE(CheckTrace(all).ok()) << CheckTrace(all);
  const StepTrace back = WithKeptBlocks(all, KeptBlocks());
  EXPECT_EQ(See(back).names, See(trace).names);
  EXPECT_EQ(See(back).peaks, See(trace).peaks);
  EXPECT_EQ(back.blocks, trace.blocks);
}

TEST(KeptBlocks, TraceWithoutBlocksStaysAsItIs) {
  StepTrace trace = NoneKept();
  trace.blocks.clear();
  EXPECT_EQ(WithKeptBlocks(trace, KeptBlocks{true, true}).ops, trace.ops);
  EXPECT_EQ(CountBlocks(trace).blocks, 0);
}

TEST(KeptBlocks, CheckRefusesBlocksThatAreNotInTheTrace) {
  using Spoil = void (*)(StepTrace&);
  const Spoil spoils[] = {
      [](StepTrace& t) { t.blocks[0].block = -1; },
      [](StepTrace& t) { t.blocks[0].kept_peak_bytes.clear(); },
      [](StepTrace& t) { t.blocks[0].forward = Moment(-1); },
      [](StepTrace& t) { t.blocks[0].forward = Moment(2); },
      [](StepTrace& t) { t.blocks[1].forward = Moment(1); },
      [](StepTrace& t) { t.blocks[0].backward = Moment(12); },
      [](StepTrace& t) { t.blocks[0].backward = Moment(7); },
      [](StepTrace& t) { t.blocks[1].backward = Moment(4); },
      [](StepTrace& t) {
        t.blocks[1].block = 0;
        t.blocks[1].kept = true;
      },
      [](StepTrace& t) { t.blocks[0].kept_bytes = INT64_MIN; },
      [](StepTrace& t) { t.blocks[0].kept_bytes = INT64_MAX; },
      [](StepTrace& t) { t.blocks[0].kept_peak_bytes[1] = -1; },
      [](StepTrace& t) { t.blocks[0].kept_peak_bytes[1] = INT64_MAX; },
      [](StepTrace& t) { t.blocks[0].remake_bytes = INT64_MIN; },
      [](StepTrace& t) {
        t.blocks[0].kept_peak_bytes.resize(t.ops.size() + 1);
      },
  };
  ASSERT_TRUE(CheckTrace(NoneKept()).ok()) << CheckTrace(NoneKept());
  for (size_t i = 0; i < std::size(spoils); ++i) {
    StepTrace trace = NoneKept();
    spoils[i](trace);
    EXPECT_TRUE(absl::IsInvalidArgument(CheckTrace(trace))) << i;
  }
}

}  // namespace
}  // namespace castor
