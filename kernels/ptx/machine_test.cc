// The machine against values that were computed by hand or that the manual
// ("Parallel Thread Execution ISA") states, in small kernels written for this.
#include "kernels/ptx/machine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A kernel of one parameter, an array in global memory, whose address is in
// %rd1; %r1 is the thread and %rd2 its place of 8 bytes in the array.
std::string Kernel(const std::string& body) {
  return absl::StrCat(R"(
.version 9.0
.target sm_80
.address_size 64

.extern .shared .align 16 .b8 memory[];

.visible .entry kernel(
.param .u64 kernel_param_0
)
.maxntid 256, 1, 1
{
.reg .pred %p<9>;
.reg .b16 %rs<9>;
.reg .f32 %f<33>;
.reg .b32 %r<33>;
.reg .f64 %fd<9>;
.reg .b64 %rd<9>;
.loc	1 26 0

ld.param.u64 %rd3, [kernel_param_0];
cvta.to.global.u64 %rd1, %rd3;
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 8;
add.s64 %rd2, %rd1, %rd2;
)",
                      body, "\nret;\n}\n");
}

// An array that a kernel works on.
struct Array {
  explicit Array(int64_t size) : values(size) {
    memory.Add(values.data(), size * 8);
  }

  absl::Status Run(const std::string& text, Launch launch = {}) {
    auto library = Library::Create(text);
    if (!library.ok()) return library.status();
    auto program = library->Find("kernel");
    if (!program.ok()) return program.status();
    const uint64_t* const address = values.data();
    uint8_t parameters[8];
    std::memcpy(parameters, &address, 8);
    return ptx::Run(*program, launch, parameters, memory);
  }

  std::vector<uint64_t> values;
  GlobalMemory memory;
};

// What lane 0 writes, as 8 bytes, after `body` has put it into %rd4.
uint64_t Result(const std::string& body) {
  Array array(kLanes);
  const absl::Status status =
      array.Run(Kernel(absl::StrCat(body, "\nst.global.u64 [%rd2], %rd4;")));
  EXPECT_TRUE(status.ok()) << status;
  return array.values[0];
}

// Of an instruction whose operands are constants, "op.f32 A, B".
uint32_t Result32(const std::string& name, const std::string& operands) {
  return static_cast<uint32_t>(Result(
      absl::StrCat(name, " %r2, ", operands, ";\ncvt.u64.u32 %rd4, %r2;")));
}
float ResultFloat(const std::string& name, std::vector<float> operands) {
  std::string list;
  for (float operand : operands) {
    absl::StrAppend(
        &list, list.empty() ? "" : ", ", "0f",
        absl::Hex(std::bit_cast<uint32_t>(operand), absl::kZeroPad8));
  }
  return std::bit_cast<float>(Result32(name, list));
}
uint64_t Result64(const std::string& name, const std::string& operands) {
  return Result(absl::StrCat(name, " %rd4, ", operands, ";"));
}
bool Holds(const std::string& name, const std::string& operands) {
  return Result(absl::StrCat(name, " %p1, ", operands,
                             ";\nselp.u64 %rd4, 1, 0, %p1;")) == 1;
}

TEST(PtxMachine, CalculatesWithIntegersModuloTheirWidth) {
  EXPECT_EQ(Result32("add.s32", "2147483647, 1"), 0x80000000u);
  EXPECT_EQ(Result32("sub.s32", "0, 1"), 0xffffffffu);
  EXPECT_EQ(Result32("mul.lo.s32", "65537, 65537"), 131073u);
  EXPECT_EQ(Result32("mad.lo.s32", "-3, 5, 7"), static_cast<uint32_t>(-8));
  EXPECT_EQ(Result32("div.s32", "-7, 2"), static_cast<uint32_t>(-3));
  EXPECT_EQ(Result32("rem.s32", "-7, 2"), static_cast<uint32_t>(-1));
  EXPECT_EQ(Result32("div.u32", "-7, 2"), 0x7ffffffcu);
  EXPECT_EQ(Result64("mul.wide.s32", "-2, 2147483647"),
            static_cast<uint64_t>(-4294967294));
  EXPECT_EQ(Result64("mul.wide.u32", "-2, 2"), 0x1fffffffcu);
  EXPECT_EQ(Result("mov.u16 %rs1, 65535;\nmul.wide.u16 %r2, %rs1, %rs1;\n"
                   "cvt.u64.u32 %rd4, %r2;"),
            0xfffe0001u);
  EXPECT_EQ(Result64("min.s64", "-1, 1"), ~uint64_t{0});
  EXPECT_EQ(Result64("min.u64", "-1, 1"), 1u);
  EXPECT_EQ(Result32("clz.b32", "65535"), 16u);
  EXPECT_EQ(Result64("bfi.b64", "5, 1, 32, 32"), 0x500000001u);
}

