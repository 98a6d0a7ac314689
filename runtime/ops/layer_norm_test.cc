#include "runtime/ops/layer_norm.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "runtime/autograd/tape.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/dropout.h"
#include "runtime/testing/finite_difference.h"

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

TEST(LayerNorm, RefusesAGainOrAShiftOfAnotherSize) {
  struct Case {
    int64_t gamma, beta;
    std::string says;
  };
  for (const Case& sizes : {Case{5, 6, "\"gamma\" of shape [5]"},
                            Case{6, 7, "\"beta\" of shape [7]"}}) {
    GradientCase c;
    c.make = Between(6, 6, [&sizes]() -> Layer {
      Parameter& gamma = MakeParameter("gamma", {sizes.gamma}, {.mean = 1});
      Parameter& beta = MakeParameter("beta", {sizes.beta}, {});
      return [&gamma, &beta](Engine& engine, const Tensor& x) {
        return ops::LayerNorm(engine, x, gamma, beta, 0.1f);
      };
    });
    const absl::Status status = CheckRefusal(c, {sizes.says, "[2, 3, 6]"});
    EXPECT_TRUE(status.ok()) << status;
  }
}

// The sum of norm(x) and x, by an operator whose gradient of x is of shape [2].
TEST(LayerNorm, RefusesToAddAGradientOfAnotherSize) {
  GradientCase c;
  c.make = Between(6, 6, []() -> Layer {
    return [norm = nn::LayerNorm("norm", 6)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor y, norm(engine, x));
      const Tensor wrong = x.Alias(engine.NewTensorId());
      engine.tape()->Record(
          wrong,
          [&engine, id = x.id()](Tensor, GradientSink& sink) -> absl::Status {
            CASTOR_ASSIGN_OR_RETURN(
                Tensor dx,
                engine.Upload("wrong", {2}, std::vector<int32_t>{0, 0}));
            return sink.Add(engine, id, std::move(dx));
          });
      return ops::Dropout(engine, y, wrong, 0.0f, "sum");
    };
  });
  const absl::Status status =
      CheckRefusal(c, {"\"norm.weight\"", "[2, 3, 6]", "[2]"});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace castor::testing
