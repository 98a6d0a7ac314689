#include "runtime/ops/layer_norm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/finite_difference.h"

namespace castor::testing {
namespace {

GradientCase NormCase(std::vector<std::string> frozen) {
  GradientCase c;
  // A large epsilon keeps the higher derivatives small.
  c.make = Between(6, 6, []() -> Layer {
    return [norm = nn::LayerNorm("norm", 6, 0.1f)](
               Engine& engine, const Tensor& x) { return norm(engine, x); };
  });
  c.frozen = std::move(frozen);
  return c;
}

TEST(LayerNorm, GradientsAreTheLosssSlope) {
  const absl::Status status = CheckGradients(NormCase({}));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(LayerNorm, FrozenPartsLetTheOthersLearn) {
  const std::vector<std::vector<std::string>> cases = {
      {"norm.weight"},
      {"norm.bias"},
      {"norm.weight", "norm.bias"},
      {"wte.weight"},
      {"wte.weight", "norm.bias"},
      {"wte.weight", "norm.weight"}};
  for (const auto& frozen : cases) {
    const absl::Status status = CheckGradients(NormCase(frozen));
    EXPECT_TRUE(status.ok()) << frozen[0] << ": " << status;
  }
}

TEST(LayerNorm, OneParameterForBothGainAndShiftGetsBothGradients) {
  GradientCase c;
  c.make = Between(6, 6, []() -> Layer {
    Parameter& both = MakeParameter("both", {6}, {.mean = 1});
    return [&both](Engine& engine, const Tensor& x) {
      return ops::LayerNorm(engine, x, both, both, 0.1f);
    };
  });
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace castor::testing
