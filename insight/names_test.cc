#include "insight/names.h"

#include "gtest/gtest.h"
#include "insight/trace_sketch.h"
#include "insight/utf8.h"

namespace castor {
namespace {

TEST(Names, KeepBothEndsOfALongNameAndWholeCharacters) {
  EXPECT_EQ(Shortened("short", 8), "short");
  EXPECT_EQ(Shortened("transformer.h.11.mlp.c_proj.weight", 21),
            "transform...oj.weight");
  // Each e with an accent takes two bytes.
  std::string accents;
  for (int i = 0; i < 20; ++i) accents += "\xC3\xA9";
  for (size_t bytes = 8; bytes < 40; ++bytes) {
    const std::string text = Shortened(accents, bytes);
    EXPECT_LE(text.size(), bytes);
    EXPECT_EQ(ValidUtf8(text), text);
  }
}

TEST(Names, FormatTimesWithThreeDigits) {
  EXPECT_EQ(FormatNs(999), "999 ns");
  EXPECT_EQ(FormatNs(1'500), "1.50 us");
  EXPECT_EQ(FormatNs(12'345'678), "12.3 ms");
  EXPECT_EQ(FormatNs(999'600), "1.00 ms");
  EXPECT_EQ(FormatNs(123'456'789'000), "123 s");
}

TEST(Names, NameChunksByTheirFirstParameters) {
  const TraceSketch sketch;
  const TraceIndex index(sketch.contents);
  EXPECT_EQ(ChunkText(index, 0, 0), "chunk 0 (a.weight)");
  EXPECT_EQ(ChunkText(index, 0, 1), "chunk 1 (b.weight, b.bias and 1 more)");
  EXPECT_EQ(ChunkText(index, 0, 9), "chunk 9");
  EXPECT_EQ(ChunkText(index, 0, -1), "no chunk");
}

TEST(Names, NeverLeaveWorkWithoutALabel) {
  TraceSketch sketch;
  sketch.contents.step_traces[0].ops[1].name.clear();
  const TraceIndex index(sketch.contents);
  EXPECT_EQ(WorkLabel(index, WorkKind::kOperator, 0, 0, 0, -1), "a/forward");
  EXPECT_EQ(WorkLabel(index, WorkKind::kOperator, 0, 0, 1, -1), "operator 1");
  EXPECT_EQ(WorkLabel(index, WorkKind::kFetch, 1, 0, 0, 1), "fetch chunk 1");
  // On the compute stream, in older traces on the bus.
  for (const int64_t stream : {0, 2}) {
    EXPECT_EQ(WorkLabel(index, WorkKind::kInput, stream, 0, -1, -1),
              "loss to the host");
  }
  EXPECT_EQ(WorkLabel(index, WorkKind::kInput, 0, -1, 0, -1), "input");
  for (int kind = 0; kind < kNumWorkKinds; ++kind) {
    EXPECT_NE(WorkLabel(index, static_cast<WorkKind>(kind), 0, -1, -1, -1), "");
  }
}

TEST(StringTable, KeepsEachTextOnce) {
  StringTable table;
  EXPECT_EQ(table.Add("a"), 0);
  EXPECT_EQ(table.Add("bc"), 1);
  EXPECT_EQ(table.Add("a"), 0);
  EXPECT_EQ(table.bytes(), 3);
  EXPECT_EQ(table.Take(), (std::vector<std::string>{"a", "bc"}));
}

}  // namespace
}  // namespace castor
