#include "client/step_script.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memory/plan/layout/chunk_layout.h"

namespace castor {
namespace {

// Parameters a, b and c in chunks 0, 1 and 1; d is frozen, in chunk 2.
ChunkLayout Layout() {
  const auto layout =
      MakeChunkLayout({{.name = "a", .elements = 128},
                       {.name = "b", .elements = 64},
                       {.name = "c", .elements = 64},
                       {.name = "d", .elements = 64, .trainable = false}},
                      {.chunk_bytes = 512});
  EXPECT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->place(ParamId(1)).chunk, layout->place(ParamId(2)).chunk);
  EXPECT_EQ(layout->num_chunks(), 3);
  return *layout;
}

const std::vector<std::string>& Labels() {
  static const auto& labels = *new std::vector<std::string>{"op", "end"};
  return labels;
}

void Use(StepScript& script, Phase phase, std::vector<int64_t> parameters,
         int64_t peak = 0) {
  ParameterUse use = {.label = LabelId(0),
                      .phase = phase,
                      .parameters = {},
                      .peak_bytes = peak};
  for (const int64_t id : parameters) use.parameters.push_back(ParamId(id));
  script.Add(std::move(use));
}

void End(StepScript& script) {
  script.Add(
      {.label = LabelId(1), .phase = Phase::kBackward, .parameters = {}});
  script.EndMicroBatch();
}

// "op/backward 0w 1", an operator's name and its chunks.
std::vector<std::string> Text(const StepTrace& trace) {
  std::vector<std::string> lines;
  for (const OpRecord& op : trace.ops) {
    std::string line = op.name;
    for (const ChunkUse& use : op.chunks) {
      line += " " + std::to_string(use.chunk.value) + (use.writes ? "w" : "");
    }
    lines.push_back(line);
  }
  return lines;
}

TEST(StepScript, ReducesAChunkBehindItsLastGradient) {
  const ChunkLayout layout = Layout();
  StepScript script(&layout, /*training=*/true);
  Use(script, Phase::kForward, {});
  Use(script, Phase::kForward, {0});
  Use(script, Phase::kForward, {1, 3});
  Use(script, Phase::kForward, {2});
  Use(script, Phase::kBackward, {2});
  script.HandIn(ParamId(2));
  Use(script, Phase::kBackward, {1, 3});
  script.HandIn(ParamId(1));
  Use(script, Phase::kBackward, {0}, /*peak=*/700);
  script.HandIn(ParamId(0));
  End(script);
  const StepTrace trace = script.MakeTrace(Labels(), /*accumulate=*/false);
  EXPECT_EQ(
      Text(trace),
      (std::vector<std::string>{
          "op/forward", "op/forward 0", "op/forward 1 2", "op/forward 1",
          "op/backward 1w", "op/backward 1w 2", "reduce/1 1w", "op/backward 0w",
          "reduce/0 0w", "end/backward", "update/0 0w", "update/1 1w"}));
  EXPECT_EQ(trace.ops[7].non_model_peak_bytes, 700);
  EXPECT_EQ(script.MomentOf(5), Moment(5));
  EXPECT_EQ(script.MomentOf(6), Moment(7));
  EXPECT_EQ(script.FirstUpdate(), Moment(10));
}

// A gradient may not take the place of what is read later, nor of what gets
// more of it later.
TEST(StepScript, WaitsForTheLastReadAndTheLastPart) {
  const ChunkLayout layout = Layout();
  StepScript script(&layout, /*training=*/true);
  Use(script, Phase::kForward, {0, 1, 2});
  Use(script, Phase::kBackward, {0, 1});
  script.HandIn(ParamId(0));
  script.HandIn(ParamId(1));
  Use(script, Phase::kBackward, {0});  // read again, and nothing handed in
  script.HandIn(ParamId(1));           // the second part
  End(script);
  EXPECT_EQ(script.HandIns(0, ParamId(1)), 2);
  EXPECT_EQ(script.HandIns(0, ParamId(2)), 0);
  // c, of which there is none, becomes zeros with b's.
  EXPECT_EQ(Text(script.MakeTrace(Labels(), false)),
            (std::vector<std::string>{"op/forward 0 1", "op/backward 0 1",
                                      "op/backward 0 1w", "reduce/1 1w",
                                      "end/backward 0w", "reduce/0 0w",
                                      "update/0 0w", "update/1 1w"}));
}

// Inputs that are nowhere larger follow, but make a script of their own.
TEST(StepScript, TellsInputsApartByTheirExtents) {
  const ChunkLayout layout = Layout();
  const auto inputs = [](std::vector<int64_t> extents) {
    return ParameterUse{.label = LabelId(0),
                        .phase = Phase::kForward,
                        .parameters = {},
                        .extents = std::move(extents)};
  };
  EXPECT_TRUE(inputs({4, 64}).Covers(inputs({4, 64})));
  EXPECT_TRUE(inputs({4, 64}).Covers(inputs({3, 64})));
  EXPECT_FALSE(inputs({4, 64}).Covers(inputs({3, 65})));
  EXPECT_FALSE(inputs({4, 64}).Covers(inputs({4})));
  StepScript a(&layout, /*training=*/false), b(&layout, /*training=*/false);
  a.Add(inputs({4, 64}));
  b.Add(inputs({4, 32}));
  EXPECT_TRUE(a.IsAs(a));
  EXPECT_TRUE(a.HasExtentsOf(a));
  EXPECT_FALSE(a.IsAs(b));
  EXPECT_FALSE(a.HasExtentsOf(b));
  const StepTrace trace = a.MakeTrace({"inputs ids[*x*] * "}, false);
  EXPECT_EQ(trace.ops[0].name, "inputs ids[4x64] * /forward");
}

TEST(StepScript, ReducesWhatHasNoGradientAtTheEnd) {
  const ChunkLayout layout = Layout();
  StepScript script(&layout, /*training=*/true);
  for (int i = 0; i < 2; ++i) {
    Use(script, Phase::kForward, {0});
    Use(script, Phase::kBackward, {0, 2});
    script.HandIn(ParamId(0));
    End(script);
  }
  const StepTrace trace = script.MakeTrace(Labels(), /*accumulate=*/true);
  EXPECT_EQ(trace.micro_batches, 2);
  // c is read in backward and has no gradient, so that its chunk is complete
  // where it was read last.
  EXPECT_EQ(Text(trace), (std::vector<std::string>{
                             "op/forward 0", "op/backward 0w 1w", "reduce/0 0w",
                             "reduce/1 1w", "end/backward", "op/forward 0",
                             "op/backward 0w 1w", "reduce/0 0w", "reduce/1 1w",
                             "end/backward", "update/0 0w", "update/1 1w"}));
}

TEST(StepScript, KnowsWhatIsAlike) {
  const ChunkLayout layout = Layout();
  const auto make = [&](std::vector<int64_t> reads, int64_t peak) {
    StepScript script(&layout, /*training=*/true);
    Use(script, Phase::kForward, std::move(reads), peak);
    return script;
  };
  StepScript script = make({0}, 100);
  EXPECT_TRUE(script.IsAs(make({0}, 300)));
  EXPECT_FALSE(script.IsAs(make({1}, 100)));
  EXPECT_FALSE(script.RaisePeaks(make({0}, 100)));
  EXPECT_TRUE(script.RaisePeaks(make({0}, 300)));
  EXPECT_EQ(script.uses()[0].peak_bytes, 300);
}

}  // namespace
}  // namespace castor
