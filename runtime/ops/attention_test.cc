#include "runtime/ops/attention.h"

#include <gtest/gtest.h>

#include <string>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

struct Sizes {
  int64_t batch, length, heads, head_size;
  float dropout;
};

GradientCase AttentionCase(const Sizes& s) {
  GradientCase c;
  c.shape = {.batch = s.batch, .length = s.length};
  const int64_t channels = s.heads * s.head_size;
  c.make = Between(3, channels, [=]() -> Layer {
    return [=, qkv = nn::Linear("qkv", 3, 3 * channels)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor y, qkv(engine, x));
      return ops::CausalAttention(engine, y, s.heads, s.dropout, "attn");
    };
  });
  return c;
}

class AttentionTest : public ::testing::TestWithParam<Sizes> {};

TEST_P(AttentionTest, GradientsAreTheLosssSlope) {
  const absl::Status status = CheckGradients(AttentionCase(GetParam()));
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(OddSizes, AttentionTest,
                         ::testing::Values(Sizes{1, 1, 1, 1, 0.0f},
                                           Sizes{2, 3, 2, 3, 0.0f},
                                           Sizes{1, 7, 1, 5, 0.0f},
                                           Sizes{3, 5, 3, 1, 0.0f},
                                           Sizes{2, 5, 2, 2, 0.25f}));

// Attention over a tensor of `width` channels.
GradientCase WidthCase(int64_t width, int64_t heads) {
  GradientCase c;
  c.make = Between(3, 3, [=]() -> Layer {
    return [=, qkv = nn::Linear("qkv", 3, width)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor y, qkv(engine, x));
      return ops::CausalAttention(engine, y, heads, 0.0f, "attn");
    };
  });
  return c;
}

TEST(Attention, RefusesAWidthThatItsHeadsDoNotShare) {
  struct Case {
    int64_t width, heads;
  };
  // The cases: a width that is not three parts, three parts that two heads do
  // not share, no heads.
  for (const Case& s :
       {Case{10, 1}, Case{9, 2}, Case{3, 2}, Case{9, 0}, Case{9, -1}}) {
    const absl::Status status =
        CheckRefusal(WidthCase(s.width, s.heads),
                     {"\"attn\" of " + std::to_string(s.heads) + " heads",
                      Shape{2, 3, s.width}.ToString()});
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Attention, RefusesATensorOfAnotherRank) {
  GradientCase c;
  c.make = []() -> LossFunction {
    return [](Engine& engine, const Tensor& tokens, const Tensor&) {
      return ops::CausalAttention(engine, tokens, 1, 0.0f, "attn");
    };
  };
  const absl::Status status = CheckRefusal(c, {"\"attn\"", "[2, 3]"});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Attention, DryPassRefusesWhatTheKernelWould) {
  absl::Status status =
      CheckRefusal(AttentionCase({1, 131073, 1, 1, 0.0f}),
                   {"\"attn\"", "[1, 131073, 3]", "at most 131072 positions"});
  EXPECT_TRUE(status.ok()) << status;
  status = CheckRefusal(AttentionCase({1, 1, 1, 32769, 0.0f}),
                        {"\"attn\"", "[1, 1, 98307]", "head size of 32768"});
  EXPECT_TRUE(status.ok()) << status;
  status = CheckRefusal(AttentionCase({1, 1, 1, 1, 1.0f}),
                        {"\"attn\"", "[1, 1, 3]", "dropout must lie in"});
  EXPECT_TRUE(status.ok()) << status;
  for (const Sizes& most :
       {Sizes{1, 131072, 1, 1, 0.0f}, Sizes{1, 1, 1, 32768, 0.0f}}) {
    status = DryPass(AttentionCase(most));
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace castor::testing