TEST(PtxMachine, ShiftsEverythingOutBeyondTheWidth) {
  EXPECT_EQ(Result32("shl.b32", "3, 31"), 0x80000000u);
  EXPECT_EQ(Result32("shl.b32", "3, 32"), 0u);
  EXPECT_EQ(Result32("shr.u32", "-1, 31"), 1u);
  EXPECT_EQ(Result32("shr.u32", "-1, 40"), 0u);
  EXPECT_EQ(Result32("shr.s32", "-8, 1"), static_cast<uint32_t>(-4));
  EXPECT_EQ(Result32("shr.s32", "-8, 40"), 0xffffffffu);
  EXPECT_EQ(Result64("shl.b64", "1, 63"), uint64_t{1} << 63);
}

TEST(PtxMachine, ComparesBySignAndOrder) {
  EXPECT_TRUE(Holds("setp.lt.s32", "-1, 0"));
  EXPECT_FALSE(Holds("setp.lt.u32", "-1, 0"));
  EXPECT_TRUE(Holds("setp.ge.s64", "-1, -1"));
  EXPECT_TRUE(Holds("setp.gt.u64", "-1, 1"));
  EXPECT_TRUE(Holds("setp.ne.s16", "65535, 0"));
  const std::string nan = "0f7FC00000";
  const std::string one = "0f3F800000";
  for (const char* compared : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    EXPECT_FALSE(Holds(absl::StrCat("setp.", compared, ".f32"),
                       absl::StrCat(nan, ", ", one)))
        << compared;
    EXPECT_TRUE(Holds(absl::StrCat("setp.", compared, "u.f32"),
                      absl::StrCat(nan, ", ", one)))
        << compared;
  }
  EXPECT_TRUE(Holds("setp.leu.f32", absl::StrCat(one, ", ", one)));
  EXPECT_FALSE(Holds("setp.ltu.f32", absl::StrCat(one, ", ", one)));
}

TEST(PtxMachine, RoundsOnceAndTheRightWay) {
  // 1 + 2^-24 is halfway between 1 and the next float: to the even one.
  EXPECT_EQ(ResultFloat("add.rn.f32", {1.0f, 0x1p-24f}), 1.0f);
  EXPECT_EQ(ResultFloat("add.rn.f32", {1.0f, 0x1.8p-24f}), 0x1.000002p0f);
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24; the product alone would lose the last.
  EXPECT_EQ(ResultFloat("fma.rn.f32", {0x1.001p0f, 0x1.001p0f, -0x1.002p0f}),
            0x1p-24f);
  EXPECT_EQ(ResultFloat("mul.rn.f32", {0x1.001p0f, 0x1.001p0f}), 0x1.002p0f);
  // Down: below 1 where a tiny part is missing, though the nearest is 1.
  EXPECT_EQ(ResultFloat("fma.rm.f32", {1.0f, 1.0f, -0x1p-80f}), 0x1.fffffep-1f);
  EXPECT_EQ(ResultFloat("fma.rm.f32", {1.0f, 1.0f, 0x1p-80f}), 1.0f);
  EXPECT_EQ(ResultFloat("fma.rm.f32", {-1.0f, 1.0f, -0x1p-80f}),
            -0x1.000002p0f);
  EXPECT_EQ(ResultFloat("fma.rm.f32", {0x1.001p0f, 0x1.001p0f, 0x1p-25f}),
            0x1.002p0f);
  EXPECT_EQ(ResultFloat("fma.rn.f32", {0x1.001p0f, 0x1.001p0f, 0x1p-25f}),
            0x1.002002p0f);
  EXPECT_EQ(ResultFloat("fma.rm.f32", {3.0f, 5.0f, 1.0f}), 16.0f);
  EXPECT_EQ(ResultFloat("div.rn.f32", {1.0f, 3.0f}), 0x1.555556p-2f);
  EXPECT_EQ(ResultFloat("sqrt.rn.f32", {2.0f}), 0x1.6a09e6p0f);
  // Denormals stay.
  EXPECT_EQ(ResultFloat("mul.rn.f32", {0x1p-126f, 0.5f}), 0x1p-127f);
  EXPECT_EQ(ResultFloat("div.rn.f32", {0x1p-126f, 4.0f}), 0x1p-128f);
  // 2^-1 of one unit of fp64, which fp32 would not see.
  EXPECT_EQ(Result("fma.rn.f64 %fd1, 0d3FF0000000000001, 0d3FF0000000000001, "
                   "0dBFF0000000000002;\nmov.b64 %rd4, %fd1;"),
            std::bit_cast<uint64_t>(0x1p-104));
}

TEST(PtxMachine, TakesTheNumberOfANumberAndANan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ResultFloat("max.f32", {nan, -1.0f}), -1.0f);
  EXPECT_EQ(ResultFloat("max.f32", {-2.0f, nan}), -2.0f);
  EXPECT_TRUE(std::isnan(ResultFloat("max.f32", {nan, nan})));
  EXPECT_FALSE(std::signbit(ResultFloat("max.f32", {-0.0f, 0.0f})));
  EXPECT_EQ(ResultFloat("copysign.f32", {-1.0f, 3.0f}), -3.0f);
}

// The distance of two positive floats, in units in the last place.
int64_t Units(float got, double right) {
  return std::abs(int64_t{std::bit_cast<uint32_t>(got)} -
                  std::bit_cast<uint32_t>(static_cast<float>(right)));
}

TEST(PtxMachine, ApproximatesAsBadlyAsItMay) {
  int64_t worst_power = 0, worst_reciprocal = 0;
  for (float x = -20.0f; x < 20; x += 0.37f) {
    worst_power = std::max(
        worst_power,
        Units(ResultFloat("ex2.approx.ftz.f32", {x}), std::exp2(double{x})));
    if (x < 0) continue;
    worst_reciprocal = std::max(
        worst_reciprocal,
        Units(ResultFloat("rcp.approx.ftz.f32", {x}), 1.0 / double{x}));
  }
  EXPECT_EQ(worst_power, 2);
  EXPECT_EQ(worst_reciprocal, 1);
}

TEST(PtxMachine, TakesDenormalsForZerosWhereItShould) {
  EXPECT_EQ(ResultFloat("ex2.approx.ftz.f32", {-128.0f}), 0.0f);
  EXPECT_LE(Units(ResultFloat("ex2.approx.f32", {-128.0f}), 0x1p-128), 2);
  EXPECT_EQ(ResultFloat("ex2.approx.ftz.f32", {0.0f}), 1.0f);
  EXPECT_EQ(ResultFloat("ex2.approx.ftz.f32",
                        {-std::numeric_limits<float>::infinity()}),
            0.0f);
  EXPECT_EQ(ResultFloat("rcp.approx.ftz.f32", {0x1.8p127f}), 0.0f);
  EXPECT_TRUE(std::isinf(ResultFloat("rcp.approx.ftz.f32", {0x1p-127f})));
  // 1/3 to its upper 32 bits.
  EXPECT_EQ(Result("mov.f64 %fd1, 0d4008000000000000;\n"
                   "rcp.approx.ftz.f64 %fd2, %fd1;\nmov.b64 %rd4, %fd2;"),
            0x3fd5555500000000u);
}

// Bits from the formats' definitions: fp16 has 5 bits of exponent and 10 of
// fraction, bf16 8 and 7.
TEST(PtxMachine, ConvertsTo16BitsAndBack) {
  const auto halves = [](const std::string& type, float high, float low) {
    return Result(absl::StrCat(
        "mov.b32 %f1, 0f",
        absl::Hex(std::bit_cast<uint32_t>(high), absl::kZeroPad8),
        ";\nmov.b32 %f2, 0f",
        absl::Hex(std::bit_cast<uint32_t>(low), absl::kZeroPad8), ";\ncvt.rn.",
        type, ".f32 %r2, %f1, %f2;\ncvt.u64.u32 %rd4, %r2;"));
  };
  EXPECT_EQ(halves("f16x2", 1.0f, -2.0f), 0x3c00c000u);
  EXPECT_EQ(halves("bf16x2", 1.0f, -2.0f), 0x3f80c000u);
  // Halfway between two numbers: to the even one. 65520 is where fp16 ends.
  EXPECT_EQ(halves("f16x2", 1 + 0x1p-11f, 1 + 0x1.8p-10f), 0x3c003c02u);
  EXPECT_EQ(halves("bf16x2", 1 + 0x1p-8f, 1 + 0x1.8p-7f), 0x3f803f82u);
  EXPECT_EQ(halves("f16x2", 65519.0f, 65520.0f), 0x7bff7c00u);
  // Denormals of fp16.
  EXPECT_EQ(halves("f16x2", 0x1p-24f, 0x1p-25f), 0x00010000u);
  EXPECT_EQ(Result("mov.u16 %rs1, 15361;\ncvt.f32.f16 %f1, %rs1;\n"
                   "mov.b32 %r2, %f1;\ncvt.u64.u32 %rd4, %r2;"),
            std::bit_cast<uint32_t>(1 + 0x1p-10f));
  EXPECT_EQ(ResultFloat("cvt.sat.f32.f32", {1.5f}), 1.0f);
  EXPECT_EQ(ResultFloat("cvt.rni.f32.f32", {2.5f}), 2.0f);
  EXPECT_EQ(ResultFloat("cvt.rzi.f32.f32", {-2.5f}), -2.0f);
  EXPECT_EQ(Result64("cvt.s64.s32", "-5"), static_cast<uint64_t>(-5));
}

TEST(PtxMachine, TakesRegistersApartAndPutsThemTogether) {
  EXPECT_EQ(Result("{\n.reg .b32 %temp;\nmov.b64 %rd5, 0x500000007;\n"
                   "mov.b64 {%r2, %temp}, %rd5;\nmov.b64 {%temp, %r3}, %rd5;\n}"
                   "\nmov.b64 %rd4, {%r3, %r2};"),
            0x700000005u);
  EXPECT_EQ(Result("{ .reg .b32 tmp; mov.b64 {tmp, %r2}, 0x500000007; }\n"
                   "cvt.u64.u32 %rd4, %r2;"),
            5u);
}

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

// The lanes that the manual's formula says: https://docs.nvidia.com/cuda/
// parallel-thread-execution, "shfl.sync", with segments of 8 lanes for idx.
TEST(PtxMachine, ShufflesLanes) {
  const auto shuffled = [](const std::string& text) {
    Array array(kLanes);
    const absl::Status status = array.Run(
        Kernel(absl::StrCat(text,
                            "\nselp.u32 %r5, 100, 0, %p1;\n"
                            "add.s32 %r4, %r4, %r5;\ncvt.u64.u32 %rd4, %r4;\n"
                            "st.global.u64 [%rd2], %rd4;")));
    EXPECT_TRUE(status.ok()) << status;
    return array.values;
  };
  const auto down = shuffled("shfl.sync.down.b32 %r4|%p1, %r1, 16, 31, -1;");
  const auto up = shuffled("shfl.sync.up.b32 %r4|%p1, %r1, 1, 0, -1;");
  const auto xored = shuffled("shfl.sync.bfly.b32 %r4|%p1, %r1, 5, 31, -1;");
  const auto first = shuffled("shfl.sync.idx.b32 %r4|%p1, %r1, 2, 6175, -1;");
  for (uint64_t i = 0; i < kLanes; ++i) {
    EXPECT_EQ(down[i], i < 16 ? i + 16 + 100 : i);
    EXPECT_EQ(up[i], i > 0 ? i - 1 + 100 : 0);
    EXPECT_EQ(xored[i], (i ^ 5) + 100);
    EXPECT_EQ(first[i], i / 8 * 8 + 2 + 100);  // 6175 = 24 << 8 | 31
  }
}

// 16-bit element c of row r of the matrix m is 64 m + 8 r + c.
TEST(PtxMachine, LoadsMatricesAsTheManualLaysThemOut) {
  const auto loaded = [](const std::string& how) {
    Array array(2 * kLanes);
    const absl::Status status = array.Run(
        Kernel(absl::StrCat(R"(
mov.u32 %r2, memory;
shl.b32 %r3, %r1, 4;
add.s32 %r3, %r2, %r3;
shl.b32 %r4, %r1, 3;
add.s32 %r5, %r4, 1;
shl.b32 %r5, %r5, 16;
or.b32 %r6, %r4, %r5;
add.s32 %r7, %r6, 131074;
add.s32 %r8, %r7, 131074;
add.s32 %r9, %r8, 131074;
st.shared.v4.u32 [%r3], {%r6, %r7, %r8, %r9};
bar.warp.sync -1;
ldmatrix.sync.aligned.m8n8.x4.)",
                            how, R"(shared.b16 {%r10, %r11, %r12, %r13}, [%r3];
shl.b32 %r14, %r1, 4;
cvt.u64.u32 %rd5, %r14;
add.s64 %rd5, %rd1, %rd5;
st.global.v4.u32 [%rd5], {%r10, %r11, %r12, %r13};
)")),
        {.shared_bytes = 512});
    EXPECT_TRUE(status.ok()) << status;
    std::vector<uint32_t> words(4 * kLanes);
    std::memcpy(words.data(), array.values.data(), 16 * kLanes);
    return words;
  };
  const auto pair = [](uint32_t low, uint32_t high) {
    return low | high << 16;
  };
  const std::vector<uint32_t> plain = loaded("");
  const std::vector<uint32_t> transposed = loaded("trans.");
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t row = lane / 4;
      const uint32_t column = 2 * (lane % 4);
      const uint32_t at = 64 * m + 8 * row + column;
      EXPECT_EQ(plain[4 * lane + m], pair(at, at + 1)) << lane;
      const uint32_t across = 64 * m + 8 * column + row;
      EXPECT_EQ(transposed[4 * lane + m], pair(across, across + 8)) << lane;
    }
  }
}

