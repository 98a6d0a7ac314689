// Tests what the lanes of a warp do together, against the layouts that the
// manual ("Parallel Thread Execution ISA") states.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/ptx/test_kernel.h"

namespace castor::kernels::ptx {
namespace {

// The lanes that the manual's formula says: https://docs.nvidia.com/cuda/
// parallel-thread-execution, "shfl.sync", with segments of 8 lanes for idx.
TEST(PtxWarp, ShufflesLanes) {
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
TEST(PtxWarp, LoadsMatricesAsTheManualLaysThemOut) {
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
// place. The manual's formulas say which register of which lane holds an
// element: they give rows and columns for an element a0 .. a7, b0 .. b3:
//   a: row = groupID for i < 2 or 4 <= i < 6, else groupID + 8;
//      column = 2 threadID_in_group + (i & 1), + 8 for i >= 4
//   b: row = 2 threadID_in_group + (i & 1), + 8 for i >= 2; column = groupID
//   c: row = groupID for i < 2, else groupID + 8;
//      column = 2 threadID_in_group + (i & 1)
TEST(PtxWarp, MultipliesMatricesAsTheManualLaysThemOut) {
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

}  // namespace
}  // namespace castor::kernels::ptx
