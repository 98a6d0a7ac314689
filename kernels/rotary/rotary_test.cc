#include "kernels/rotary/rotary.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

struct Sizes {
  int64_t rows, length, heads, head_size, channels, stride, begin;
};
// Heads and halves on both sides of vectors, whole and in part, packed and in
// wider rows, one sequence and several, one that does not end.
constexpr Sizes kSizes[] = {
    {0, 1, 1, 2, 2, 2, 0},      {1, 1, 1, 2, 2, 2, 0},
    {6, 3, 2, 6, 6, 12, 0},     {6, 3, 3, 6, 4, 20, 2},
    {5, 5, 1, 34, 34, 34, 0},   {4, 2, 3, 64, 64, 192, 7},
    {4, 2, 3, 80, 32, 241, 0},  {3, 4, 2, 5, 0, 10, 0},
    {60, 30, 9, 64, 64, 577, 0}};

std::string NameOf(const Sizes& s) {
  return absl::StrCat(s.rows, " rows of ", s.length, ", ", s.heads,
                      " heads of ", s.head_size, ", ", s.channels,
                      " turning, every ", s.stride, " from ", s.begin);
}

// Returns what transformers' apply_rotary_pos_emb computes in fp32, element by
// element: x cos + rotate_half(x) sin, where cos and sin are the tables twice
// side by side and rotate_half(x) is (-x[R / 2 ..], x[.. R / 2]).
float Expected(const GuardedBuffer& x, int64_t head, int64_t d, const Sizes& s,
               const float* cos, const float* sin) {
  const float value = static_cast<float>(x[head + d]);
  if (d >= s.channels) return value;
  const int64_t half = s.channels / 2;
  const float rotated = d < half ? -static_cast<float>(x[head + d + half])
                                 : static_cast<float>(x[head + d - half]);
  const float first = value * cos[d % half];
  const float second = rotated * sin[d % half];
  return first + second;
}

class RotaryOf {
 public:
  RotaryOf(const Sizes& s, DType dtype, std::mt19937_64& random)
      : s_(s),
        x(dtype, s.rows * s.stride, 1),
        cos(DType::kFloat32, (s.begin + s.length) * s.channels / 2, 2),
        sin(DType::kFloat32, (s.begin + s.length) * s.channels / 2, 3) {
    x.FillNormal(random);
    cos.FillNormal(random);
    sin.FillNormal(random);
  }

  RotaryArgs Args(const void* from, void* to) {
    return {.dtype = x.dtype(),
            .rows = s_.rows,
            .length = s_.length,
            .heads = s_.heads,
            .head_size = s_.head_size,
            .channels = s_.channels,
            .stride = s_.stride,
            .begin = s_.begin,
            .cos = cos.floats(),
            .sin = sin.floats(),
            .x = from,
            .y = to};
  }

  // `before` where no head lies.
  void ExpectTurned(const GuardedBuffer& y, const GuardedBuffer& before,
                    float sign) {
    ASSERT_TRUE(y.GuardsIntact());
    GuardedBuffer expected(x.dtype(), x.size());
    expected.CopyFrom(before);
    const int64_t half = s_.channels / 2;
    for (int64_t n = 0; n < s_.rows; ++n) {
      const int64_t at = (s_.begin + n % s_.length) * half;
      std::vector<float> signed_sin(half);
      for (int64_t i = 0; i < half; ++i) {
        signed_sin[i] = sign * sin.floats()[at + i];
      }
      for (int64_t h = 0; h < s_.heads; ++h) {
        const int64_t head = n * s_.stride + h * s_.head_size;
        for (int64_t d = 0; d < s_.head_size; ++d) {
          expected.Set(head + d, Expected(x, head, d, s_, cos.floats() + at,
                                          signed_sin.data()));
        }
      }
    }
    EXPECT_TRUE(y.SameBits(expected));
  }

 private:
  const Sizes s_;

 public:
  GuardedBuffer x, cos, sin;
};

