#include "runtime/ops/dropout.h"

#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/head_loss.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

// dropout(gelu(x)) + x, or without the sum.
GradientCase DropoutCase(float p, bool residual) {
  GradientCase c;
  c.shape = {.batch = 2, .length = 5};
  c.make = Between(5, 5, [=]() -> Layer {
    return [=](Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(
          const Tensor y,
          ops::Activate(engine, x, ops::Activation::kGeluTanh, "act"));
      return ops::Dropout(engine, y, residual ? x : Tensor(), p, "drop");
    };
  });
  return c;
}

TEST(Dropout, GradientsAreTheSlopeUnderTheSameMask) {
  for (float p : {0.0f, 0.25f, 0.5f}) {
    for (bool residual : {false, true}) {
      const absl::Status status = CheckGradients(DropoutCase(p, residual));
      EXPECT_TRUE(status.ok())
          << "p " << p << " residual " << residual << ": " << status;
    }
  }
}

TEST(Dropout, EveryMicroBatchHasAMaskOfItsOwn) {
  GradientCase c = DropoutCase(0.5f, true);
  c.shape.micro_batches = 3;
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Dropout, SumsATensorWithItself) {
  for (float p : {0.0f, 0.25f}) {
    GradientCase c;
    c.make = Between(5, 5, [p]() -> Layer {
      return [p](Engine& engine, const Tensor& x) {
        return ops::Dropout(engine, x, x, p, "twice");
      };
    });
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << "p " << p << ": " << status;
  }
}

// Two tables, one of them frozen: one summand needs no gradient.
TEST(Dropout, PassesGradientToTheSummandThatNeedsOneAlone) {
  for (const char* frozen : {"a.weight", "b.weight"}) {
    for (float p : {0.0f, 0.25f}) {
      GradientCase c;
      c.make = [p]() -> LossFunction {
        return [p, a = nn::Embedding("a", 5, 4), b = nn::Embedding("b", 5, 4),
                head = nn::Embedding("head", 5, 4)](
                   Engine& engine, const Tensor& tokens,
                   const Tensor& targets) -> absl::StatusOr<Tensor> {
          CASTOR_ASSIGN_OR_RETURN(const Tensor x, a(engine, tokens));
          CASTOR_ASSIGN_OR_RETURN(const Tensor y, b(engine, tokens));
          CASTOR_ASSIGN_OR_RETURN(const Tensor z,
                                  ops::Dropout(engine, x, y, p, "drop"));
          return ops::HeadLoss(engine, z, head.weight(), targets);
        };
      };
      c.frozen = {frozen};
      const absl::Status status = CheckGradients(c);
      EXPECT_TRUE(status.ok()) << frozen << " p " << p << ": " << status;
    }
  }
}

TEST(Dropout, RefusesAResidualOfAnotherSize) {
  for (float p : {0.0f, 0.25f}) {
    GradientCase c;
    c.make = [p]() -> LossFunction {
      return [p, a = nn::Embedding("a", 5, 4), b = nn::Embedding("b", 5, 3)](
                 Engine& engine, const Tensor& tokens,
                 const Tensor& targets) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const Tensor x, a(engine, tokens));
        CASTOR_ASSIGN_OR_RETURN(const Tensor y, b(engine, tokens));
        CASTOR_ASSIGN_OR_RETURN(const Tensor z,
                                ops::Dropout(engine, x, y, p, "drop"));
        return ops::HeadLoss(engine, z, a.weight(), targets);
      };
    };
    const absl::Status status =
        CheckRefusal(c, {"\"drop\"", "[2, 3, 4]", "[2, 3, 3]"});
    EXPECT_TRUE(status.ok()) << "p " << p << ": " << status;
  }
}

}  // namespace
}  // namespace castor::testing
