// What `castor plan` plans for models of people's sizes, from their config.json
// alone: no weights, no memory for them, seconds. On a machine that has what
// the budgets say, which this one need not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/status_macros.h"
#include "base/test_files.h"
#include "base/units.h"
#include "cli/run/session.h"
#include "models/families.h"
#include "nlohmann/json.hpp"

namespace castor::testing {
namespace {

struct Known {
  const char* directory;
  int64_t parameters;  // as transformers counts them
};

class PlanOf : public ::testing::TestWithParam<Known> {
 protected:
  // Plans a step of 4 x 2048 tokens in bf16. A refusal is in `refused`.
  absl::StatusOr<AdmissionReport> Plan(int64_t device_bytes) {
    const Json config = {
        {"model",
         {{"from_config",
           std::filesystem::absolute(std::string("tests/fixtures/configs/") +
                                     GetParam().directory)
               .string()}}},
        {"data", {{"train", "text.txt"}, {"sequence_length", 2048}}},
        {"steps", 10},
        {"bf16", {{"enabled", true}}},
        {"train_micro_batch_size_per_gpu", 1},
        {"gradient_accumulation_steps", 4},
        {"optimizer", {{"type", "AdamW"}, {"no_decay", {"*norm*"}}}},
        {"device", {{"type", "host"}, {"threads", 1}}},
        {"memory",
         {{"placement_policy", "auto"},
          {"device_memory", device_bytes},
          {"activation_checkpointing", "block"}}}};
    WriteFile(directory_.path() + "/text.txt", std::string(10'000, 'a'));
    const std::string path = directory_.path() + "/run.json";
    WriteFile(path, config.dump());
    CASTOR_ASSIGN_OR_RETURN(const Config read,
                            LoadConfig(models::Reader(), path));
    cli::Session::Options options;
    options.admit_only = true;
    options.machine_share_bytes = kUnlimitedBytes;
    refused_.reset();
    CASTOR_ASSIGN_OR_RETURN(
        const std::unique_ptr<cli::Session> session,
        cli::Session::Create(read, std::move(options), &refused_));
    return session->trainer().admission();
  }

  std::optional<RefusedRun> refused_;

 private:
  TemporaryDirectory directory_;
};

constexpr int64_t kGib = int64_t{1} << 30;

TEST_P(PlanOf, FitsOneGpusBudgetsAndMovesNothingWhereAllFits) {
  int64_t moved = -1;
  for (const int64_t gib : {8, 24, 80, 500}) {
    const auto plan = Plan(gib * kGib);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->parameter_elements, GetParam().parameters);
    EXPECT_LE(plan->device.total(), gib * kGib);
    if (moved >= 0) {
      EXPECT_LE(plan->h2d_bytes_per_step, moved) << gib;
    }
    moved = plan->h2d_bytes_per_step;
  }
  EXPECT_EQ(moved, 0);
}

TEST_P(PlanOf, IsRefusedWithTheBudgetThatWouldDo) {
  const auto none = Plan(kGib / 4);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(refused_.has_value()) << none.status();
  const int64_t smallest = refused_->refusal.smallest_device_budget_bytes;
  const auto plan = Plan(smallest);
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(Plan(smallest - 256).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, PlanOf,
                         ::testing::Values(Known{"llama_3_1_8b", 8030261248},
                                           Known{"qwen3_14b", 14768307200}),
                         [](const auto& info) {
                           return std::string(info.param.directory);
                         });

}  // namespace
}  // namespace castor::testing
