// Parameters that several operators use, alone and under recomputation: where a
// gradient waits beside values that are still needed
// (runtime/autograd/engine.h).
#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitizers.h"
#include "base/status_macros.h"
#include "runtime/autograd/tape.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/head_loss.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

absl::StatusOr<Tensor> Gelu(Engine& engine, const Tensor& x,
                            absl::string_view site) {
  return ops::Activate(engine, x, ops::Activation::kGeluTanh, site);
}

// Runs the case with all blocks kept, with none, and with some, for one micro
// batch and for two.
void ExpectRight(GradientCase c) {
  using Kept = std::optional<std::vector<bool>>;
  const Kept choices[] = {std::nullopt, Kept({}), Kept({true}),
                          Kept({false, true})};
  for (size_t choice = 0; choice < std::size(choices); ++choice) {
    for (int micro_batches = 1; micro_batches <= SanitizedCases(2);
         ++micro_batches) {
      c.kept_blocks = choices[choice];
      c.shape.micro_batches = micro_batches;
      const absl::Status status = CheckGradients(c);
      EXPECT_TRUE(status.ok()) << "kept blocks " << choice << ", "
                               << micro_batches << " micro batches: " << status;
    }
  }
}

// `times` applications of one Linear with a GELU between, each a block.
GradientCase RepeatedLinear(int times, std::vector<std::string> frozen) {
  GradientCase c;
  c.make = Between(4, 4, [times]() -> Layer {
    return [times, fc = nn::Linear("fc", 4, 4)](
               Engine& engine, Tensor x) -> absl::StatusOr<Tensor> {
      for (int i = 0; i < times; ++i) {
        CASTOR_ASSIGN_OR_RETURN(
            x, Checkpoint(engine, x,
                          [&engine, fc,
                           i](const Tensor& in) -> absl::StatusOr<Tensor> {
                            CASTOR_ASSIGN_OR_RETURN(Tensor y, fc(engine, in));
                            return Gelu(engine, y, "act." + std::to_string(i));
                          }));
      }
      return x;
    };
  });
  c.frozen = std::move(frozen);
  return c;
}

TEST(Sharing, LinearUsedSeveralTimesSumsItsGradients) {
  for (int times : {2, 3, 4}) {
    SCOPED_TRACE(times);
    ExpectRight(RepeatedLinear(times, {}));
  }
}

TEST(Sharing, FirstUseMayNeedNoInputGradient) {
  ExpectRight(RepeatedLinear(2, {"wte.weight"}));
}

TEST(Sharing, FrozenWeightOfASharedLinearStays) {
  ExpectRight(RepeatedLinear(3, {"fc.weight"}));
  ExpectRight(RepeatedLinear(3, {"fc.bias"}));
}

TEST(Sharing, LayerNormUsedTwiceSumsItsGradients) {
  for (const std::vector<std::string>& frozen :
       {std::vector<std::string>{}, {"norm.weight"}, {"norm.bias"}}) {
    GradientCase c;
    c.make = Between(4, 4, []() -> Layer {
      return [norm = nn::LayerNorm("norm", 4, 0.5f),
              fc = nn::Linear("fc", 4, 4)](
                 Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
        return Checkpoint(
            engine, x,
            [&engine, norm, fc](const Tensor& in) -> absl::StatusOr<Tensor> {
              CASTOR_ASSIGN_OR_RETURN(Tensor y, norm(engine, in));
              CASTOR_ASSIGN_OR_RETURN(y, fc(engine, y));
              CASTOR_ASSIGN_OR_RETURN(y,
                                      ops::Dropout(engine, y, in, 0.0f, "r"));
              return norm(engine, y);
            });
      };
    });
    c.frozen = frozen;
    SCOPED_TRACE(frozen.empty() ? "none frozen" : frozen[0]);
    ExpectRight(c);
  }
}

// gamma of two norms, beta of one each: their gradients do not agree on
// whether to add.
TEST(Sharing, GainSharedByTwoNormsWithShiftsOfTheirOwn) {
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    Parameter& gain = MakeParameter("gain", {4}, {.mean = 1});
    Parameter& first = MakeParameter("first", {4}, {});
    Parameter& second = MakeParameter("second", {4}, {});
    return [&](Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor y,
                              ops::LayerNorm(engine, x, gain, first, 0.5f));
      return ops::LayerNorm(engine, y, gain, second, 0.5f);
    };
  });
  ExpectRight(c);
}

