#include "runtime/ops/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "memory/plan/layout/chunk_layout.h"
#include "runtime/autograd/tape.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/dropout.h"
#include "runtime/testing/eager_backend.h"
#include "runtime/testing/finite_difference.h"

namespace castor::testing {
namespace {

// Some angles, different for each position and pair, and none of them small.
std::vector<float> Angles(int64_t positions, int64_t pairs) {
  std::vector<float> values(2 * positions * pairs);
  for (int64_t i = 0; i < positions * pairs; ++i) {
    const double angle = 0.7 + 1.3 * static_cast<double>(i);
    values[i] = static_cast<float>(std::cos(angle));
    values[positions * pairs + i] = static_cast<float>(std::sin(angle));
  }
  return values;
}

absl::StatusOr<ops::RotaryTable> Upload(Engine& engine, int64_t positions,
                                        int64_t pairs) {
  return ops::UploadRotaryTable(engine, positions, pairs,
                                Angles(positions, pairs), "rotary/input");
}

// Two heads of `head_size`, of which the first 2 `pairs` channels turn.
GradientCase TurnedLinear(int64_t head_size, int64_t pairs) {
  GradientCase c;
  const int64_t width = 2 * head_size;
  c.make = Between(width, width, [=]() -> Layer {
    return [=, fc = nn::Linear("fc", width, width)](
               Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const ops::RotaryTable table,
                              Upload(engine, x.shape()[1], pairs));
      CASTOR_ASSIGN_OR_RETURN(Tensor y, fc(engine, x));
      return ops::Rotary(engine, std::move(y), table, head_size, "rotary");
    };
  });
  return c;
}

TEST(Rotary, GradientsAreTheLosssSlope) {
  for (const int64_t pairs : {1, 2}) {
    const absl::Status status = CheckGradients(TurnedLinear(4, pairs));
    EXPECT_TRUE(status.ok()) << pairs << ": " << status;
  }
}

TEST(Rotary, GradientsWithinDocumentsAreTheLosssSlope) {
  GradientCase c = TurnedLinear(4, 2);
  c.shape.documents = true;
  c.documents = {{0, 1}, {1, 3}, {1, 3}, {0, 2}, {0, 2}, {2, 3}};
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

// x has other readers: it must stay as it is, and so must their gradients.
TEST(Rotary, LeavesATensorThatOthersReadAsItIs) {
  GradientCase c;
  c.make = Between(4, 4, []() -> Layer {
    return [](Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(const ops::RotaryTable table,
                              Upload(engine, 3, 2));
      CASTOR_ASSIGN_OR_RETURN(const Tensor y,
                              ops::Rotary(engine, x, table, 4, "rotary"));
      return ops::Dropout(engine, y, x, 0.0f, "sum");
    };
  });
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

// Queries and keys of several recomputed blocks share one table.
TEST(Rotary, TableServesAllBlocksAndTheirRecomputation) {
  for (const bool checkpoint : {false, true}) {
    GradientCase c;
    c.make = Between(4, 4, []() -> Layer {
      return [fc = nn::Linear("fc", 4, 4)](Engine& engine,
                                           Tensor x) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const ops::RotaryTable table,
                                Upload(engine, 3, 2));
        const auto block = [&engine, fc,
                            table](const Tensor& in) -> absl::StatusOr<Tensor> {
          CASTOR_ASSIGN_OR_RETURN(Tensor q, fc(engine, in));
          CASTOR_ASSIGN_OR_RETURN(
              q, ops::Rotary(engine, std::move(q), table, 4, "q"));
          CASTOR_ASSIGN_OR_RETURN(Tensor k,
                                  ops::Rotary(engine, in, table, 4, "k"));
          return ops::Dropout(engine, q, k, 0.0f, "sum");
        };
        for (int i = 0; i < 2; ++i) {
          CASTOR_ASSIGN_OR_RETURN(x, Checkpoint(engine, x, block));
        }
        return x;
      };
    });
    if (checkpoint) c.kept_blocks.emplace();
    c.shape.micro_batches = 2;
    const absl::Status status = CheckGradients(c);
    EXPECT_TRUE(status.ok()) << checkpoint << ": " << status;
  }
}

// One head of 4 channels in two sequences of 2 tokens, at positions 1 and 2 of
// a table of 3: the first turns its pairs by 90 and 0 degrees, the second by 0
// and 180.
TEST(Rotary, TurnsPairsByTheAnglesOfTheirPositions) {
  Engine engine(DType::kFloat32, 1);
  auto layout = MakeChunkLayout({{.name = "w", .elements = 1}}, {});
  ASSERT_TRUE(layout.ok());
  EagerBackend backend(&*layout);
  engine.SetBackend(&backend);
  const auto values = [&backend](const Tensor& tensor) {
    const float* data =
        static_cast<const float*>(backend.data(tensor.storage_id()));
    return std::vector<float>(data, data + 16);
  };
  const std::vector<float> before = {1, 2,  3,  4,  5,  6,  7,  8,
                                     9, 10, 11, 12, 13, 14, 15, 16};
  const std::vector<float> after = {-3,  2,  1, 4,  5,  -6,  7,  -8,
                                    -11, 10, 9, 12, 13, -14, 15, -16};
  {
    auto x = engine.Upload("x", {2, 2, 4}, before);
    ASSERT_TRUE(x.ok());
    auto table = ops::UploadRotaryTable(
        engine, 3, 2, std::vector<float>{9, 9, 0, 1, 1, -1, 9, 9, 1, 0, 0, 0},
        "table");
    ASSERT_TRUE(table.ok());
    table->begin = 1;
    {
      const auto y = ops::Rotary(engine, *x, *table, 4, "rotary");
      ASSERT_TRUE(y.ok()) << y.status();
      EXPECT_EQ(values(*y), after);
      EXPECT_EQ(values(*x), before);
    }
    const auto y = ops::Rotary(engine, *std::move(x), *table, 4, "rotary");
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(values(*y), after);
    // The table and the result, which has x's.
    EXPECT_EQ(backend.live_storages(), 2);

    table->begin = 2;
    const auto refused = ops::Rotary(engine, *y, *table, 4, "attn");
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
    EXPECT_NE(refused.status().message().find(
                  "3 positions and 2 pairs of channels cannot turn 2 positions "
                  "from 2"),
              std::string::npos)
        << refused.status();
  }
  engine.SetBackend(nullptr);
}

TEST(Rotary, FrozenInputNeedsNoGradient) {
  GradientCase c = TurnedLinear(4, 2);
  c.frozen = {"wte.weight", "fc.weight", "fc.bias"};
  const absl::Status status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Rotary, DryPassDoesNotMakeTheTable) {
  GradientCase c;
  auto made = std::make_shared<int>(0);
  c.make = Between(4, 4, [made]() -> Layer {
    return [made](Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
      CASTOR_ASSIGN_OR_RETURN(
          const ops::RotaryTable table,
          ops::UploadRotaryTable(
              engine, 3, 2,
              HostData::Made(
                  12,
                  [made] {
                    ++*made;
                    return std::make_shared<const std::vector<float>>(
                        Angles(3, 2));
                  }),
              "rotary/input"));
      return ops::Rotary(engine, x, table, 4, "rotary");
    };
  });
  absl::Status status = DryPass(c);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(*made, 0);
  status = CheckGradients(c);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(*made, 0);
}

TEST(Rotary, RefusesHeadsAndTablesThatDoNotFit) {
  const auto refusal = [](int64_t positions, int64_t pairs, int64_t head_size,
                          const std::vector<std::string>& parts) {
    GradientCase c;
    c.make = Between(6, 6, [=]() -> Layer {
      return [=](Engine& engine, const Tensor& x) -> absl::StatusOr<Tensor> {
        CASTOR_ASSIGN_OR_RETURN(const ops::RotaryTable table,
                                Upload(engine, positions, pairs));
        return ops::Rotary(engine, x, table, head_size, "attn.rotary");
      };
    });
    return CheckRefusal(c, parts);
  };
  absl::Status status =
      refusal(3, 2, 4, {"\"attn.rotary\"", "[2, 3, 6]", "heads of 4"});
  EXPECT_TRUE(status.ok()) << status;
  status = refusal(2, 1, 2, {"\"attn.rotary\"", "2 positions", "turn 3"});
  EXPECT_TRUE(status.ok()) << status;
  status = refusal(3, 2, 3, {"\"attn.rotary\"", "2 pairs", "heads of 3"});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace castor::testing
