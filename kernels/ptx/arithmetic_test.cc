// Tests what single lanes compute, against values that were derived by hand or
// that the manual ("Parallel Thread Execution ISA") states.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/ptx/test_kernel.h"

namespace castor::kernels::ptx {
namespace {

// Returns the 8 bytes that lane 0 writes after `body` has put them into %rd4.
uint64_t Result(const std::string& body) {
  Array array(kLanes);
  const absl::Status status =
      array.Run(Kernel(absl::StrCat(body, "\nst.global.u64 [%rd2], %rd4;")));
  EXPECT_TRUE(status.ok()) << status;
  return array.values[0];
}

// Returns the result of an instruction whose operands are constants, "op.f32 A,
// B".
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

TEST(PtxArithmetic, CalculatesWithIntegersModuloTheirWidth) {
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
  EXPECT_EQ(Result("mov.u16 %rs1, 65535;\nmul.wide.s16 %r2, %rs1, 256;\n"
                   "cvt.u64.u32 %rd4, %r2;"),
            0xffffff00u);
  EXPECT_EQ(Result64("min.s64", "-1, 1"), ~uint64_t{0});
  EXPECT_EQ(Result64("min.u64", "-1, 1"), 1u);
  EXPECT_EQ(Result32("clz.b32", "65535"), 16u);
  EXPECT_EQ(Result64("bfi.b64", "5, 1, 32, 32"), 0x500000001u);
  // Each picks four bytes of 0x03020100 and 0x87060504: first bytes 0, 4, 0, 0,
  // then 5, 6, 7 and the sign of 7.
  EXPECT_EQ(Result32("prmt.b32", "50462976, -2029648636, 64"), 0x400u);
  EXPECT_EQ(Result32("prmt.b32", "50462976, -2029648636, 63333"), 0xff870605u);
}

TEST(PtxArithmetic, ShiftsEverythingOutBeyondTheWidth) {
  EXPECT_EQ(Result32("shl.b32", "3, 31"), 0x80000000u);
  EXPECT_EQ(Result32("shl.b32", "3, 32"), 0u);
  EXPECT_EQ(Result32("shr.u32", "-1, 31"), 1u);
  EXPECT_EQ(Result32("shr.u32", "-1, 40"), 0u);
  EXPECT_EQ(Result32("shr.s32", "-8, 1"), static_cast<uint32_t>(-4));
  EXPECT_EQ(Result32("shr.s32", "-8, 40"), 0xffffffffu);
  EXPECT_EQ(Result64("shl.b64", "1, 63"), uint64_t{1} << 63);
}

TEST(PtxArithmetic, ShiftsTwoWordsLeftByNoMoreThan31) {
  EXPECT_EQ(Result32("shf.l.wrap.b32", "-2147483648, 1, 4"), 0x18u);
  EXPECT_EQ(Result32("shf.l.wrap.b32", "-2147483648, 1, 36"), 0x18u);
  EXPECT_EQ(Result32("shf.l.wrap.b32", "-2147483648, 1, 32"), 1u);
}

TEST(PtxArithmetic, ComparesBySignAndOrder) {
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

TEST(PtxArithmetic, RoundsOnceAndTheRightWay) {
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

// The host's own fused operation, rounding down.
TEST(PtxArithmetic, RoundsDownAsTheHostDoes) {
  std::mt19937_64 random(7);
  const auto any = [&] {
    // They have all sizes, denormals included, but mostly such that they meet.
    const auto exponent = static_cast<int>(random() % 40) - 20;
    const auto fraction = static_cast<float>(random() % (1 << 24)) * 0x1p-23f;
    const float sign = random() % 2 == 0 ? -1.0f : 1.0f;
    return sign * std::ldexp(fraction, random() % 8 == 0 ? -140 : exponent);
  };
  for (int i = 0; i < 1000; ++i) {
    const volatile float a = any(), b = any(), c = any();
    ASSERT_EQ(std::fesetround(FE_DOWNWARD), 0);
    const volatile float expected = std::fma(a, b, c);
    ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
    const float got = ResultFloat("fma.rm.f32", {a, b, c});
    ASSERT_EQ(got, expected) << a << " " << b << " " << c;
  }
}

TEST(PtxArithmetic, TakesTheNumberOfANumberAndANan) {
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

TEST(PtxArithmetic, ApproximatesAsBadlyAsItMay) {
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

TEST(PtxArithmetic, TakesDenormalsForZerosWhereItShould) {
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
TEST(PtxArithmetic, ConvertsTo16BitsAndBack) {
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

TEST(PtxArithmetic, TakesRegistersApartAndPutsThemTogether) {
  EXPECT_EQ(Result("{\n.reg .b32 %temp;\nmov.b64 %rd5, 0x500000007;\n"
                   "mov.b64 {%r2, %temp}, %rd5;\nmov.b64 {%temp, %r3}, %rd5;\n}"
                   "\nmov.b64 %rd4, {%r3, %r2};"),
            0x700000005u);
  EXPECT_EQ(Result("{ .reg .b32 tmp; mov.b64 {tmp, %r2}, 0x500000007; }\n"
                   "cvt.u64.u32 %rd4, %r2;"),
            5u);
}

}  // namespace
}  // namespace castor::kernels::ptx
