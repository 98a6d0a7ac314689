#include "runtime/ops/gelu.h"

#include <gtest/gtest.h>

#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

TEST(Gelu, GradientsAreTheLosssSlope) {
  GradientCase c;
  c.make = Between(5, 5, []() -> Layer {
    return [](Engine& engine, const Tensor& x) {
      return ops::Gelu(engine, x, "act");
    };
  });
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

// The second one's gradient arrives in a tensor that the first may overwrite.
TEST(Gelu, ComposesWithItself) {
  GradientCase c;
  c.make = Between(5, 5, []() -> Layer {
    return [](Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      auto y = ops::Gelu(engine, x, "first");
      if (!y.ok()) return y;
      return ops::Gelu(engine, *y, "second");
    };
  });
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace castor::testing
