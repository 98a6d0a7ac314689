#include "runtime/train/micro_batch.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"
#include "runtime/nn/model.h"
#include "runtime/nn/modules.h"
#include "runtime/nn/zero_init.h"
#include "runtime/ops/head_loss.h"
#include "runtime/train/trainer.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

// A Linear within a recomputed block and after it, so that its gradient waits
// beside its values when the block is recomputed.
class SharedModel final : public Model {
 public:
  enum class Fault {
    kNone,
    kNoLoss,
    kWideLoss,
    kInRecomputation,
    kEmptyTensor
  };

  absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                              const Tensor& targets) override {
    if (fault == Fault::kNoLoss) return Tensor();
    CASTOR_ASSIGN_OR_RETURN(Tensor x, wte_(engine, tokens));
    if (fault == Fault::kWideLoss) return x;
    Tensor empty;
    if (fault == Fault::kEmptyTensor) {
      Op op(engine, "empty");
      const int out = op.Output({0}, DType::kFloat32);
      CASTOR_RETURN_IF_ERROR(op.Run([](const Pointers&, const ExecContext&) {
        return absl::OkStatus();
      }));
      empty = op.output(out);
    }
    CASTOR_ASSIGN_OR_RETURN(
        x,
        Checkpoint(engine, x,
                   [this, &engine](const Tensor& in) -> absl::StatusOr<Tensor> {
                     if (fault == Fault::kInRecomputation &&
                         engine.phase() == Phase::kBackward) {
                       return absl::InternalError("the block's own");
                     }
                     return fc_(engine, in);
                   }));
    CASTOR_ASSIGN_OR_RETURN(x, fc_(engine, x));
    return ops::HeadLoss(engine, x, wte_.weight(), targets);
  }
  Fault fault = Fault::kNone;

 private:
  nn::Embedding wte_{"wte", 8, 8};
  nn::Linear fc_{"fc", 8, 8};
};

using Fault = SharedModel::Fault;

class MicroBatchTest : public ::testing::Test {
 protected:
  absl::Status Dry() {
    return DryRun(engine_, model_, {.batch = 1, .length = 4}, nullptr,
                  /*accumulate=*/false, {})
        .status();
  }
  absl::StatusOr<StepTrace> TraceOf(int64_t micro_batches,
                                    const ChunkLayout* layout) {
    return DryRun(engine_, model_,
                  {.batch = 1, .length = 4, .micro_batches = micro_batches},
                  layout, micro_batches > 1, {});
  }
  absl::StatusOr<double> TrainOneStep(int64_t device_bytes) {
    TrainerOptions options;
    options.shape = {.batch = 1, .length = 4};
    options.memory.device_bytes = device_bytes;
    options.activation_checkpointing = ActivationCheckpointing::kBlock;
    CASTOR_ASSIGN_OR_RETURN(const auto trainer,
                            Trainer::Create(&engine_, &model_, options));
    InitialValues values(1);
    CASTOR_RETURN_IF_ERROR(trainer->Initialize(values));
    return trainer->Step([]() -> absl::StatusOr<MicroBatch> {
      return MicroBatch{{0, 1, 2, 3}, {1, 2, 3, 4}};
    });
  }

  Engine engine_{DType::kFloat32, 1};
  ZeroInit scope_{engine_};
  SharedModel model_;
};

TEST_F(MicroBatchTest, LossThatIsNoLossIsAnErrorThatSaysWhatItWas) {
  model_.fault = Fault::kNoLoss;
  EXPECT_TRUE(absl::IsInvalidArgument(Dry()));
  EXPECT_NE(Dry().message().find("returned no tensor"), std::string::npos);
  model_.fault = Fault::kWideLoss;
  EXPECT_TRUE(absl::IsInvalidArgument(Dry()));
  EXPECT_NE(Dry().message().find("of shape [1, 4, 8]"), std::string::npos)
      << Dry();
}

TEST_F(MicroBatchTest, TargetsOfOtherTermsThanTheModelHasAreRefused) {
  const auto refused =
      DryRun(engine_, model_, {.batch = 1, .length = 4, .terms = 2}, nullptr,
             /*accumulate=*/false, {});
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_NE(refused.status().message().find("got targets of 2"),
            std::string::npos)
      << refused.status();
}

