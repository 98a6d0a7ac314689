#include "runtime/ops/activation.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "runtime/autograd/tape.h"
#include "runtime/nn/modules.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

using ops::Activation;

class Activations : public ::testing::TestWithParam<Activation> {};

INSTANTIATE_TEST_SUITE_P(Kinds, Activations,
                         ::testing::ValuesIn(kernels::kAllActivations));

// Few values and a seed with which none of ReLU's inputs crosses 0 within the
// differences: its loss has no slope to compare with there.
GradientCase SmallCase(std::function<Layer()> make) {
  GradientCase c;
  c.seed = 3;
  c.vocabulary = 3;
  c.make = Between(2, 2, std::move(make), c.vocabulary);
  return c;
}

TEST_P(Activations, GradientsAreTheLosssSlope) {
  const GradientCase c = SmallCase([]() -> Layer {
    return [](Engine& engine, const Tensor& x) {
      return ops::Activate(engine, x, GetParam(), "act");
    };
  });
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

// The second one's gradient arrives in a tensor that the first may overwrite,
// and a second micro batch and recomputation come on top.
TEST_P(Activations, ComposeWithThemselves) {
  for (const bool checkpoint : {false, true}) {
    GradientCase c = SmallCase([]() -> Layer {
      return [](Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
        return Checkpoint(
            engine, x, [&engine](const Tensor& in) -> absl::StatusOr<Tensor> {
              CASTOR_ASSIGN_OR_RETURN(
                  const Tensor y,
                  ops::Activate(engine, in, GetParam(), "first"));
              return ops::Activate(engine, y, GetParam(), "second");
            });
      };
    });
    if (checkpoint) c.kept_blocks.emplace();
    c.shape.micro_batches = 2;
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << status;
  }
}

// gate and up of two projections, and one of them or both the input itself,
// whose storage others still need.
TEST_P(Activations, GateAndGatedGetTheirGradients) {
  for (const bool gate_is_input : {false, true}) {
    for (const bool up_is_input : {false, true}) {
      const GradientCase c = SmallCase([=]() -> Layer {
        const auto projection = [](const char* name, bool is_input) {
          return is_input ? std::nullopt
                          : std::make_optional<nn::Linear>(name, 2, 2);
        };
        return [gate_proj = projection("gate_proj", gate_is_input),
                up_proj = projection("up_proj", up_is_input)](
                   Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
          Tensor gate = x, up = x;
          if (gate_proj.has_value()) {
            CASTOR_ASSIGN_OR_RETURN(gate, (*gate_proj)(engine, x));
          }
          if (up_proj.has_value()) {
            CASTOR_ASSIGN_OR_RETURN(up, (*up_proj)(engine, x));
          }
          return ops::ActivateGated(engine, gate, up, GetParam(), "act");
        };
      });
      const absl::Status status = CheckGradients(c);
      EXPECT_TRUE(status.ok())
          << gate_is_input << " " << up_is_input << ": " << status;
    }
  }
}

TEST(ActivateGated, FrozenSideLetsTheOtherLearn) {
  for (const bool gate_is_input : {false, true}) {
    GradientCase c;
    c.frozen = {"wte.weight"};
    c.make = Between(4, 4, [=]() -> Layer {
      return [=, proj = nn::Linear("proj", 4, 4)](
                 Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const Tensor y, proj(engine, x));
        return ops::ActivateGated(engine, gate_is_input ? x : y,
                                  gate_is_input ? y : x, Activation::kSilu,
                                  "act");
      };
    });
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << gate_is_input << ": " << status;
  }
}

TEST(ActivateGated, RefusesAGateOfAnotherShape) {
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    return [proj = nn::Linear("proj", 4, 6)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor gate, proj(engine, x));
      return ops::ActivateGated(engine, gate, x, Activation::kSilu, "act");
    };
  });
  const absl::Status status =
      CheckRefusal(c, {"\"act\"", "[2, 3, 4]", "[2, 3, 6]"});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace castor::testing