// One table that is the embedding, a matrix inside of a recomputed block, and
// the head.
GradientCase TiedThreeTimes(bool head_inside) {
  GradientCase c;
  c.vocabulary = 4;
  c.make = [head_inside]() -> LossFunction {
    const nn::Embedding wte("wte", 4, 4);
    const nn::Linear fc("fc", 4, 4);
    return [=](Engine& engine, const Tensor& tokens,
               const Tensor& targets) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor x, wte(engine, tokens));
      auto block = [&engine, wte, fc, head_inside,
                    targets](const Tensor& in) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(Tensor y, fc(engine, in));
        CASTOR_ASSIGN_OR_RETURN(y, ops::Linear(engine, y, wte.weight(), nullptr,
                                               ops::WeightLayout::kInOut));
        CASTOR_ASSIGN_OR_RETURN(y, Gelu(engine, y, "act"));
        if (!head_inside) return y;
        return ops::HeadLoss(engine, y, wte.weight(), targets);
      };
      CASTOR_ASSIGN_OR_RETURN(const Tensor y, Checkpoint(engine, x, block));
      if (head_inside) return y;
      return ops::HeadLoss(engine, y, wte.weight(), targets);
    };
  };
  return c;
}

TEST(Sharing, TableTiedToAMatrixInABlockAndToTheHead) {
  ExpectRight(TiedThreeTimes(/*head_inside=*/false));
}

TEST(Sharing, BlockMayEndInTheLoss) {
  ExpectRight(TiedThreeTimes(/*head_inside=*/true));
}

TEST(Sharing, EmbeddingInsideOfARecomputedBlock) {
  GradientCase c;
  c.make = []() -> LossFunction {
    const nn::Embedding wte("wte", 5, 4);
    const nn::Linear fc("fc", 4, 4);
    return [=](Engine& engine, const Tensor& tokens,
               const Tensor& targets) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(Tensor x, wte(engine, tokens));
      // The tokens' rows once more, from within the block.
      CASTOR_ASSIGN_OR_RETURN(
          x, Checkpoint(engine, x,
                        [&engine, wte, fc,
                         tokens](const Tensor& in) -> absl::StatusOr<Tensor> {
                          CASTOR_ASSIGN_OR_RETURN(Tensor y, fc(engine, in));
                          return wte(engine, tokens, std::move(y));
                        }));
      return ops::HeadLoss(engine, x, wte.weight(), targets);
    };
  };
  ExpectRight(c);
}

TEST(Sharing, BlocksMayNest) {
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    return [fc = nn::Linear("fc", 4, 4)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      auto inner = [&engine, fc](const Tensor& in) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const Tensor y, fc(engine, in));
        return ops::Dropout(engine, y, in, 0.25f, "drop");
      };
      return Checkpoint(
          engine, x,
          [&engine, inner](const Tensor& in) -> absl::StatusOr<Tensor> {
            CASTOR_ASSIGN_OR_RETURN(const Tensor y,
                                    Checkpoint(engine, in, inner));
            CASTOR_ASSIGN_OR_RETURN(const Tensor z, Gelu(engine, y, "act"));
            return Checkpoint(engine, z, inner);
          });
    };
  });
  ExpectRight(c);
}

TEST(Sharing, BlockMayReturnItsInput) {
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    return [](Engine& engine, const Tensor& x) {
      return Checkpoint(
          engine, x,
          [](const Tensor& in) -> absl::StatusOr<Tensor> { return in; });
    };
  });
  ExpectRight(c);
}

// A result that a model computes and does not use has no gradient, and must not
// keep the others waiting: last reads, last contributions.
TEST(Sharing, UnusedResultsDoNotHoldGradientsBack) {
  for (bool unused_first : {false, true}) {
    GradientCase c;
    c.make = Between(4, 4, [unused_first]() -> Layer {
      return [unused_first, fc = nn::Linear("fc", 4, 4),
              norm = nn::LayerNorm("n", 4, 0.5f)](
                 Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
        auto block = [&engine, fc,
                      norm](const Tensor& in) -> absl::StatusOr<Tensor> {
          CASTOR_ASSIGN_OR_RETURN(const Tensor y, fc(engine, in));
          CASTOR_ASSIGN_OR_RETURN(const Tensor within, norm(engine, y));
          return norm(engine, y);
        };
        CASTOR_ASSIGN_OR_RETURN(const Tensor a, Checkpoint(engine, x, block));
        CASTOR_ASSIGN_OR_RETURN(const Tensor b, Checkpoint(engine, x, block));
        return unused_first ? b : a;
      };
    });
    SCOPED_TRACE(unused_first);
    ExpectRight(c);
  }
}

// Two readers of x: the sum of their gradients, in tensors that alias.
TEST(Sharing, TensorWithSeveralReadersSumsTheirGradients) {
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    return [fc = nn::Linear("fc", 4, 4), norm = nn::LayerNorm("n", 4, 0.5f)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor a, fc(engine, x));
      CASTOR_ASSIGN_OR_RETURN(const Tensor b, norm(engine, x));
      CASTOR_ASSIGN_OR_RETURN(const Tensor s,
                              ops::Dropout(engine, a, b, 0.0f, "s"));
      CASTOR_ASSIGN_OR_RETURN(const Tensor t,
                              ops::Dropout(engine, s, x, 0.0f, "t"));
      CASTOR_ASSIGN_OR_RETURN(const Tensor g, Gelu(engine, t, "act"));
      return ops::Dropout(engine, g, t, 0.0f, "u");
    };
  });
  ExpectRight(c);
}

}  // namespace
}  // namespace castor::testing
