#include "runtime/ops/linear.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/nn/zero_init.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

GradientCase LinearCase(ops::WeightLayout layout, bool bias,
                        std::vector<std::string> frozen) {
  GradientCase c;
  c.make = Between(4, 3, [=]() -> Layer {
    return [fc = nn::Linear("fc", 4, 3, 0.02f, bias, layout)](
               Engine& engine, const Tensor& x) { return fc(engine, x); };
  });
  c.frozen = std::move(frozen);
  return c;
}

class LinearTest : public ::testing::TestWithParam<ops::WeightLayout> {};

TEST_P(LinearTest, GradientsAreTheLosssSlope) {
  for (bool bias : {false, true}) {
    const absl::Status status =
        CheckGradients(LinearCase(GetParam(), bias, {}));
    EXPECT_TRUE(status.ok()) << "bias " << bias << ": " << status;
  }
}

TEST_P(LinearTest, FrozenPartsLetTheOthersLearn) {
  const std::vector<std::vector<std::string>> cases = {
      {"fc.weight"},
      {"fc.bias"},
      {"fc.weight", "fc.bias"},
      {"wte.weight"},
      {"wte.weight", "fc.weight"},
      {"wte.weight", "fc.bias"},
      {"wte.weight", "fc.weight", "fc.bias"},
      {"head.weight"},
      {"head.weight", "fc.weight"}};
  for (const auto& frozen : cases) {
    const absl::Status status =
        CheckGradients(LinearCase(GetParam(), true, frozen));
    EXPECT_TRUE(status.ok()) << frozen[0] << " and " << frozen.size() - 1
                             << " more frozen: " << status;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LinearTest,
                         ::testing::Values(ops::WeightLayout::kInOut,
                                           ops::WeightLayout::kOutIn));

TEST(Linear, RefusesAnInputOfAnotherWidth) {
  GradientCase c;
  c.make = Between(4, 3, []() -> Layer {
    return [fc = nn::Linear("fc", 5, 3)](Engine& engine, const Tensor& x) {
      return fc(engine, x);
    };
  });
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("\"fc.weight\" of shape [3, 5]"),
            std::string::npos)
      << status;
}

GradientCase ShapesCase(const Shape& weight, const Shape& bias,
                        ops::WeightLayout layout) {
  GradientCase c;
  c.make = Between(4, 3, [=]() -> Layer {
    Parameter& w = MakeParameter("w", weight, {});
    Parameter& b = MakeParameter("b", bias, {});
    return [&w, &b, layout](Engine& engine, const Tensor& x) {
      return ops::Linear(engine, x, w, &b, layout);
    };
  });
  return c;
}

TEST_P(LinearTest, RefusesABiasOfAnotherSize) {
  const Shape w =
      GetParam() == ops::WeightLayout::kOutIn ? Shape{3, 4} : Shape{4, 3};
  for (int64_t size : {2, 4}) {
    const absl::Status status =
        CheckRefusal(ShapesCase(w, {size}, GetParam()),
                     {"\"b\" of shape " + Shape{size}.ToString(),
                      "\"w\" of shape " + w.ToString()});
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(LinearTest, RefusesAWeightThatIsNoMatrix) {
  for (const Shape& w : {Shape{12}, Shape{4}, Shape{4, 4, 2}}) {
    const absl::Status status =
        CheckRefusal(ShapesCase(w, {3}, GetParam()),
                     {"\"w\" of shape " + w.ToString(), "[2, 3, 4]"});
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace castor::testing
