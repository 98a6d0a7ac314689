#include "runtime/ops/attention.h"

#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/finite_difference.h"

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

}  // namespace
}  // namespace castor::testing
