#include "runtime/ops/rms_norm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/dropout.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

// A norm of `channels` of an input's 6; a large epsilon keeps the higher
// derivatives small.
GradientCase NormCase(int64_t channels, float offset) {
  GradientCase c;
  c.make = Between(6, 6, [=]() -> Layer {
    return [norm = nn::RmsNorm("norm", channels, 1.0f, offset)](
               Engine& engine, const Tensor& x) { return norm(engine, x); };
  });
  return c;
}

TEST(RmsNorm, GradientsAreTheLosssSlope) {
  for (const int64_t channels : {6, 3, 1}) {
    for (const float offset : {0.0f, 1.0f}) {
      const absl::Status status = CheckGradients(NormCase(channels, offset));
      EXPECT_TRUE(status.ok())
          << channels << " channels, offset " << offset << ": " << status;
    }
  }
}

TEST(RmsNorm, FrozenPartsLetTheOthersLearn) {
  const std::vector<std::vector<std::string>> cases = {
      {"norm.weight"}, {"wte.weight"}, {"wte.weight", "norm.weight"}};
  for (const auto& frozen : cases) {
    GradientCase c = NormCase(3, 0);
    c.frozen = frozen;
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << frozen[0] << ": " << status;
  }
}

// norm(x) + x, twice with one gain: the branches' gradients are added on the
// way, and both norms' gradients of the gain.
TEST(RmsNorm, AddsTheOtherBranchsGradient) {
  for (const bool checkpoint : {false, true}) {
    GradientCase c;
    if (checkpoint) c.kept_blocks.emplace();
    c.shape.micro_batches = 2;
    c.make = Between(6, 6, []() -> Layer {
      return [norm = nn::RmsNorm("norm", 6, 1.0f)](
                 Engine& engine, Tensor x) -> absl::StatusOr<Tensor> {
        for (const char* site : {"first", "second"}) {
          CASTOR_ASSIGN_OR_RETURN(const Tensor y, norm(engine, x));
          CASTOR_ASSIGN_OR_RETURN(x, ops::Dropout(engine, y, x, 0.0f, site));
        }
        return x;
      };
    });
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(RmsNorm, RefusesAGainThatDoesNotDivideItsInput) {
  for (const int64_t channels : {4, 12}) {
    const absl::Status status = CheckRefusal(
        NormCase(channels, 0),
        {"\"norm.weight\" of shape [" + std::to_string(channels), "[2, 3, 6]"});
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace castor::testing
