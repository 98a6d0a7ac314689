#include "memory/plan/blocks/offloaded_blocks.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/check/trace_check.h"

namespace castor {
namespace {

OpRecord OpOf(std::string name, Phase phase, int64_t peak_bytes) {
  OpRecord op;
  op.name = std::move(name);
  op.phase = phase;
  op.non_model_peak_bytes = peak_bytes;
  op.duration_ns = 10;
  return op;
}

// Two blocks of two operators each that are kept: each has 10 bytes from its
// forward to its backward, 8 of them in two tensors of its own.
StepTrace BothKept() {
  const Phase f = Phase::kForward, b = Phase::kBackward;
  StepTrace trace;
  trace.ops = {
      OpOf("in", f, 1),   OpOf("a1", f, 10),  OpOf("a2", f, 15),
      OpOf("b1", f, 21),  OpOf("b2", f, 26),  OpOf("loss", f, 24),
      OpOf("b2'", b, 24), OpOf("b1'", b, 20), OpOf("a2'", b, 13),
      OpOf("a1'", b, 12), OpOf("in'", b, 2),
  };
  for (int64_t block = 0; block < 2; ++block) {
    BlockRecord record;
    record.block = block;
    record.kept = true;
    record.forward = Moment(block == 0 ? 1 : 3);
    record.backward = Moment(block == 0 ? 8 : 6);
    record.kept_bytes = 10;
    record.kept_peak_bytes = {0, 3};
    record.remake_bytes = 1;
    record.offload_pieces = 2;
    record.offload_bytes = 8;
    trace.blocks.push_back(record);
  }
  return WithKeptBlocks(trace, {true, true});  // for the signature
}

std::vector<int64_t> Peaks(const StepTrace& trace) {
  std::vector<int64_t> peaks;
  for (const OpRecord& op : trace.ops) {
    peaks.push_back(op.non_model_peak_bytes);
  }
  return peaks;
}

TEST(OffloadedBlocks, AreChunksFromAfterTheirForwardUntilBackwardComes) {
  const StepTrace trace = WithOffloadedBlocks(BothKept(), {true, false});
  ASSERT_TRUE(CheckTrace(trace).ok()) << CheckTrace(trace);
  EXPECT_EQ(Peaks(trace),
            (std::vector<int64_t>{1, 10, 15, 13, 18, 16, 16, 12, 5, 12, 2}));
  ASSERT_EQ(trace.chunks.size(), 1u);
  EXPECT_EQ(trace.chunks[0].payload_bytes, 8);
  EXPECT_EQ(trace.chunks[0].block, 0);
  EXPECT_EQ(trace.chunks[0].pieces, 2);
  EXPECT_EQ(trace.ops[3].chunks, (std::vector<ChunkUse>{{ChunkId(0), true}}));
  EXPECT_EQ(trace.ops[8].chunks, (std::vector<ChunkUse>{{ChunkId(0), false}}));
  EXPECT_TRUE(trace.blocks[0].offloaded);
  EXPECT_FALSE(trace.blocks[1].offloaded);
  EXPECT_TRUE(OffloadsActivations(trace));
  EXPECT_EQ(OffloadedBlocksOf(trace), std::vector<bool>{true});
  const BlockCount count = CountBlocks(trace);
  EXPECT_EQ(count.blocks, 2);
  EXPECT_EQ(count.kept, 1);
  EXPECT_EQ(count.offloaded, 1);
  EXPECT_EQ(count.kept_bytes, 10 - 8 + 10);
  EXPECT_EQ(count.offloaded_bytes, 8);
  EXPECT_EQ(count.spared_bytes, 0);
  EXPECT_NE(trace.signature, BothKept().signature);
}

// An operator may be where one block begins to be a chunk and another ends.
TEST(OffloadedBlocks, AnyChoiceLeadsToAnyOther) {
  const StepTrace kept = BothKept();
  const std::vector<std::vector<bool>> choices = {
      {}, {true}, {false, true}, {true, true}};
  for (const std::vector<bool>& first : choices) {
    for (const std::vector<bool>& second : choices) {
      EXPECT_EQ(WithOffloadedBlocks(WithOffloadedBlocks(kept, first), second),
                WithOffloadedBlocks(kept, second));
    }
    EXPECT_EQ(WithKeptBlocks(WithOffloadedBlocks(kept, first), {true, true}),
              kept);
    EXPECT_EQ(WithKeptBlocks(WithOffloadedBlocks(kept, first), {}),
              WithKeptBlocks(kept, {}));
  }
  EXPECT_EQ(WithOffloadedBlocks(kept, {}), kept);
}

TEST(OffloadedBlocks, AreThoseThatCanLeave) {
  const StepTrace kept = BothKept();
  // One that is made again, or keeps nothing of its own.
  EXPECT_FALSE(OffloadsActivations(
      WithOffloadedBlocks(WithKeptBlocks(kept, {}), {true, true})));
  StepTrace trace = kept;
  trace.blocks[0].offload_bytes = 0;
  EXPECT_EQ(OffloadedBlocksOf(WithOffloadedBlocks(trace, {true, true})),
            (std::vector<bool>{false, true}));
  // One whose backward follows its forward.
  trace = kept;
  trace.ops.erase(trace.ops.begin() + 5);
  for (BlockRecord& block : trace.blocks) --block.backward.value;
  EXPECT_EQ(OffloadedBlocksOf(WithOffloadedBlocks(trace, {true, true})),
            std::vector<bool>{true});
  // One that is not the same in two micro batches.
  trace = kept;
  trace.blocks[1].block = 0;
  trace.blocks[1].offload_bytes = 9;
  EXPECT_FALSE(OffloadsActivations(WithOffloadedBlocks(trace, {true})));
  trace.blocks[1].offload_bytes = 8;
  EXPECT_FALSE(OffloadsActivations(WithOffloadedBlocks(trace, {false, true})));
}

TEST(OffloadedBlocks, CheckTraceRefusesActivationsThatAreNotMadeAndReadInTurn) {
  const StepTrace good = WithOffloadedBlocks(BothKept(), {true, false});
  const auto refused = [&](const StepTrace& trace, const char* why) {
    const absl::Status status = CheckTrace(trace);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_NE(status.message().find(why), std::string::npos) << status;
  };
  StepTrace bad = good;
  bad.ops[3].chunks.clear();
  refused(bad,
          "moment 8 (a2'): activations of chunk 0 are read when they are "
          "not there");
  bad = good;
  bad.ops[8].chunks.clear();
  refused(bad, "activations of chunk 0 are not made, or never read");
  bad = good;
  bad.ops[5].chunks = {{ChunkId(0), true}};
  refused(bad,
          "moment 5 (loss): activations of chunk 0 are made when they are "
          "there");
  bad = good;
  bad.ops[9].chunks = {{ChunkId(0), true}};
  bad.ops[10].chunks = {{ChunkId(0), false}};
  refused(bad, "or just gone");
  bad = good;
  bad.chunks[0].shard_bytes = 4;
  refused(bad, "chunk 0 holds activations");
  bad = good;
  bad.training = false;
  refused(bad, "moment 3 (b1): writes chunk 0 in an evaluation trace");
  bad = good;
  bad.blocks[1].offloaded = true;
  refused(bad, "blocks[1] is offloaded, and no chunk holds it");
  bad = good;
  bad.chunks[0].pieces = 0;
  refused(bad, "of no pieces");
}

}  // namespace
}  // namespace castor
