#include "runtime/ops/position_loss.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/linear.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

GradientCase PositionCase(std::vector<int32_t> targets, int64_t columns,
                          const ops::PositionLossOptions& options) {
  GradientCase c;
  c.vocabulary = 5;
  c.targets = std::move(targets);
  // A softmax does not depend on a number that is added to all of its logits.
  c.frozen = {"qa.bias"};
  c.make = [=]() -> LossFunction {
    Parameter& weight = MakeParameter("qa.weight", {columns, 4}, {});
    Parameter& bias = MakeParameter("qa.bias", {columns}, {});
    return [=, wte = nn::Embedding("wte", 5, 4), &weight, &bias](
               Engine& engine, const Tensor& tokens,
               const Tensor& of) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor x, wte(engine, tokens));
      CASTOR_ASSIGN_OR_RETURN(
          const Tensor logits,
          ops::Linear(engine, x, weight, &bias, ops::WeightLayout::kOutIn));
      return ops::PositionLoss(engine, logits, of, options, "qa.loss");
    };
  };
  return c;
}

TEST(PositionLoss, GradientsAreTheLosssSlope) {
  for (const int64_t column : {0, 1, 2}) {
    for (const std::vector<int32_t>& targets :
         {std::vector<int32_t>{1, -100, -100, 2, -100, -100},
          {-100, -100, -100, 0, -100, -100}}) {
      const absl::Status status = CheckGradients(
          PositionCase(targets, 3, {.column = column, .scale = 0.5f}));
      EXPECT_TRUE(status.ok()) << column << ": " << status;
    }
  }
}

TEST(PositionLoss, RefusesTargetsThatSayNoPosition) {
  const absl::Status status = CheckGradients(
      PositionCase({3, -100, -100, 0, -100, -100}, 2, {.column = 0}));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("qa.loss/forward"), std::string::npos)
      << status;
}

TEST(PositionLoss, RefusesAColumnThatIsNotThere) {
  const absl::Status status =
      CheckRefusal(PositionCase({}, 2, {.column = 2}),
                   {"\"qa.loss\"", "[2, 3, 2]", "column 2"});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace castor::testing
