#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/rotary/rotary.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using RotaryOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, RotaryOnGpu, testing::Bool(), AlignmentName);

struct Sizes {
  int64_t rows, length, heads, head_size, channels, stride, begin;
};
// Rows of less and of more pieces than a block has threads, in runs and not.
constexpr Sizes kSizes[] = {
    {0, 1, 1, 2, 2, 2, 0},      {7, 7, 1, 8, 8, 8, 0},
    {6, 3, 2, 6, 4, 14, 2},     {70, 35, 3, 16, 8, 48, 1},
    {5, 5, 3, 64, 64, 192, 0},  {4, 2, 40, 64, 64, 2560, 3},
    {3, 3, 33, 80, 32, 2640, 0}};

// Each sequence is two documents, or one of a single row.
std::vector<DocumentRange> Halves(int64_t rows, int64_t length) {
  std::vector<DocumentRange> documents;
  const int32_t end = static_cast<int32_t>(length);
  for (int64_t n = 0; n < rows; ++n) {
    const bool first = n % length < length / 2;
    documents.push_back(first ? DocumentRange{0, end / 2}
                              : DocumentRange{end / 2, end});
  }
  return documents;
}

TEST_P(RotaryOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (const Sizes& s : kSizes) {
      const int64_t table = (s.begin + s.length) * s.channels / 2;
      const GuardedBuffer x = Normal(dtype, s.rows * s.stride, 1);
      GuardedBuffer cos = Normal(DType::kFloat32, table, 2);
      GuardedBuffer sin = Normal(DType::kFloat32, table, 3);
      const GuardedBuffer before = Normal(dtype, x.size(), 1);
      std::vector<DocumentRange> documents;
      if (s.begin == 0) documents = Halves(s.rows, s.length);
      for (bool inverse : {false, true}) {
        RotaryArgs args = {
            .dtype = dtype,
            .rows = s.rows,
            .length = s.length,
            .heads = s.heads,
            .head_size = s.head_size,
            .channels = s.channels,
            .stride = s.stride,
            .begin = s.begin,
            .documents = documents.empty() ? nullptr : documents.data(),
            .cos = cos.floats(),
            .sin = sin.floats(),
            .inverse = inverse,
            .x = x.data()};
        GuardedBuffer expected = Like(before, 0);
        args.y = expected.data();
        ASSERT_TRUE(kernels::Run(host_, args).ok());
        GuardedBuffer turned = Like(x, 0);
        args.x = args.y = turned.data();
        ASSERT_TRUE(kernels::Run(host_, args).ok());
        InEveryOrder([&] {
          GuardedBuffer y = Like(before, 3);
          GuardedBuffer in_place = Like(x, 1);
          OnDevice on;
          RotaryArgs there = args;
          there.cos = static_cast<const float*>(on.In(cos));
          there.sin = static_cast<const float*>(on.In(sin));
          if (!documents.empty()) there.documents = on.In(documents);
          there.x = on.In(x);
          there.y = on.Out(y);
          ASSERT_TRUE(kernels::Run(on.context(), there).ok());
          there.y = on.Out(in_place);
          there.x = there.y;
          ASSERT_TRUE(kernels::Run(on.context(), there).ok());
          ASSERT_TRUE(on.Finish().ok());
          ExpectSame(y, expected, "Rotary");
          ExpectSame(in_place, turned, "Rotary in place");
        });
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels
