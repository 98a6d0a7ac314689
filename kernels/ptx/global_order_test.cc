// Blocks that wait for each other, and races in global memory.
#include "kernels/ptx/global_order.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ptx/machine.h"
#include "kernels/ptx/test_kernel.h"

namespace castor::kernels::ptx {
namespace {

using testing::HasSubstr;

// Returns the machine's message about a launch; empty: there is no error.
std::string MessageOf(const std::string& body, const Launch& launch = {}) {
  return std::string(Array(2 * kLanes).Run(Kernel(body), launch).message());
}

// Blocks take numbers, wait for those with lower ones, and write their number
// where the last one's stood: the value there rises by one from block to block.
constexpr char kTurns[] = R"(
atom.global.add.u32 %r5, [%rd1], 1;
$WAIT:
ld.relaxed.gpu.global.u32 %r6, [%rd1+8];
setp.eq.s32 %p1, %r6, %r5;
@%p1 bra $MINE;
nanosleep.u32 100;
bra $WAIT;
$MINE:
fence.acq_rel.gpu;
mul.wide.u32 %rd4, %r5, 8;
add.s64 %rd4, %rd1, %rd4;
ld.global.u64 %rd5, [%rd4+16];
add.s64 %rd5, %rd5, 1;
st.global.u64 [%rd4+24], %rd5;
PASS
)";

// Each warp is a block of its own here, whose lanes all do the same; lane 0
// takes the number.
std::string Turns(const std::string& pass) {
  std::string text = kTurns;
  text.replace(text.find("PASS"), 4, pass);
  return Kernel("setp.ne.s32 %p2, %r1, 0;\n@%p2 ret;\n" + text);
}

TEST(PtxMachine, RunsBlocksAtOnceThatWaitForEachOther) {
  for (int64_t at_once : {1, 2, 5}) {
    for (Order order : {Order::kForward, Order::kBackward}) {
      Array array(3 + 8);
      const absl::Status status =
          array.Run(Turns("red.release.gpu.global.add.u32 [%rd1+8], 1;"),
                    {.blocks = 8, .order = order, .blocks_at_once = at_once});
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(array.values[0], 8);
      EXPECT_EQ(array.values[1], 8);
      for (uint64_t i = 0; i <= 8; ++i) EXPECT_EQ(array.values[2 + i], i);
    }
  }
}

// Returns the machine's message about the program with `from` changed to `to`.
std::string ErrorOfTurns(const std::string& from, const std::string& to) {
  std::string text = Turns("red.release.gpu.global.add.u32 [%rd1+8], 1;");
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos);
  Array array(3 + 8);
  const absl::Status status = array.Run(text.replace(at, from.size(), to),
                                        {.blocks = 8, .blocks_at_once = 3});
  return std::string(status.message());
}

TEST(PtxMachine, KnowsWhatTurnsDoNotOrder) {
  EXPECT_EQ(ErrorOfTurns("fence", "fence"), "");
  // As they would be without waiting, without what makes waiting an order, and
  // where plain accesses meet those of atomics.
  EXPECT_THAT(ErrorOfTurns("@%p1 bra", "nanosleep.u32 100;\nbra"),
              HasSubstr("nothing orders"));
  EXPECT_THAT(ErrorOfTurns("fence.acq_rel.gpu;", ""),
              HasSubstr("nothing orders"));
  EXPECT_THAT(ErrorOfTurns("red.release", "red.relaxed"),
              HasSubstr("nothing orders"));
  EXPECT_THAT(ErrorOfTurns("ld.relaxed.gpu.global", "ld.global"),
              HasSubstr("nothing orders"));
}

// Lane 0 of each warp waits for its turn, then the next lane adds to what
// another block's has written; a lane that follows hands the turn on.
constexpr char kTurnsOfWarps[] = R"(
setp.ne.s32 %p2, %r1, 0;
mov.u32 %r5, %ctaid.x;
@%p2 bra $MINE;
$WAIT:
ld.relaxed.gpu.global.u32 %r6, [%rd1];
setp.eq.s32 %p1, %r6, %r5;
@%p1 bra $FENCE;
nanosleep.u32 100;
bra $WAIT;
$FENCE:
fence.acq_rel.gpu;
$MINE:
bar.warp.sync -1; // waited
setp.ne.s32 %p3, %r1, 1;
@%p3 bra $ADDED;
ld.global.u64 %rd5, [%rd1+8];
add.s64 %rd5, %rd5, 1;
st.global.u64 [%rd1+8], %rd5;
$ADDED:
bar.warp.sync -1; // added
@%p2 bra $DONE;
red.release.gpu.global.add.u32 [%rd1], 1;
$DONE:
)";

TEST(PtxMachine, KnowsThatLanesMeetBeforeAndBehindTurns) {
  const Launch launch = {
      .blocks = 4, .order = Order::kForward, .blocks_at_once = 2};
  Array array(kLanes);
  const absl::Status status = array.Run(Kernel(kTurnsOfWarps), launch);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(array.values[1], 4);
  for (const char* barrier :
       {"bar.warp.sync -1; // waited", "bar.warp.sync -1; // added"}) {
    std::string text = kTurnsOfWarps;
    text.replace(text.find(barrier), 17, "");
    EXPECT_THAT(MessageOf(text, launch), HasSubstr("nothing orders"))
        << barrier;
  }
}

TEST(PtxMachine, KnowsRacesInGlobalMemory) {
  // Two threads of a warp, of a block, and of two blocks; or each alone.
  const std::string write = "st.global.u64 [%rd1], %rd1;\n";
  EXPECT_THAT(MessageOf(write), HasSubstr("thread 1 writes 8 bytes"));
  const std::string by_one = "setp.ne.s32 %p1, %r1, 0;\n@%p1 ret;\n" + write;
  EXPECT_THAT(MessageOf(by_one, {.blocks = 2}),
              HasSubstr("which another thread has touched"));
  EXPECT_EQ(MessageOf(by_one), "");

  // All read, and one writes, behind a barrier or before it.
  const auto reads = [](const std::string& barrier) {
    return "ld.global.u64 %rd4, [%rd1];\n" + barrier +
           "\nsetp.eq.s32 %p1, %r1, 40;\n"
           "@%p1 st.global.u64 [%rd1], %rd4;\n";
  };
  const Launch two_warps = {.threads = 64};
  EXPECT_EQ(MessageOf(reads("bar.sync 0;"), two_warps), "");
  EXPECT_THAT(MessageOf(reads(""), two_warps), HasSubstr("touched"));
  EXPECT_THAT(MessageOf(reads("bar.warp.sync -1;"), two_warps),
              HasSubstr("touched"));
  EXPECT_THAT(MessageOf(reads("bar.sync 0;"), {.blocks = 2, .threads = 64}),
              HasSubstr("nothing orders"));
}

TEST(PtxMachine, KnowsWhenBlocksWaitForEver) {
  Array array(3 + 8);
  EXPECT_THAT(
      std::string(
          array.Run(Turns(""), {.blocks = 8, .blocks_at_once = 2}).message()),
      HasSubstr("none goes on"));
}

}  // namespace
}  // namespace castor::kernels::ptx
