// Steps of several shapes in one run: each is traced when it first appears, and
// none spoils another's plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

models::Gpt2Config SmallModel() {
  models::Gpt2Config config;
  config.n_layer = 2;
  config.n_head = 2;
  config.n_embd = 32;
  config.n_positions = 64;
  config.vocab_size = 97;
  return config;
}

struct Shapes {
  std::vector<std::pair<int64_t, int64_t>> steps;  // batch, length
  std::vector<int64_t> h2d_bytes;                  // of each step
  std::string sha256;
  int64_t device_peak_bytes = 0;
};

absl::StatusOr<Shapes> Train(const PlacementPolicy* policy, int64_t budget,
                             std::vector<std::pair<int64_t, int64_t>> steps) {
  Engine engine(DType::kBFloat16, 3);
  const ZeroInit scope(engine);
  models::Gpt2 model(SmallModel());
  TrainerOptions options;
  options.shape = {.batch = 2, .length = 16};
  options.threads = 2;
  options.optimizer.gradient_clipping = 0.5;
  options.memory.policy = policy;
  options.memory.device_bytes = budget;
  options.scribble_freed_memory = true;
  CASTOR_ASSIGN_OR_RETURN(const auto trainer,
                          Trainer::Create(&engine, &model, options));
  InitialValues values(3);
  CASTOR_RETURN_IF_ERROR(trainer->Initialize(values));
  Shapes shapes{.steps = steps, .h2d_bytes = {}, .sha256 = {}};
  int64_t index = 0;
  for (const auto& [batch, length] : steps) {
    const StepShape shape = {.batch = batch, .length = length};
    CASTOR_RETURN_IF_ERROR(
        trainer
            ->Step(batch, length,
                   [&, shape]() -> absl::StatusOr<MicroBatch> {
                     return RandomMicroBatch(5, index++, shape, 97);
                   })
            .status());
  }
  CASTOR_RETURN_IF_ERROR(trainer->Drain());
  for (const StepReport& report : trainer->TakeReports()) {
    shapes.h2d_bytes.push_back(report.h2d_bytes);
  }
  CASTOR_ASSIGN_OR_RETURN(
      shapes.sha256,
      ParametersSha256(engine.parameters(), trainer->store(), nullptr));
  shapes.device_peak_bytes = trainer->arena_stats().peak_bytes;
  return shapes;
}

const std::vector<std::pair<int64_t, int64_t>> kMixed = {
    {2, 16}, {2, 16}, {3, 40}, {2, 16}, {3, 40}, {3, 40},
    {1, 64}, {2, 16}, {1, 64}, {3, 40}, {1, 64}, {2, 16}};

TEST(StepsOfSeveralShapes, GiveTheSameBitsUnderEveryPolicy) {
  // Room for the largest shape's activations beside a part of the model: the
  // optimizer states that the small shape keeps on the device must make way.
  constexpr int64_t kRoom = 700 << 10;
  const auto all = Train(FindPolicy("cuda"), 8 << 20, kMixed);
  ASSERT_TRUE(all.ok()) << all.status();
  for (const PlacementPolicy* policy :
       {FindPolicy("cpu"), FindPolicy("auto")}) {
    const auto tight = Train(policy, kRoom, kMixed);
    ASSERT_TRUE(tight.ok()) << tight.status();
    EXPECT_EQ(tight->sha256, all->sha256) << policy->name;
    EXPECT_LE(tight->device_peak_bytes, kRoom);
  }
}

TEST(StepsOfSeveralShapes, LeaveEachOthersPlansAlone) {
  // The first shape moves nothing once it is settled, whatever came between.
  const auto mixed = Train(FindPolicy("auto"), 8 << 20, kMixed);
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_GT(mixed->h2d_bytes.front(), 0);  // warm-up
  EXPECT_EQ(mixed->h2d_bytes.back(), 0);
}

