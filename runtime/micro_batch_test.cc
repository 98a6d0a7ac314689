#include "runtime/micro_batch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "runtime/nn/model.h"
#include "runtime/nn/modules.h"
#include "runtime/nn/zero_init.h"
#include "runtime/ops/head_loss.h"
#include "runtime/tape.h"
#include "runtime/trainer.h"

namespace castor {
namespace {

// A Linear within a recomputed block and after it, so that its gradient waits
// beside its values when the block is recomputed.
class SharedModel final : public Model {
 public:
  enum class Fault { kNone, kNoLoss, kWideLoss, kInRecomputation };

  absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                              const Tensor& targets) override {
    if (fault == Fault::kNoLoss) return Tensor();
    CASTOR_ASSIGN_OR_RETURN(Tensor x, wte_(engine, tokens));
    if (fault == Fault::kWideLoss) return x;
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
  absl::StatusOr<double> TrainOneStep(int64_t device_bytes) {
    TrainerOptions options;
    options.shape = {.batch = 1, .length = 4};
    options.memory.device_bytes = device_bytes;
    options.checkpoint_activations = true;
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

TEST_F(MicroBatchTest, DryPassThatFailedLeavesNothingBehind) {
  engine_.set_checkpoint_activations(true);
  model_.fault = Fault::kInRecomputation;
  EXPECT_TRUE(absl::IsInternal(Dry()));
  EXPECT_EQ(engine_.backend(), nullptr);
  for (const auto& parameter : engine_.parameters()) {
    EXPECT_FALSE(static_cast<bool>(parameter->early_gradient))
        << parameter->name;
  }
  model_.fault = Fault::kNone;
  EXPECT_TRUE(Dry().ok()) << Dry();
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
