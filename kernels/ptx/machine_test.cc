// Control, memory, barriers and errors of the machine.
#include "kernels/ptx/machine.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ptx/test_kernel.h"

namespace castor::kernels::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Lanes part by their number, and parted lanes go different numbers of times
// around a loop: 1 + 2 + ... + lane.
TEST(PtxMachine, LetsLanesPartAndMeetAgain) {
  Array array(64);
  const absl::Status status = array.Run(Kernel(R"(
mov.b64 %rd4, 0;
setp.eq.s32 %p1, %r1, 0;
@%p1 bra $DONE;
mov.u32 %r2, %r1;
$AGAIN:
cvt.u64.u32 %rd5, %r2;
add.s64 %rd4, %rd4, %rd5;
sub.s32 %r2, %r2, 1;
setp.gt.s32 %p2, %r2, 0;
@%p2 bra $AGAIN;
$DONE:
bar.warp.sync -1;
st.global.u64 [%rd2], %rd4;
)"),
                                        {.threads = 64});
  ASSERT_TRUE(status.ok()) << status;
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(array.values[i], i * (i + 1) / 2);
}

TEST(PtxMachine, ExecutesInstructionsUnderTheirPredicates) {
  Array array(kLanes);
  ASSERT_TRUE(array
                  .Run(Kernel(R"(
mov.b64 %rd4, 1;
setp.lt.s32 %p1, %r1, 3;
@%p1 mov.b64 %rd4, 2;
@!%p1 add.s64 %rd4, %rd4, 10;
st.global.u64 [%rd2], %rd4;
)"))
                  .ok());
  for (int i = 0; i < kLanes; ++i) EXPECT_EQ(array.values[i], i < 3 ? 2 : 11);
}

// Thread i writes, and after the barrier reads what thread 63 - i wrote.
constexpr char kReverse[] = R"(
mov.u32 %r2, memory;
shl.b32 %r3, %r1, 2;
add.s32 %r3, %r2, %r3;
st.shared.u32 [%r3], %r1;
BARRIER
sub.s32 %r4, 252, %r3;
ld.shared.u32 %rd4, [%r4];
st.global.u64 [%rd2], %rd4;
)";

std::string Reverse(const std::string& barrier) {
  std::string text = kReverse;
  return Kernel(text.replace(text.find("BARRIER"), 7, barrier));
}

TEST(PtxMachine, KnowsBarriersAndTheirAbsence) {
  for (Order order : {Order::kForward, Order::kBackward, Order::kInterleaved}) {
    Array array(64);
    const Launch launch = {.threads = 64, .shared_bytes = 256, .order = order};
    ASSERT_TRUE(array.Run(Reverse("bar.sync 0;"), launch).ok());
    for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(array.values[i], 63 - i);
    EXPECT_THAT(std::string(array.Run(Reverse(""), launch).message()),
                HasSubstr("which another thread has"));
  }
}

// For each barrier of a kernel, whether launches of a block of two warps need
// it.
std::vector<bool> NeededOf(const std::string& text) {
  std::vector<bool> of_barriers;
  NeededBarriers needed;
  for (Order order : {Order::kForward, Order::kBackward}) {
    Array array(64);
    const absl::Status status = array.Run(
        text, {.threads = 64, .shared_bytes = 512, .order = order}, &needed);
    EXPECT_TRUE(status.ok()) << status;
  }
  const auto library = Library::Create(text);
  const auto program = library->Find("kernel");
  EXPECT_EQ(needed.size(), program->code.size());
  for (size_t i = 0; i < needed.size(); ++i) {
    if (program->code[i].flow == Flow::kBarrier) {
      of_barriers.push_back(needed[i]);
    } else {
      EXPECT_FALSE(needed[i]) << program->code[i].text;
    }
  }
  return of_barriers;
}