TEST(StepsOfSeveralShapes, RefuseAShapeThatDoesNotFitAndGoOn) {
  Engine engine(DType::kFloat32, 3);
  const ZeroInit scope(engine);
  models::Gpt2 model(SmallModel());
  TrainerOptions options;
  options.shape = {.batch = 1, .length = 8};
  auto probe = Trainer::Create(&engine, &model, options);
  ASSERT_TRUE(probe.ok()) << probe.status();
  options.memory.device_bytes =
      (*probe)->admission().smallest_device_budget_bytes;
  probe->reset();
  auto trainer = Trainer::Create(&engine, &model, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  InitialValues values(3);
  ASSERT_TRUE((*trainer)->Initialize(values).ok());
  const auto step = [&](int64_t batch, int64_t length) {
    return (*trainer)
        ->Step(batch, length,
               [&]() -> absl::StatusOr<MicroBatch> {
                 return RandomMicroBatch(
                     5, 0, {.batch = batch, .length = length}, 97);
               })
        .status();
  };
  ASSERT_TRUE(step(1, 8).ok());
  const absl::Status refused = step(4, 64);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(step(1, 8).ok());
  EXPECT_EQ((*trainer)->step(), 2);
}

TEST(StepsOfSeveralLengths, AreAdmittedTogetherOrRefusedBeforeTheFirst) {
  Engine engine(DType::kFloat32, 3);
  const ZeroInit scope(engine);
  models::Gpt2 model(SmallModel());
  const auto create = [&](int64_t length, std::vector<int64_t> others,
                          int64_t budget) {
    TrainerOptions options;
    options.shape = {.batch = 1, .length = length};
    options.other_lengths = std::move(others);
    options.memory.device_bytes = budget;
    return Trainer::Create(&engine, &model, std::move(options));
  };
  const auto smallest = [&](int64_t length, std::vector<int64_t> others) {
    const auto trainer = create(length, std::move(others), kUnlimitedBytes);
    return (*trainer)->admission().smallest_device_budget_bytes;
  };
  const int64_t small = smallest(8, {});
  const int64_t large = smallest(64, {});
  ASSERT_LT(small, large);
  EXPECT_EQ(smallest(8, {40, 64}), large);
  EXPECT_EQ(smallest(64, {8, 40}), large);
  for (const int64_t budget : {small, large - 1}) {
    const auto refused = create(8, {40, 64}, budget).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_NE(refused.message().find(absl::StrCat(large, " bytes")),
              std::string::npos)
        << refused;
  }
  const auto trainer = create(64, {8, 40}, large);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  InitialValues values(3);
  ASSERT_TRUE((*trainer)->Initialize(values).ok());
  for (const int64_t length : {8, 64, 40, 8, 40, 64, 64, 8, 8, 40}) {
    const StepShape shape = {.batch = 1, .length = length};
    const auto loss =
        (*trainer)->Step(1, length, [&]() -> absl::StatusOr<MicroBatch> {
          return RandomMicroBatch(5, 0, shape, 97);
        });
    ASSERT_TRUE(loss.ok()) << loss.status();
  }
  EXPECT_LE((*trainer)->arena_stats().peak_bytes, large);
}

// Nothing but what each step itself moves crosses the bus: with room for all of
// the model nothing does, and with less the optimizer states stay where they
// are.
TEST(StepsOfSeveralLengths, FindWhatTheOthersLeave) {
  for (const bool all : {true, false}) {
    Engine engine(DType::kBFloat16, 3);
    const ZeroInit scope(engine);
    models::Gpt2 model(SmallModel());
    TrainerOptions options;
    options.shape = {.batch = 2, .length = 64};
    options.other_lengths = {8, 24};
    options.bus_bytes_per_s = 2e8;
    auto trainer = Trainer::Create(&engine, &model, options);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    if (!all) {
      const AdmissionReport& admission = (*trainer)->admission();
      options.memory.device_bytes = (admission.smallest_device_budget_bytes +
                                     7 * admission.unmanaged_device_bytes) /
                                    8;
      trainer->reset();
      trainer = Trainer::Create(&engine, &model, options);
      ASSERT_TRUE(trainer.ok()) << trainer.status();
    }
    InitialValues values(3);
    ASSERT_TRUE((*trainer)->Initialize(values).ok());
    std::vector<Side> sides;
    for (int round = 0; round < 6; ++round) {
      const int64_t before = (*trainer)->store().h2d_bytes();
      (*trainer)->TakeReports();
      for (const int64_t length : {8, 64, 24, 8}) {
        const StepShape shape = {.batch = 2, .length = length};
        const auto loss =
            (*trainer)->Step(2, length, [&]() -> absl::StatusOr<MicroBatch> {
              return RandomMicroBatch(5, round, shape, 97);
            });
        ASSERT_TRUE(loss.ok()) << loss.status();
        // The warm-up and the first plans are over.
        if (round < 3) continue;
        std::vector<Side> now;
        for (int64_t i = 0; i < (*trainer)->layout().num_chunks(); ++i) {
          now.push_back((*trainer)->store().side(ChunkId(i)));
        }
        if (sides.empty()) sides = now;
        EXPECT_EQ(now, sides) << all << " " << length;
      }
      ASSERT_TRUE((*trainer)->Drain().ok());
      if (round < 3 || !all) continue;
      EXPECT_EQ((*trainer)->store().h2d_bytes(), before);
    }
    // The smaller budget has states on both sides.
    const auto on_device =
        std::count(sides.begin(), sides.end(), Side::kDevice);
    EXPECT_GT(on_device, 0) << all;
    if (!all) {
      EXPECT_LT(on_device, static_cast<int64_t>(sides.size()));
    }
  }
}

TEST(StepsOfSeveralLengths, LeaveTheEvaluationsAlone) {
  const auto evaluate = [](int64_t length, std::vector<int64_t> others,
                           int64_t eval_length) {
    Engine engine(DType::kFloat32, 3);
    const ZeroInit scope(engine);
    models::Gpt2 model(SmallModel());
    TrainerOptions options;
    options.shape = {.batch = 1, .length = length};
    options.other_lengths = std::move(others);
    options.eval_batch = 2;
    options.eval_length = eval_length;
    const auto trainer = Trainer::Create(&engine, &model, std::move(options));
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    InitialValues values(3);
    EXPECT_TRUE((*trainer)->Initialize(values).ok());
    const StepShape shape = {.batch = 2, .length = 48};
    const auto loss =
        (*trainer)->Evaluate(1, [&]() -> absl::StatusOr<MicroBatch> {
          return RandomMicroBatch(5, 0, shape, 97);
        });
    EXPECT_TRUE(loss.ok()) << loss.status();
    return *loss;
  };
  EXPECT_EQ(evaluate(16, {8}, 48), evaluate(48, {}, 0));
}

TEST(StepsOfSeveralShapes, RefuseAShapeThatTheModelDoesNotTakeAndGoOn) {
  Engine engine(DType::kFloat32, 3);
  const ZeroInit scope(engine);
  models::Gpt2 model(SmallModel());
  TrainerOptions options;
  options.shape = {.batch = 1, .length = 8};
  auto trainer = Trainer::Create(&engine, &model, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  InitialValues values(3);
  ASSERT_TRUE((*trainer)->Initialize(values).ok());
  const auto batch = [](int64_t length) {
    return [length]() -> absl::StatusOr<MicroBatch> {
      return RandomMicroBatch(5, 0, {.batch = 1, .length = length}, 97);
    };
  };
  ASSERT_TRUE((*trainer)->Step(batch(8)).ok());
  const absl::Status refused = (*trainer)->Step(1, 65, batch(65)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;  // n_positions 64
  EXPECT_TRUE((*trainer)->Step(batch(8)).ok());
}

TEST(StepBeforeInitialize, IsAnErrorAndHarmsNothing) {
  Engine engine(DType::kFloat32, 3);
  const ZeroInit scope(engine);
  models::Gpt2 model(SmallModel());
  TrainerOptions options;
  options.shape = {.batch = 1, .length = 8};
  options.eval_batch = 1;
  auto trainer = Trainer::Create(&engine, &model, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto next = []() -> absl::StatusOr<MicroBatch> {
    return RandomMicroBatch(5, 0, {.batch = 1, .length = 8}, 97);
  };
  EXPECT_TRUE(absl::IsFailedPrecondition((*trainer)->Step(next).status()));
  EXPECT_TRUE(
      absl::IsFailedPrecondition((*trainer)->Evaluate(1, next).status()));
  EXPECT_EQ((*trainer)->step(), 0);
  InitialValues values(3);
  ASSERT_TRUE((*trainer)->Initialize(values).ok());
  EXPECT_TRUE((*trainer)->Step(next).ok());
}

TEST(FailedStep, IsTheLastOne) {
  Engine engine(DType::kFloat32, 3);
  const ZeroInit scope(engine);
  models::Gpt2 model(SmallModel());
  TrainerOptions options;
  options.shape = {.batch = 1, .length = 8, .micro_batches = 2};
  options.eval_batch = 1;
  auto trainer = Trainer::Create(&engine, &model, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  InitialValues values(3);
  ASSERT_TRUE((*trainer)->Initialize(values).ok());
  // The second micro batch is of the wrong size: the first has left gradients.
  int64_t length = 8;
  const auto next = [&]() -> absl::StatusOr<MicroBatch> {
    return RandomMicroBatch(5, 0, {.batch = 1, .length = length++}, 97);
  };
  const absl::Status failed = (*trainer)->Step(next).status();
  EXPECT_TRUE(absl::IsInvalidArgument(failed)) << failed;
  length = 8;
  EXPECT_EQ((*trainer)->Step(next).status(), failed);
  EXPECT_EQ((*trainer)->Evaluate(1, next).status(), failed);
  EXPECT_EQ((*trainer)->Drain(), failed);
}

}  // namespace
}  // namespace castor::testing
