#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/embedding/embedding.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using EmbeddingOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, EmbeddingOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(EmbeddingOnGpu, GivesTheHostsBits) {
  struct Case {
    int64_t rows, channels, vocabulary;
  };
  // 1,024 positions are sorted at once, runs of them are merged.
  for (const Case& c :
       {Case{1, 1, 1}, Case{7, 33, 5}, Case{300, 300, 40}, Case{2100, 24, 3},
        Case{1025, 4, 5000}, Case{0, 8, 4}}) {
    for (DType dtype : kAllTypes) {
      for (bool accumulate : {false, true}) {
        std::vector<int32_t> indices(c.rows);
        for (int32_t& i : indices)
          i = static_cast<int32_t>(random_() %
                                   static_cast<uint64_t>(c.vocabulary));
        const GuardedBuffer table = Normal(dtype, c.vocabulary * c.channels, 1);
        const GuardedBuffer dy = Normal(dtype, c.rows * c.channels, 3);
        const GuardedBuffer before = Normal(dtype, c.rows * c.channels, 0);
        GuardedBuffer y = Like(before, 0);
        GuardedBuffer dtable = Like(table, 0);
        ASSERT_TRUE(
            kernels::Run(host_, EmbeddingForwardArgs{.dtype = dtype,
                                                     .rows = c.rows,
                                                     .channels = c.channels,
                                                     .vocabulary = c.vocabulary,
                                                     .indices = indices.data(),
                                                     .table = table.data(),
                                                     .y = y.data(),
                                                     .accumulate = accumulate})
                .ok());
        ASSERT_TRUE(kernels::Run(
                        host_, EmbeddingBackwardArgs{.dtype = dtype,
                                                     .rows = c.rows,
                                                     .channels = c.channels,
                                                     .vocabulary = c.vocabulary,
                                                     .indices = indices.data(),
                                                     .dy = dy.data(),
                                                     .dtable = dtable.data(),
                                                     .accumulate = accumulate})
                        .ok());
        const int64_t workspace_bytes =
            EmbeddingBackwardArgs{.rows = c.rows}.GpuWorkspaceBytes();
        const GuardedBuffer workspace =
            GuardedBuffer::Workspace(workspace_bytes);
        InEveryOrder([&] {
          GuardedBuffer y2 = Like(before, 1);
          GuardedBuffer dtable2 = Like(table, 2);
          OnDevice on;
          const int32_t* p = on.In(indices);
          ASSERT_TRUE(
              kernels::Run(on.context(),
                           EmbeddingForwardArgs{.dtype = dtype,
                                                .rows = c.rows,
                                                .channels = c.channels,
                                                .vocabulary = c.vocabulary,
                                                .indices = p,
                                                .table = on.In(table),
                                                .y = on.Out(y2),
                                                .accumulate = accumulate})
                  .ok());
          ASSERT_TRUE(kernels::Run(on.context(),
                                   EmbeddingBackwardArgs{
                                       .dtype = dtype,
                                       .rows = c.rows,
                                       .channels = c.channels,
                                       .vocabulary = c.vocabulary,
                                       .indices = p,
                                       .dy = on.In(dy),
                                       .dtable = on.Out(dtable2),
                                       .accumulate = accumulate,
                                       .workspace = on.CopyBytes(
                                           workspace.data(), workspace_bytes)})
                          .ok());
          ASSERT_TRUE(on.Finish().ok());
          ExpectSame(y2, y, "EmbeddingForward");
          ExpectSame(dtable2, dtable, "EmbeddingBackward");
        });
      }
    }
  }
}

TEST_P(EmbeddingOnGpu, TellsOfABadIndexAsTheHostDoes) {
  for (int32_t bad : {-1, 3, 1000}) {
    const std::vector<int32_t> indices = {0, bad};
    GuardedBuffer table = Normal(DType::kFloat32, 6, 0);
    GuardedBuffer y(DType::kFloat32, 4);
    const absl::Status expected =
        kernels::Run(host_, EmbeddingForwardArgs{.dtype = DType::kFloat32,
                                                 .rows = 2,
                                                 .channels = 2,
                                                 .vocabulary = 3,
                                                 .indices = indices.data(),
                                                 .table = table.data(),
                                                 .y = y.data()});
    const absl::Status expected_backward =
        kernels::Run(host_, EmbeddingBackwardArgs{.dtype = DType::kFloat32,
                                                  .rows = 2,
                                                  .channels = 2,
                                                  .vocabulary = 3,
                                                  .indices = indices.data(),
                                                  .dy = y.data(),
                                                  .dtable = table.data()});
    ASSERT_FALSE(expected.ok());
    const int64_t workspace_bytes =
        EmbeddingBackwardArgs{.rows = 2}.GpuWorkspaceBytes();
    const GuardedBuffer workspace = GuardedBuffer::Workspace(workspace_bytes);
    OnDevice on;
    ASSERT_TRUE(kernels::Run(on.context(),
                             EmbeddingForwardArgs{.dtype = DType::kFloat32,
                                                  .rows = 2,
                                                  .channels = 2,
                                                  .vocabulary = 3,
                                                  .indices = on.In(indices),
                                                  .table = on.In(table),
                                                  .y = on.Out(y)})
                    .ok());
    EXPECT_EQ(on.Finish(), expected);
    ASSERT_TRUE(kernels::Run(on.context(),
                             EmbeddingBackwardArgs{
                                 .dtype = DType::kFloat32,
                                 .rows = 2,
                                 .channels = 2,
                                 .vocabulary = 3,
                                 .indices = on.In(indices),
                                 .dy = on.In(y),
                                 .dtable = on.Out(table),
                                 .workspace = on.CopyBytes(workspace.data(),
                                                           workspace_bytes)})
                    .ok());
    EXPECT_EQ(on.Finish(), expected_backward);
    EXPECT_TRUE(on.Finish().ok());  // Told once.
    EXPECT_TRUE(y.GuardsIntact() && table.GuardsIntact());
  }
}

}  // namespace
}  // namespace castor::kernels