TEST(PtxMachine, KnowsWhichBarriersAreNeeded) {
  using Needed = std::vector<bool>;
  EXPECT_EQ(NeededOf(Reverse("bar.sync 0;")), Needed({true}));
  // Each of two would do; what each thread has for itself needs none.
  EXPECT_EQ(NeededOf(Reverse("bar.sync 0;\nbar.sync 0;")),
            Needed({false, false}));
  EXPECT_EQ(NeededOf(Reverse("ld.shared.u32 %r5, [%r3];\nbar.sync 0;")),
            Needed({true}));
  EXPECT_EQ(NeededOf(Reverse("bar.sync 0;\nst.shared.u32 [%r3], %r1;\n"
                             "bar.sync 0;")),
            Needed({false, true}));
  // A thread's write after another has read.
  EXPECT_EQ(NeededOf(Reverse("bar.sync 0;\nsub.s32 %r6, 252, %r3;\n"
                             "ld.shared.u32 %r7, [%r6];\nbar.sync 0;\n"
                             "st.shared.u32 [%r3], %r1;\nbar.sync 0;")),
            Needed({true, true, true}));
  // One that is passed twice is one.
  EXPECT_EQ(NeededOf(Reverse("mov.u32 %r8, 0;\n$L__again:\nbar.sync 0;\n"
                             "add.s32 %r8, %r8, 1;\n"
                             "setp.lt.s32 %p1, %r8, 2;\n@%p1 bra $L__again;")),
            Needed({true}));
  // Lanes of a warp, which a barrier of theirs sets apart, too.
  const std::string neighbours = R"(
mov.u32 %r2, memory;
shl.b32 %r3, %r1, 2;
add.s32 %r3, %r2, %r3;
st.shared.u32 [%r3], %r1;
BARRIERS
xor.b32 %r4, %r3, 4;
ld.shared.u32 %rd4, [%r4];
st.global.u64 [%rd2], %rd4;
)";
  const auto between = [&](const std::string& barriers) {
    std::string text = neighbours;
    return NeededOf(Kernel(text.replace(text.find("BARRIERS"), 8, barriers)));
  };
  EXPECT_EQ(between("bar.sync 0;"), Needed({true}));
  EXPECT_EQ(between("bar.sync 0;\nbar.warp.sync -1;"), Needed({false}));
}

TEST(PtxMachine, CopiesAheadEarlyOrLate) {
  const std::string text = Kernel(R"(
mov.u32 %r2, memory;
shl.b32 %r3, %r1, 4;
add.s32 %r3, %r2, %r3;
cvt.u64.u32 %rd5, %r3;
add.s64 %rd5, %rd1, %rd5;
setp.lt.s32 %p1, %r1, 8;
selp.b32 %r4, 16, 0, %p1;
cp.async.cg.shared.global [%r3], [%rd5], 16, %r4;
ld.shared.u64 %rd6, [%r3];
cp.async.wait_all;
ld.shared.u64 %rd7, [%r3];
shl.b64 %rd6, %rd6, 32;
or.b64 %rd7, %rd6, %rd7;
st.global.u64 [%rd5], %rd7;
)");
  for (Order order : {Order::kForward, Order::kBackward}) {
    Array array(2 * kLanes);
    for (uint64_t i = 0; i < 2 * kLanes; ++i) array.values[i] = i + 5;
    const absl::Status status =
        array.Run(text, {.shared_bytes = 512, .order = order});
    ASSERT_TRUE(status.ok()) << status;
    const auto both = [](uint64_t before, uint64_t after) {
      return before << 32 | after;
    };
    const bool late = order != Order::kForward;
    EXPECT_EQ(array.values[4], both(late ? ~uint64_t{0} : 9, 9));
    EXPECT_EQ(array.values[16], both(late ? ~uint64_t{0} : 0, 0));
  }
}

TEST(PtxMachine, AddsAtomically) {
  Array array(3);
  array.values = {0, 7, 0};
  array.memory.Add(array.values.data(), 24);
  const absl::Status status = array.Run(Kernel(R"(
cvt.u64.u32 %rd4, %r1;
atom.global.add.u64 %rd5, [%rd1], %rd4;
atom.global.max.s64 %rd6, [%rd1+8], %rd4;
atom.global.sys.cas.b32 %r2, [%rd1+16], 0, 9;
)"),
                                        {.blocks = 2, .threads = 64});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(array.values, ElementsAre(2 * 63 * 32, 63, 9));
}

