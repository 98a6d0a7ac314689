#include "runtime/ops/head_loss.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/finite_difference.h"

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

}  // namespace
}  // namespace castor::testing
