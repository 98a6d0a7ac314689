#include "runtime/ops/embedding.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/head_loss.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

absl::StatusOr<Tensor> Positions(Engine& engine, const Shape& shape) {
  std::vector<int32_t> positions(shape.elements());
  for (int64_t i = 0; i < shape.elements(); ++i) {
    positions[i] = static_cast<int32_t>(i % shape[1]);
  }
  return engine.Upload("positions", shape, std::move(positions));
}

// wte[tokens] + wpe[positions], then a head of its own or wte itself.
GradientCase SumCase(bool tied, std::vector<std::string> frozen) {
  GradientCase c;
  c.make = [tied]() -> LossFunction {
    const nn::Embedding wte("wte", 5, 4), wpe("wpe", 3, 4);
    Parameter& head = tied ? wte.weight() : MakeParameter("head", {5, 4}, {});
    return [=, &head](Engine& engine, const Tensor& tokens,
                      const Tensor& targets) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const Tensor positions,
                              Positions(engine, tokens.shape()));
      CASTOR_ASSIGN_OR_RETURN(Tensor x, wte(engine, tokens));
      CASTOR_ASSIGN_OR_RETURN(x, wpe(engine, positions, std::move(x)));
      return ops::HeadLoss(engine, x, head, targets);
    };
  };
  c.frozen = std::move(frozen);
  return c;
}

TEST(Embedding, GradientsOfASumOfTwoAreTheLosssSlope) {
  for (const std::vector<std::string>& frozen :
       {std::vector<std::string>{},
        {"wte.weight"},
        {"wpe.weight"},
        {"head"},
        {"wte.weight", "wpe.weight"}}) {
    const absl::Status status = CheckGradients(SumCase(false, frozen));
    EXPECT_TRUE(status.ok())
        << frozen.size() << " frozen, first "
        << (frozen.empty() ? "none" : frozen[0]) << ": " << status;
  }
}

TEST(Embedding, TiedToTheHeadCollectsBothGradients) {
  for (const std::vector<std::string>& frozen :
       {std::vector<std::string>{}, {"wte.weight"}, {"wpe.weight"}}) {
    const absl::Status status = CheckGradients(SumCase(true, frozen));
    EXPECT_TRUE(status.ok()) << frozen.size() << " frozen: " << status;
  }
}

TEST(Embedding, TiedToTheHeadCollectsThemForEveryMicroBatch) {
  GradientCase c = SumCase(true, {});
  c.shape.micro_batches = 2;
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

GradientCase PositionCase(int64_t length) {
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    return [positions = nn::PositionEmbedding("positions", 3, 4)](
               Engine& engine, Tensor x) {
      return positions(engine, std::move(x));
    };
  });
  c.shape = {.batch = 2, .length = length};
  return c;
}

TEST(PositionEmbedding, AddsRowTAtPositionT) {
  for (int64_t length : {2, 3}) {
    // Its input copied, by the layer, and moved in.
    GradientCase c = PositionCase(length);
    absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << length << ": " << status;
    c.make = []() -> LossFunction {
      return [wte = nn::Embedding("wte", 5, 4),
              wpe = nn::PositionEmbedding("wpe", 3, 4)](
                 Engine& engine, const Tensor& tokens,
                 const Tensor& targets) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(Tensor x, wte(engine, tokens));
        CASTOR_ASSIGN_OR_RETURN(x, wpe(engine, std::move(x)));
        return ops::HeadLoss(engine, x, wte.weight(), targets);
      };
    };
    status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << length << ": " << status;
  }
}

TEST(PositionEmbedding, BeginsAgainInEachDocument) {
  GradientCase c = PositionCase(3);
  c.shape.documents = true;
  c.documents = {{0, 1}, {1, 3}, {1, 3}, {0, 3}, {0, 3}, {0, 3}};
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(PositionEmbedding, RefusesASequenceThatIsLongerThanTheTable) {
  const absl::Status status = CheckGradients(PositionCase(4));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("sequence of 4 is longer than \"positions"),
            std::string::npos)
      << status;
}

TEST(Embedding, AddendThatIsHeldElsewhereStaysAsItIs) {
  for (const std::vector<std::string>& frozen :
       {std::vector<std::string>{}, {"a.weight"}, {"b.weight"}}) {
    GradientCase c;
    c.make = []() -> LossFunction {
      return [a = nn::Embedding("a", 5, 4), b = nn::Embedding("b", 5, 4),
              head = nn::Embedding("head", 5, 4)](
                 Engine& engine, const Tensor& tokens,
                 const Tensor& targets) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const Tensor x, a(engine, tokens));
        CASTOR_ASSIGN_OR_RETURN(const Tensor y, b(engine, tokens, x));
        CASTOR_ASSIGN_OR_RETURN(const Tensor z, b(engine, targets, x));
        // x + y + z, each by itself.
        CASTOR_ASSIGN_OR_RETURN(const Tensor sum,
                                ops::Dropout(engine, x, y, 0.0f, "sum"));
        CASTOR_ASSIGN_OR_RETURN(const Tensor all,
                                ops::Dropout(engine, sum, z, 0.0f, "all"));
        return ops::HeadLoss(engine, all, head.weight(), targets);
      };
    };
    c.frozen = frozen;
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << frozen.size() << " frozen: " << status;
  }
}

TEST(Embedding, IndexOutsideOfTheTableIsAnErrorThatNamesTheOperator) {
  GradientCase c = SumCase(false, {});
  c.shape = {.batch = 1, .length = 4};  // positions 0 to 3, wpe has 3 rows
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("wpe.weight/forward"), std::string::npos)
      << status;
}

TEST(Embedding, RefusesATableThatIsNoMatrix) {
  for (const Shape& shape : {Shape{20}, Shape{5, 2, 2}}) {
    GradientCase c;
    c.make = [shape]() -> LossFunction {
      Parameter& table = MakeParameter("table", shape, {});
      return [&table](Engine& engine, const Tensor& tokens, const Tensor&) {
        return ops::Embedding(engine, tokens, table, Tensor());
      };
    };
    const absl::Status status =
        CheckRefusal(c, {"\"table\" of shape " + shape.ToString(), "[2, 3]"});
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(Embedding, RefusesIndicesAndAddendsOfAnotherShape) {
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    return [table = nn::Embedding("b", 5, 4)](Engine& engine, const Tensor& x) {
      return table(engine, x);
    };
  });
  absl::Status status =
      CheckRefusal(c, {"\"b.weight\" of shape [5, 4]", "[2, 3, 4]"});
  EXPECT_TRUE(status.ok()) << status;

  c.make = []() -> LossFunction {
    return [a = nn::Embedding("a", 5, 3), b = nn::Embedding("b", 5, 4)](
               Engine& engine, const Tensor& tokens,
               const Tensor&) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(Tensor x, a(engine, tokens));
      return b(engine, tokens, std::move(x));
    };
  };
  status = CheckRefusal(c, {"\"b.weight\"", "[2, 3, 4]", "[2, 3, 3]"});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace castor::testing
