#include "runtime/ops/head_loss.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

GradientCase HeadCase(int64_t vocabulary, std::vector<int32_t> targets,
                      std::vector<std::string> frozen) {
  GradientCase c;
  c.vocabulary = vocabulary;
  c.targets = std::move(targets);
  c.frozen = std::move(frozen);
  c.make = Between(
      4, 4,
      []() -> Layer {
        return [](Engine&, const Tensor& x) -> absl::StatusOr<Tensor> {
          return x;
        };
      },
      vocabulary);
  return c;
}

TEST(HeadLoss, GradientsAreTheLosssSlope) {
  for (int64_t vocabulary : {1, 2, 5, 11}) {
    const absl::Status status = CheckGradients(HeadCase(vocabulary, {}, {}));
    if (vocabulary == 1) {
      // One class: the loss is 0 whatever the values are.
      EXPECT_NE(status.message().find("too small"), std::string::npos);
      continue;
    }
    EXPECT_TRUE(status.ok()) << vocabulary << ": " << status;
  }
}

TEST(HeadLoss, FrozenHeadPassesGradientOn) {
  const absl::Status status = CheckGradients(HeadCase(5, {}, {"head.weight"}));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(HeadLoss, HeadLearnsOnFrozenFeatures) {
  const absl::Status status = CheckGradients(HeadCase(5, {}, {"wte.weight"}));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(HeadLoss, GradientsOfABiasAreTheLosssSlope) {
  for (const bool frozen : {false, true}) {
    GradientCase c;
    c.vocabulary = 5;
    c.targets = {1, -100, 4, -100, 2, 0};
    if (frozen) c.frozen = {"head.bias"};
    c.make = []() -> LossFunction {
      Parameter& head = MakeParameter("head.weight", {5, 4}, {});
      Parameter& bias = MakeParameter("head.bias", {5}, {});
      return [wte = nn::Embedding("wte", 5, 4), &head, &bias](
                 Engine& engine, const Tensor& tokens,
                 const Tensor& targets) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const Tensor x, wte(engine, tokens));
        return ops::HeadLoss(engine, x, head, targets, &bias);
      };
    };
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << frozen << ": " << status;
  }
}

TEST(HeadLoss, IgnoredTargetsTakeNoPart) {
  const absl::Status status =
      CheckGradients(HeadCase(5, {1, -100, 4, -100, -100, 0}, {}));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(HeadLoss, TargetOutsideOfTheVocabularyIsAnError) {
  const absl::Status status =
      CheckGradients(HeadCase(5, {0, 1, 2, 3, 4, 5}, {}));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("head.weight/head_forward"),
            std::string::npos)
      << status;
}

TEST(HeadLoss, NothingToTrainIsAnError) {
  const absl::Status status =
      CheckGradients(HeadCase(5, {}, {"wte.weight", "head.weight"}));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("no trainable parameter"), std::string::npos)
      << status;
}

TEST(HeadLoss, RefusesAHeadOfAnotherShape) {
  for (const Shape& shape : {Shape{5, 3}, Shape{20}, Shape{5, 4, 2}}) {
    GradientCase c;
    c.make = [shape]() -> LossFunction {
      Parameter& head = MakeParameter("head", shape, {});
      return [wte = nn::Embedding("wte", 5, 4), &head](
                 Engine& engine, const Tensor& tokens,
                 const Tensor& targets) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const Tensor x, wte(engine, tokens));
        return ops::HeadLoss(engine, x, head, targets);
      };
    };
    const absl::Status status =
        CheckRefusal(c, {"\"head\" of shape " + shape.ToString(), "[2, 3, 4]"});
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(HeadLoss, RefusesABiasOfAnotherSize) {
  GradientCase c;
  c.make = []() -> LossFunction {
    Parameter& bias = MakeParameter("bias", {4}, {});
    return [wte = nn::Embedding("wte", 5, 4), &bias](
               Engine& engine, const Tensor& tokens,
               const Tensor& targets) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor x, wte(engine, tokens));
      return ops::HeadLoss(engine, x, wte.weight(), targets, &bias);
    };
  };
  const absl::Status status = CheckRefusal(c, {"\"bias\" of shape [4]"});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(HeadLoss, RefusesMoreOrFewerTargetsThanRows) {
  for (int64_t length : {2, 4}) {
    GradientCase c;
    c.make = [length]() -> LossFunction {
      return [wte = nn::Embedding("wte", 5, 4), length](
                 Engine& engine, const Tensor& tokens,
                 const Tensor&) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const Tensor x, wte(engine, tokens));
        CASTOR_ASSIGN_OR_RETURN(
            const Tensor targets,
            engine.Upload("other", {2, length},
                          std::vector<int32_t>(2 * length)));
        return ops::HeadLoss(engine, x, wte.weight(), targets);
      };
    };
    const absl::Status status = CheckRefusal(
        c, {"\"wte.weight\"", Shape{2, length}.ToString(), "[2, 3, 4]"});
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace castor::testing