TEST(PtxMachine, WidensBytes) {
  Array array(3);
  array.values = {0x80, 0, 0};
  array.memory.Add(array.values.data(), 24);
  const absl::Status status = array.Run(Kernel(R"(
ld.global.s8 %rs1, [%rd1];
ld.global.u8 %rs2, [%rd1];
mul.wide.s16 %r2, %rs1, 1;
mul.wide.u16 %r3, %rs2, 1;
cvt.u64.u32 %rd4, %r2;
cvt.u64.u32 %rd5, %r3;
setp.eq.s32 %p1, %r1, 0;
@%p1 st.global.u64 [%rd1+8], %rd4;
@%p1 st.global.u64 [%rd1+16], %rd5;
)"));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(array.values, ElementsAre(0x80, 0xffffff80u, 0x80));
}

std::string ErrorOf(const std::string& body, Launch launch = {}) {
  Array array(kLanes);
  const absl::Status status = array.Run(Kernel(body), launch);
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(PtxMachine, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(ErrorOf("tanh.approx.f32 %f1, %f2;"),
              HasSubstr("instruction tanh.approx.f32 is not known"));
  EXPECT_THAT(ErrorOf("mov.u32 %r1, %smid;"), HasSubstr("register %smid"));
  EXPECT_THAT(ErrorOf("mov.u32 %r1, %r33;"), HasSubstr("register %r33"));
  EXPECT_THAT(ErrorOf("bra $NOWHERE;"), HasSubstr("label $NOWHERE"));
  EXPECT_THAT(ErrorOf("add.s32 %r1, %rd1, %r2;"),
              HasSubstr("8 bytes in place of 4"));
  EXPECT_THAT(ErrorOf("add.s32 %r1, %r1;"), HasSubstr("2 operands"));
  EXPECT_THAT(ErrorOf(".local .b8 depot[16];"), HasSubstr("directive"));
}

TEST(PtxMachine, StopsAtAccessesOutsideOfMemory) {
  EXPECT_THAT(ErrorOf("st.global.u64 [%rd2+8], %rd1;"),
              HasSubstr("thread 31 writes 8 bytes"));
  EXPECT_THAT(ErrorOf("ld.global.u64 %rd4, [%rd1+-8];"),
              HasSubstr("thread 0 reads 8 bytes"));
  EXPECT_THAT(ErrorOf("ld.global.u64 %rd4, [%rd1+4];"),
              HasSubstr("not a multiple"));
  EXPECT_THAT(ErrorOf("ld.global.u64 %rd4, [%rd8];"), HasSubstr("global"));
  EXPECT_THAT(ErrorOf("mov.u32 %r2, memory;\nld.shared.u32 %r3, [%r2+256];",
                      {.shared_bytes = 256}),
              HasSubstr("shared memory of 256 bytes"));
  EXPECT_THAT(ErrorOf("ld.param.u32 %r2, [kernel_param_0+8];"),
              HasSubstr("parameters"));
}

TEST(PtxMachine, StopsWhereLanesAreMissing) {
  const std::string half = "setp.lt.s32 %p1, %r1, 16;\n";
  EXPECT_THAT(ErrorOf(half + "@%p1 shfl.sync.idx.b32 %r4|%p2, %r1, 0, 31, -1;"),
              HasSubstr("waits for lanes ffffffff, and only ffff come"));
  EXPECT_THAT(ErrorOf(half + "@%p1 ret;\nbar.sync 0;"),
              HasSubstr("only ffff0000 come"));
  EXPECT_THAT(ErrorOf(half + "shfl.sync.idx.b32 %r4|%p2, %r1, 20, 31, 65535;"),
              HasSubstr("outside its mask"));
  EXPECT_THAT(ErrorOf("setp.lt.s32 %p1, %r1, 32;\n@%p1 ret;\nbar.sync 0;",
                      {.threads = 64}),
              HasSubstr("a barrier that others do not reach"));
}

TEST(PtxMachine, ChecksLaunches) {
  EXPECT_THAT(ErrorOf("", {.blocks = 0}), HasSubstr("0 blocks"));
  EXPECT_THAT(ErrorOf("", {.threads = 40}), HasSubstr("40 threads"));
  EXPECT_THAT(ErrorOf("", {.threads = 512}), HasSubstr("compiled for 256"));
}

}  // namespace
}  // namespace castor::kernels::ptx
