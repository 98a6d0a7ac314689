
#include "kernels/embedding/embedding.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

struct Case {
  int64_t rows, channels, vocabulary;
  bool skewed;  // one index takes half of the rows
};
constexpr Case kCases[] = {
    {0, 5, 3, false},     {1, 1, 1, false},    {7, 15, 4, false},
    {64, 64, 10, false},  {65, 67, 10, true},  {500, 130, 1000, false},
    {3000, 33, 50, true}, {900, 300, 7, true},
};

std::vector<int32_t> Indices(const Case& c, std::mt19937_64& random) {
  std::vector<int32_t> indices(c.rows);
  for (int32_t& index : indices) {
    index =
        static_cast<int32_t>(random() % static_cast<uint64_t>(c.vocabulary));
    if (c.skewed && random() % 2 == 0) index = 1;
  }
  return indices;
}

TEST(EmbeddingForward, CopiesOrAddsRows) {
  std::mt19937_64 random(1);
  for (const Case& c : kCases) {
    for (DType dtype : kAllTypes) {
      for (bool accumulate : {false, true}) {
        const std::vector<int32_t> indices = Indices(c, random);
        GuardedBuffer table(dtype, c.vocabulary * c.channels, 1);
        GuardedBuffer before(dtype, c.rows * c.channels);
        table.FillNormal(random);
        before.FillNormal(random);
        GuardedBuffer expected(dtype, c.rows * c.channels);
        for (int64_t i = 0; i < c.rows * c.channels; ++i) {
          const float row = static_cast<float>(
              table[indices[i / c.channels] * c.channels + i % c.channels]);
          expected.Set(i,
                       accumulate ? static_cast<float>(before[i]) + row : row);
        }
        ForEachTarget([&](const char* target) {
          ForEachPool([&](const ExecContext& context) {
            GuardedBuffer y(dtype, c.rows * c.channels, 3);
            if (accumulate) y.CopyFrom(before);
            ASSERT_TRUE(
                kernels::Run(context,
                             EmbeddingForwardArgs{.dtype = dtype,
                                                  .rows = c.rows,
                                                  .channels = c.channels,
                                                  .vocabulary = c.vocabulary,
                                                  .indices = indices.data(),
                                                  .table = table.data(),
                                                  .y = y.data(),
                                                  .accumulate = accumulate})
                    .ok());
            ASSERT_TRUE(y.GuardsIntact());
            ASSERT_TRUE(y.SameBits(expected))
                << target << " " << c.rows << " " << DTypeName(dtype);
          });
        });
      }
    }
  }
}

TEST(EmbeddingBackward, AddsInOrderOfRowsAndRoundsOnce) {
  std::mt19937_64 random(2);
  for (const Case& c : kCases) {
    for (DType dtype : kAllTypes) {
      for (bool accumulate : {false, true}) {
        const std::vector<int32_t> indices = Indices(c, random);
        GuardedBuffer dy(dtype, c.rows * c.channels, 1);
        GuardedBuffer before(dtype, c.vocabulary * c.channels);
        dy.FillNormal(random);
        before.FillNormal(random);
        GuardedBuffer expected(dtype, c.vocabulary * c.channels);
        if (accumulate) expected.CopyFrom(before);
        for (int64_t v = 0; v < c.vocabulary; ++v) {
          for (int64_t i = 0; i < c.channels; ++i) {
            float sum = 0;
            bool named = false;
            for (int64_t n = 0; n < c.rows; ++n) {
              if (indices[n] != v) continue;
              sum += static_cast<float>(dy[n * c.channels + i]);
              named = true;
            }
            const int64_t at = v * c.channels + i;
            if (!accumulate) {
              expected.Set(at, sum);
            } else if (named) {
              expected.Set(at, static_cast<float>(before[at]) + sum);
            }
          }
        }
        ForEachTarget([&](const char* target) {
          ForEachPool([&](const ExecContext& context) {
            GuardedBuffer dtable(dtype, c.vocabulary * c.channels, 2);
            if (accumulate) dtable.CopyFrom(before);
            ASSERT_TRUE(
                kernels::Run(context,
                             EmbeddingBackwardArgs{.dtype = dtype,
                                                   .rows = c.rows,
                                                   .channels = c.channels,
                                                   .vocabulary = c.vocabulary,
                                                   .indices = indices.data(),
                                                   .dy = dy.data(),
                                                   .dtable = dtable.data(),
                                                   .accumulate = accumulate})
                    .ok());
            ASSERT_TRUE(dtable.GuardsIntact());
            ASSERT_TRUE(dtable.SameBits(expected))
                << target << " " << c.rows << " " << DTypeName(dtype);
          });
        });
      }
    }
  }
}

TEST(Embedding, BackwardIsTheAdjointOfForward) {
  // Both are linear in the table: <forward(table), dy> = <table, backward(dy)>.
  std::mt19937_64 random(3);
  const Case c{200, 24, 30, true};
  const std::vector<int32_t> indices = Indices(c, random);
  GuardedBuffer table(DType::kFloat32, 30 * 24), y(DType::kFloat32, 200 * 24);
  GuardedBuffer dy(DType::kFloat32, 200 * 24), dtable(DType::kFloat32, 30 * 24);
  table.FillNormal(random);
  dy.FillNormal(random);
  ThreadPool pool(2);
  const ExecContext context{&pool};
  ASSERT_TRUE(
      kernels::Run(context, EmbeddingForwardArgs{.dtype = DType::kFloat32,
                                                 .rows = 200,
                                                 .channels = 24,
                                                 .vocabulary = 30,
                                                 .indices = indices.data(),
                                                 .table = table.data(),
                                                 .y = y.data()})
          .ok());
  ASSERT_TRUE(
      kernels::Run(context, EmbeddingBackwardArgs{.dtype = DType::kFloat32,
                                                  .rows = 200,
                                                  .channels = 24,
                                                  .vocabulary = 30,
                                                  .indices = indices.data(),
                                                  .dy = dy.data(),
                                                  .dtable = dtable.data()})
          .ok());
  double left = 0, right = 0, size = 0;
  for (int64_t i = 0; i < 200 * 24; ++i) {
    left += y[i] * dy[i];
    size += std::abs(y[i] * dy[i]);
  }
  for (int64_t i = 0; i < 30 * 24; ++i) right += table[i] * dtable[i];
  EXPECT_NEAR(left, right, size * 200 * 0x1p-24);
}

TEST(Embedding, RefusesAnIndexOutsideTheTable) {
  ThreadPool pool(1);
  float table[6] = {}, y[4] = {};
  for (int32_t bad : {-1, 3}) {
    const int32_t indices[2] = {0, bad};
    const absl::Status forward = kernels::Run(
        ExecContext{&pool}, EmbeddingForwardArgs{.dtype = DType::kFloat32,
                                                 .rows = 2,
                                                 .channels = 2,
                                                 .vocabulary = 3,
                                                 .indices = indices,
                                                 .table = table,
                                                 .y = y});
    EXPECT_EQ(forward.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(forward.message().find("position 1"), absl::string_view::npos);
    EXPECT_EQ(kernels::Run(ExecContext{&pool},
                           EmbeddingBackwardArgs{.dtype = DType::kFloat32,
                                                 .rows = 2,
                                                 .channels = 2,
                                                 .vocabulary = 3,
                                                 .indices = indices,
                                                 .dy = y,
                                                 .dtable = table})
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace castor::kernels