TEST_F(MicroBatchTest, DryPassThatFailedLeavesNothingBehind) {
  engine_.set_kept_blocks(std::vector<bool>{});
  model_.fault = Fault::kInRecomputation;
  EXPECT_TRUE(absl::IsInternal(Dry()));
  EXPECT_EQ(engine_.backend(), nullptr);
  for (const auto& parameter : engine_.parameters()) {
    EXPECT_FALSE(static_cast<bool>(engine_.gradient_place(*parameter).early()))
        << parameter->name;
  }
  model_.fault = Fault::kNone;
  EXPECT_TRUE(Dry().ok()) << Dry();
}

TEST_F(MicroBatchTest, MoreOperatorsThanAStepCanHaveAreRefusedAtOnce) {
  const auto one = TraceOf(1, nullptr);
  ASSERT_TRUE(one.ok()) << one.status();
  const int64_t operators = static_cast<int64_t>(one->ops.size());
  const int64_t most = WorkTag::kMaxMoment / operators;
  const auto refused = TraceOf(most + 1, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_NE(refused.status().message().find(absl::StrCat(
                "lower gradient_accumulation_steps to at most ", most)),
            std::string::npos)
      << refused.status();
  EXPECT_TRUE(absl::IsInvalidArgument(
      TraceOf(std::numeric_limits<int64_t>::max(), nullptr).status()));
  EXPECT_TRUE(Dry().ok()) << Dry();
}

TEST_F(MicroBatchTest, MoreChunksThanAModelCanHaveAreRefused) {
  ChunkLayout layout;
  layout.chunks.resize(WorkTag::kMaxChunk + 2);
  const auto refused = TraceOf(1, &layout);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_NE(refused.status().message().find("1048576 chunks"),
            std::string::npos)
      << refused.status();
  EXPECT_NE(refused.status().message().find("memory.chunk_size"),
            std::string::npos)
      << refused.status();
}

TEST_F(MicroBatchTest, TensorWithoutElementsTakesWhatTheDryPassSays) {
  const auto expected = TrainOneStep(kUnlimitedBytes);
  ASSERT_TRUE(expected.ok()) << expected.status();
  model_.fault = Fault::kEmptyTensor;
  const auto loss = TrainOneStep(kUnlimitedBytes);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_EQ(*loss, *expected);
}

// The operators of a step that are the optimizer's: "r3" for reduce(3), "u3".
std::string OptimizerOps(const StepTrace& trace) {
  std::string text;
  for (const OpRecord& op : trace.ops) {
    if (op.kind == OpKind::kCompute) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    op.kind == OpKind::kReduce ? "r" : "u",
                    op.chunks[0].chunk.value);
  }
  return text;
}

TEST_F(MicroBatchTest,
       ChunksAreUpdatedAsTheirGradientsLandUnlessTheyAreClipped) {
  for (const bool clipped : {false, true}) {
    TrainerOptions options;
    options.shape = {.batch = 1, .length = 4, .micro_batches = 2};
    options.memory.chunk_bytes = 256;  // a chunk for each parameter
    options.optimizer.gradient_clipping = clipped ? 1 : 0;
    const auto trainer = Trainer::Create(&engine_, &model_, options);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const StepTrace& trace = *(*trainer)->training_trace();
    EXPECT_EQ(trace.global_norm, clipped);
    ASSERT_EQ(trace.chunks.size(), 3u);  // wte, fc.weight, fc.bias
    EXPECT_EQ(OptimizerOps(trace), clipped ? "r1 r2 r0 r1 r2 r0 u0 u1 u2"
                                           : "r1 r2 r0 r1 u1 r2 u2 r0 u0");
  }
}

TEST_F(MicroBatchTest, RefusalAndFailureLeaveTheEngineToTheNextTrainer) {
  const auto expected = TrainOneStep(kUnlimitedBytes);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto refused = TrainOneStep(1024);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  model_.fault = Fault::kInRecomputation;
  EXPECT_TRUE(absl::IsInternal(TrainOneStep(kUnlimitedBytes).status()));
  model_.fault = Fault::kNone;
  const auto again = TrainOneStep(kUnlimitedBytes);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *expected);
}

}  // namespace
}  // namespace castor
