#include "memory/plan/check/trace_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/units.h"
#include "memory/plan/testing/trace_builder.h"
#include "memory/plan/testing/trace_generator.h"

namespace castor {
namespace {

StepTrace Good() {
  return TraceBuilder()
      .Chunk(256, 1536)
      .Chunk(256, 0)
      .Read({0, 1}, 10, 10)
      .Write({0}, 10, 10)
      .Reduce(0)
      .Update(0)
      .Build();
}

void ExpectBad(const StepTrace& trace, const std::string& message) {
  const absl::Status status = CheckTrace(trace);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(message));
}

TEST(CheckTrace, PassesWellFormedTraces) {
  EXPECT_TRUE(CheckTrace(Good()).ok()) << CheckTrace(Good());
  EXPECT_TRUE(CheckTrace(StepTrace()).ok());
  GptTraceOptions options;
  options.micro_batches = 2;
  EXPECT_TRUE(CheckTrace(GptTrace(options)).ok());
}

TEST(CheckTrace, RefusesSizesThatAreNoSizes) {
  StepTrace trace = Good();
  trace.chunks[0].payload_bytes = -1;
  ExpectBad(trace, "chunk 0: payload_bytes is negative (-1)");
  trace.chunks[0].payload_bytes = kUnlimitedBytes;
  ExpectBad(trace, "chunk 0: payload_bytes is too large");
  trace = Good();
  trace.ops[1].non_model_peak_bytes = -5;
  ExpectBad(trace, "moment 1 (op1): non_model_peak_bytes is negative");
  trace = Good();
  trace.ops[1].duration_ns = -5;
  ExpectBad(trace, "duration_ns is negative");
}

TEST(CheckTrace, RefusesChunksThatDoNotExistOrRepeat) {
  StepTrace trace = Good();
  trace.ops[0].chunks[1].chunk = ChunkId(2);
  ExpectBad(trace, "moment 0 (op0): chunk 2 of 2");
  trace.ops[0].chunks[1].chunk = ChunkId(0);
  ExpectBad(trace, "chunk 0 after chunk 0");
  trace = Good();
  trace.ops[2].chunks.clear();
  ExpectBad(trace, "moment 2 (reduce0): has 0 chunks, want 1");
}

TEST(CheckTrace, RefusesChangesOfFrozenChunks) {
  StepTrace trace = Good();
  trace.ops[0].chunks[1].writes = true;
  ExpectBad(trace, "moment 0 (op0): changes chunk 1, which is frozen");
}

TEST(CheckTrace, RefusesEvaluationThatChangesAnything) {
  StepTrace trace = Good();
  trace.training = false;
  ExpectBad(trace, "moment 1 (op1): writes chunk 0 in an evaluation trace");
  trace.ops[1].chunks[0].writes = false;
  ExpectBad(trace, "reduces or updates in an evaluation trace");
}

TEST(CheckTrace, WantsOneUpdateAfterEverything) {
  StepTrace trace = Good();
  trace.ops.pop_back();
  ExpectBad(trace, "chunk 0 has optimizer states but no update");
  trace = Good();
  trace.ops.push_back(trace.ops.back());
  ExpectBad(trace, "updates chunk 0 for a second time");
  trace = Good();
  trace.ops.push_back(trace.ops[0]);
  ExpectBad(trace, "uses chunk 0 after its update");
  trace = Good();
  std::swap(trace.ops[2], trace.ops[3]);
  ExpectBad(trace, "reduces chunk 0 after its update");
  trace = Good();
  trace.ops.insert(trace.ops.begin() + 3, trace.ops[1]);
  ExpectBad(trace, "was used after its last reduce");
}

TEST(CheckTrace, WantsSumOfGradientsWithinTheOptimizerStates) {
  StepTrace trace = Good();
  trace.chunks[0].sum_bytes = trace.chunks[0].optimizer_bytes;
  EXPECT_TRUE(CheckTrace(trace).ok());
  trace.chunks[0].sum_bytes += 1;
  ExpectBad(trace, "chunk 0: a sum of ");
  trace.chunks[0].sum_bytes = -1;
  ExpectBad(trace, "chunk 0: a sum of -1 bytes");
}

TEST(CheckTrace, WantsSumsOverRanksOfUpdatesOfSharedChunksAlone) {
  StepTrace trace = Good();
  ASSERT_EQ(trace.ops.back().kind, OpKind::kUpdate);
  trace.ops.back().reduced_bytes = 560;
  ExpectBad(trace, "adds up sums over ranks of chunk 0");
  trace.chunks[0].shard_bytes = trace.chunks[0].payload_bytes / 2;
  EXPECT_TRUE(CheckTrace(trace).ok());
  trace.ops.back().reduced_bytes = -1;
  ExpectBad(trace, "reduced_bytes is negative (-1)");
  trace = Good();
  trace.ops[0].reduced_bytes = 560;
  ExpectBad(trace, "moment 0 (op0): has reduced_bytes and is no update");
}

}  // namespace
}  // namespace castor
