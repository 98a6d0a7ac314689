#include "runtime/testing/finite_difference.h"

#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "runtime/autograd/tape.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/head_loss.h"

namespace castor::testing {
namespace {

// y = x, whose backward calls dy `dx` only as often as `times` says.
absl::StatusOr<Tensor> WrongIdentity(Engine& engine, const Tensor& x,
                                     int times) {
  const Tensor y = x.Alias(engine.NewTensorId());
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(y,
                        [&engine, id = x.id(), times](
                            Tensor dy, GradientSink& sink) -> absl::Status {
                          for (int i = 0; i < times; ++i) {
                            CASTOR_RETURN_IF_ERROR(sink.Add(engine, id, dy));
                          }
                          return absl::OkStatus();
                        });
  return y;
}

GradientCase IdentityCase(int times) {
  GradientCase c;
  c.make = Between(4, 4, [times]() -> Layer {
    return [times](Engine& engine, const Tensor& x) {
      return WrongIdentity(engine, x, times);
    };
  });
  return c;
}

TEST(FiniteDifference, PassesARightGradient) {
  EXPECT_TRUE(CheckGradients(IdentityCase(1)).ok())
      << CheckGradients(IdentityCase(1));
}

TEST(FiniteDifference, FindsAGradientThatIsTwiceTheSlope) {
  const absl::Status status = CheckGradients(IdentityCase(2));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("\"wte.weight\"[0]"), std::string::npos)
      << status;
}

TEST(FiniteDifference, FindsAParameterWithoutGradient) {
  const absl::Status status = CheckGradients(IdentityCase(0));
  EXPECT_NE(status.message().find("\"wte.weight\""), std::string::npos)
      << status;
}

TEST(FiniteDifference, NamesAParameterThatTakesNoPart) {
  GradientCase c;
  c.make = [] {
    return [wte = nn::Embedding("wte", 5, 4), head = nn::Linear("head", 4, 5)](
               Engine& engine, const Tensor& tokens,
               const Tensor& targets) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor x, wte(engine, tokens));
      return ops::HeadLoss(engine, x, head.weight(), targets);
    };
  };
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("\"head.bias\" takes no part"),
            std::string::npos)
      << status;
}

TEST(CheckRefusal, WantsARefusalThatSaysEveryPart) {
  GradientCase c = IdentityCase(1);
  EXPECT_TRUE(DryPass(c).ok()) << DryPass(c);
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckRefusal(c, {})));
  c.make = Between(4, 3, []() -> Layer {
    return [](Engine&, const Tensor& x) -> absl::StatusOr<Tensor> { return x; };
  });
  EXPECT_TRUE(CheckRefusal(c, {"\"head.weight\"", "[5, 3]"}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      CheckRefusal(c, {"\"head.weight\"", "[5, 4]"})));
}

}  // namespace
}  // namespace castor::testing