// One element of a and one of b are 1 and 2, and c's are 0.25: a product in one
// place. Which register of which lane holds an element, by the manual's
// formulas, which give rows and columns for an element a0 .. a7, b0 .. b3:
//   a: row = groupID for i < 2 or 4 <= i < 6, else groupID + 8;
//      column = 2 threadID_in_group + (i & 1), + 8 for i >= 4
//   b: row = 2 threadID_in_group + (i & 1), + 8 for i >= 2; column = groupID
//   c: row = groupID for i < 2, else groupID + 8;
//      column = 2 threadID_in_group + (i & 1)
TEST(PtxMachine, MultipliesMatricesAsTheManualLaysThemOut) {
  struct Case {
    uint32_t a_lane, a_element, b_lane, b_element;
  };
  for (const std::string type : {"f16", "bf16"}) {
    const uint32_t one = type == "f16" ? 0x3c00 : 0x3f80;
    const uint32_t two = 0x4000;
    for (const Case& c :
         {Case{0, 0, 0, 0}, Case{6, 1, 10, 1}, Case{29, 3, 5, 1},
          Case{13, 4, 1, 2}, Case{31, 7, 31, 3}, Case{2, 6, 30, 2},
          Case{3, 2, 4, 0}}) {
      std::string text;
      const auto set = [&](int first, int registers, uint32_t lane,
                           uint32_t element, uint32_t value) {
        for (int i = 0; i < registers; ++i) {
          absl::StrAppend(&text, "mov.u32 %r", first + i, ", 0;\n");
        }
        absl::StrAppend(&text, "setp.eq.s32 %p1, %r1, ", lane,
                        ";\n@%p1 mov.u32 %r", first + element / 2, ", ",
                        value << (16 * (element % 2)), ";\n");
      };
      set(10, 4, c.a_lane, c.a_element, one);
      set(20, 2, c.b_lane, c.b_element, two);
      for (int i = 1; i <= 4; ++i) {
        absl::StrAppend(&text, "mov.f32 %f", i, ", 0f3E800000;\n");
      }
      absl::StrAppend(&text, "mma.sync.aligned.m16n8k16.row.col.f32.", type,
                      ".", type, R"(.f32 {%f1, %f2, %f3, %f4}, )",
                      "{%r10, %r11, %r12, %r13}, {%r20, %r21}, ",
                      R"({%f1, %f2, %f3, %f4};
shl.b32 %r14, %r1, 4;
cvt.u64.u32 %rd5, %r14;
add.s64 %rd5, %rd1, %rd5;
st.global.v4.f32 [%rd5], {%f1, %f2, %f3, %f4};
)");
      Array array(2 * kLanes);
      const absl::Status status = array.Run(Kernel(text));
      ASSERT_TRUE(status.ok()) << status;
      std::vector<float> got(4 * kLanes);
      std::memcpy(got.data(), array.values.data(), 16 * kLanes);

      const uint32_t i = c.a_element;
      const uint32_t row = c.a_lane / 4 + (i < 2 || (i >= 4 && i < 6) ? 0 : 8);
      const uint32_t a_column = 2 * (c.a_lane % 4) + (i & 1) + (i >= 4 ? 8 : 0);
      const uint32_t b_row =
          2 * (c.b_lane % 4) + (c.b_element & 1) + (c.b_element >= 2 ? 8 : 0);
      const uint32_t column = c.b_lane / 4;
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        for (uint32_t e = 0; e < 4; ++e) {
          const bool is_there = a_column == b_row &&
                                lane / 4 + (e < 2 ? 0 : 8) == row &&
                                2 * (lane % 4) + (e & 1) == column;
          EXPECT_EQ(got[4 * lane + e], is_there ? 2.25f : 0.25f)
              << type << " " << lane << " " << e;
        }
      }
    }
  }
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
