#include "runtime/train/trainer_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/test_files.h"
#include "run/optim/sgd/sgd.h"
#include "runtime/nn/model.h"
#include "runtime/nn/modules.h"
#include "runtime/nn/zero_init.h"
#include "runtime/ops/head_loss.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Bigrams final : public Model {
 public:
  explicit Bigrams(int64_t width)
      : tokens_("tokens", 8, width), fc_("fc", width, width) {}
  absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                              const Tensor& targets) override {
    CASTOR_ASSIGN_OR_RETURN(Tensor x, tokens_(engine, tokens));
    CASTOR_ASSIGN_OR_RETURN(x, fc_(engine, x));
    return ops::HeadLoss(engine, x, tokens_.weight(), targets);
  }

 private:
  nn::Embedding tokens_;
  nn::Linear fc_;
};

// A program, whose settings can differ from one start to the next.
struct Program {
  std::string directory;
  int64_t width = 8;
  uint64_t seed = 1;
  double momentum = -1;  // of SGD; below 0: Adam
  int64_t device_bytes = kUnlimitedBytes;
};

struct Ended {
  TrainerCheckpoints::Begun begun;
  int64_t first_step = 0;
  std::string sha256;
};

// Trains to step `steps`, and saves after each, or not at all.
absl::StatusOr<Ended> TrainTo(const Program& program, int64_t steps,
                              bool saves = true) {
  Engine engine(DType::kFloat32, program.seed);
  const ZeroInit scope(engine);
  Bigrams model(program.width);
  TrainerOptions options;
  options.shape = {.batch = 1, .length = 4};
  options.memory.device_bytes = program.device_bytes;
  if (program.momentum >= 0) {
    options.optimizer.rule =
        std::make_shared<Sgd>(SgdOptions{.momentum = program.momentum});
  }
  CASTOR_ASSIGN_OR_RETURN(const auto trainer,
                          Trainer::Create(&engine, &model, options));
  TrainerCheckpoints checkpoints(program.directory, trainer.get());
  InitialValues values(engine.seed());
  Ended ended;
  CASTOR_ASSIGN_OR_RETURN(ended.begun, checkpoints.Begin(values));
  ended.first_step = trainer->step();
  while (trainer->step() < steps) {
    const int32_t at = static_cast<int32_t>(trainer->step());
    const auto next = [&]() -> absl::StatusOr<MicroBatch> {
      return MicroBatch{.tokens = {at % 8, 1, 2, 3},
                        .targets = {(at + 1) % 8, 2, 3, 4}};
    };
    CASTOR_RETURN_IF_ERROR(trainer->Step(next).status());
    if (saves) {
      CASTOR_RETURN_IF_ERROR(
          checkpoints.Save(absl::StrCat("after ", trainer->step())));
    }
  }
  CASTOR_RETURN_IF_ERROR(trainer->Drain());
  CASTOR_ASSIGN_OR_RETURN(
      ended.sha256, ParametersSha256(trainer->parameters(), trainer->store(),
                                     /*communicator=*/nullptr));
  return ended;
}

class TrainerCheckpointsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(files_.path(), "/", name);
  }
  Program At(const std::string& name) const {
    return {.directory = Path(name)};
  }

 private:
  TemporaryDirectory files_;
};

TEST_F(TrainerCheckpointsTest, GoesOnToTheBitsOfARunThatNeverEnded) {
  const auto whole = TrainTo(At("whole"), 5);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->begun.path, "");
  ASSERT_TRUE(TrainTo(At("parts"), 3).ok());
  Program second = At("parts");
  second.device_bytes = 64 << 10;
  const auto parts = TrainTo(second, 5);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->first_step, 3);
  EXPECT_EQ(parts->begun.path, Path("parts/step-00000003.castor"));
  EXPECT_EQ(parts->begun.text, "after 3");
  EXPECT_EQ(parts->sha256, whole->sha256);
}

TEST_F(TrainerCheckpointsTest, KeepsTheNewestAndPassesOverADamagedOne) {
  ASSERT_TRUE(TrainTo(At("out"), 4).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("out/step-00000002.castor")));
  const std::string newest = Path("out/step-00000004.castor");
  WriteFile(newest, ReadFile(newest).substr(0, 100));
  const auto again = TrainTo(At("out"), 3, /*saves=*/false);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->first_step, 3);
  EXPECT_THAT(again->begun.notes,
              ElementsAre(HasSubstr("step-00000004"), HasSubstr("out.1")));
  // It is moved aside, not removed.
  EXPECT_TRUE(std::filesystem::exists(Path("out.1/step-00000004.castor")));
}

TEST_F(TrainerCheckpointsTest, RefusesACheckpointOfAnotherRun) {
  Program sgd = At("out");
  sgd.momentum = 0.5;
  ASSERT_TRUE(TrainTo(sgd, 2).ok());
  const auto message = [&](const auto& change) {
    Program other = sgd;
    change(other);
    const absl::Status status = TrainTo(other, 3).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message([](Program& p) { p.width = 16; }),
              HasSubstr("of another model: \"tokens.weight\" has 64 elements"));
  EXPECT_THAT(message([](Program& p) { p.seed = 2; }),
              HasSubstr("seed: 1 then, 2 now"));
  EXPECT_THAT(message([](Program& p) { p.momentum = 0.25; }),
              HasSubstr("optimizer.params.momentum: 0.5 then, 0.25 now"));
  EXPECT_THAT(message([](Program& p) { p.momentum = -1; }),
              HasSubstr("optimizer.type: \"SGD\" then, \"AdamW\" now"));
  // Nothing was lost.
  const auto same = TrainTo(sgd, 3);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->first_step, 2);
}

TEST_F(TrainerCheckpointsTest, SavesOnlyAfterItHasBegunAndHasTheEngineAlone) {
  Engine engine(DType::kFloat32, /*seed=*/1);
  const ZeroInit scope(engine);
  Bigrams model(8);
  TrainerOptions options;
  options.shape = {.batch = 1, .length = 4};
  const auto trainer = Trainer::Create(&engine, &model, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  TrainerCheckpoints checkpoints(Path("out"), trainer->get());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Trainer::Create(&engine, &model, options).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(checkpoints.Save()));
  InitialValues values(1);
  ASSERT_TRUE(checkpoints.Begin(values).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(checkpoints.Begin(values).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(checkpoints.Save("\xff")));
  EXPECT_TRUE(checkpoints.Save().ok());
}

}  // namespace
}  // namespace castor