TEST(Rotary, HasTheBitsOfRotateHalf) {
  std::mt19937_64 random(5);
  ForEachTarget([&](const char* target) {
    ForEachPool([&](const ExecContext& context) {
      for (DType dtype : kAllTypes) {
        for (const Sizes& sizes : kSizes) {
          SCOPED_TRACE(
              absl::StrCat(target, " ", DTypeName(dtype), " ", NameOf(sizes)));
          RotaryOf r(sizes, dtype, random);
          for (bool inverse : {false, true}) {
            GuardedBuffer y(dtype, r.x.size(), 3), before(dtype, r.x.size());
            y.FillNormal(random);
            before.CopyFrom(y);
            RotaryArgs args = r.Args(r.x.data(), y.data());
            args.inverse = inverse;
            ASSERT_TRUE(kernels::Run(context, args).ok());
            r.ExpectTurned(y, before, inverse ? -1 : 1);
            y.CopyFrom(r.x);
            args.x = y.data();
            ASSERT_TRUE(kernels::Run(context, args).ok());
            r.ExpectTurned(y, r.x, inverse ? -1 : 1);
          }
        }
      }
    });
  });
}

// Documents that share a sequence turn as each does in one of its own.
TEST(Rotary, BeginsAgainInEachDocument) {
  ThreadPool pool(1);
  std::mt19937_64 random(6);
  const std::vector<std::vector<int32_t>> lengths = {{3, 1, 4}, {8}, {2, 6}};
  for (DType dtype : kAllTypes) {
    RotaryOf r({24, 8, 3, 34, 32, 102, 0}, dtype, random);
    std::vector<DocumentRange> documents;
    GuardedBuffer expected(dtype, r.x.size());
    expected.CopyFrom(r.x);
    const int64_t row_bytes = 102 * SizeOf(dtype);
    for (const std::vector<int32_t>& sequence : lengths) {
      int32_t begin = 0;
      for (const int32_t length : sequence) {
        char* const at = static_cast<char*>(expected.data()) +
                         static_cast<int64_t>(documents.size()) * row_bytes;
        documents.insert(documents.end(), length, {begin, begin + length});
        begin += length;
        RotaryArgs alone = r.Args(at, at);
        alone.rows = alone.length = length;
        ASSERT_TRUE(kernels::Run(ExecContext{&pool}, alone).ok());
      }
    }
    GuardedBuffer y(dtype, r.x.size());
    RotaryArgs args = r.Args(r.x.data(), y.data());
    args.documents = documents.data();
    ASSERT_TRUE(kernels::Run(ExecContext{&pool}, args).ok());
    EXPECT_TRUE(y.SameBits(expected));
    args.begin = 1;
    EXPECT_EQ(kernels::Run(ExecContext{&pool}, args).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(Rotary, TurnsAQuarterAndBack) {
  // One head of 4 channels: pair (0, 2) by 90 degrees, pair (1, 3) not at all.
  ThreadPool pool(1);
  const float cos[] = {0, 1}, sin[] = {1, 0};
  float x[] = {1, 2, 3, 4};
  RotaryArgs args = {.rows = 1,
                     .head_size = 4,
                     .channels = 4,
                     .stride = 4,
                     .cos = cos,
                     .sin = sin,
                     .x = x,
                     .y = x};
  ASSERT_TRUE(kernels::Run(ExecContext{&pool}, args).ok());
  EXPECT_EQ(std::vector<float>(x, x + 4), (std::vector<float>{-3, 2, 1, 4}));
  args.inverse = true;
  ASSERT_TRUE(kernels::Run(ExecContext{&pool}, args).ok());
  EXPECT_EQ(std::vector<float>(x, x + 4), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Rotary, RefusesShapesThatItCannotTurn) {
  ThreadPool pool(1);
  const RotaryArgs good = {
      .rows = 0, .head_size = 4, .channels = 4, .stride = 4};
  ASSERT_TRUE(kernels::Run(ExecContext{&pool}, good).ok());
  const auto refused = [&](auto change) {
    RotaryArgs args = good;
    change(args);
    return absl::IsInvalidArgument(kernels::Run(ExecContext{&pool}, args));
  };
  EXPECT_TRUE(refused([](RotaryArgs& a) { a.rows = -1; }));
  EXPECT_TRUE(refused([](RotaryArgs& a) { a.length = 0; }));
  EXPECT_TRUE(refused([](RotaryArgs& a) { a.begin = -1; }));
  EXPECT_TRUE(refused([](RotaryArgs& a) { a.heads = 0; }));
  EXPECT_TRUE(refused([](RotaryArgs& a) { a.channels = 3; }));
  EXPECT_TRUE(refused([](RotaryArgs& a) { a.channels = 6; }));
  EXPECT_TRUE(refused([](RotaryArgs& a) { a.stride = 3; }));
  EXPECT_TRUE(refused([](RotaryArgs& a) {
    a.heads = int64_t{1} << 29;
    a.stride = int64_t{1} << 40;
  }));
}

}  // namespace
}  // namespace castor::kernels
