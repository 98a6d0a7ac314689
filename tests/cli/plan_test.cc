// `castor plan` for models of people's sizes, from their config.json alone: no
// weights, no memory for them, seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

struct Known {
  const char* directory;
  const char* parameters;  // as transformers counts them
};

class PlanOf : public CliTest, public ::testing::WithParamInterface<Known> {
 protected:
  // A plan of a step of 4 x 2048 tokens in bf16 within a device budget.
  ProcessResult Plan(const std::string& device_memory) const {
    Json config = SmallConfig();
    config["model"] = {
        {"from_config",
         std::filesystem::absolute(std::string("tests/fixtures/configs/") +
                                   GetParam().directory)
             .string()}};
    config["data"]["sequence_length"] = 2048;
    config["bf16"] = {{"enabled", true}};
    config["train_micro_batch_size_per_gpu"] = 1;
    config["gradient_accumulation_steps"] = 4;
    config["optimizer"]["no_decay"] = {"*norm*"};
    config["memory"] = {{"placement_policy", "auto"},
                        {"device_memory", device_memory},
                        {"host_memory", "512GiB"},
                        {"activation_checkpointing", "block"}};
    WriteConfig(config);
    return Castor({"plan", "run.json"});
  }
  // The bytes that a plan's last line says are moved to the device.
  static std::string MovedOf(const ProcessResult& plan) {
    const std::string marker = "a step moves ";
    const size_t at = plan.out.find(marker);
    EXPECT_NE(at, std::string::npos) << plan.out << plan.err;
    if (at == std::string::npos) return "";
    const size_t begin = at + marker.size();
    return plan.out.substr(begin, plan.out.find(" to the device") - begin);
  }
};

TEST_P(PlanOf, FitsBudgetsOfOneGpuAndMovesLessInALargerOne) {
  for (const char* budget : {"8GiB", "24GiB", "80GiB"}) {
    const ProcessResult plan = Plan(budget);
    EXPECT_EQ(plan.exit_code, 0) << budget << plan.err;
    EXPECT_THAT(plan.out, HasSubstr(GetParam().parameters));
    EXPECT_THAT(plan.out, HasSubstr("it fits"));
  }
  EXPECT_NE(MovedOf(Plan("8GiB")), "0 B");
  EXPECT_EQ(MovedOf(Plan("400GiB")), "0 B");
}

TEST_P(PlanOf, IsRefusedWithTheBudgetThatWouldDo) {
  const ProcessResult refused = Plan("256MiB");
  ExpectUserError(refused);
  const std::string marker = "memory.device_memory that would do is ";
  const size_t at = refused.err.find(marker);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const ProcessResult fits = Plan(
      std::to_string(std::stoll(refused.err.substr(at + marker.size()))) + "B");
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
}

INSTANTIATE_TEST_SUITE_P(
    Models, PlanOf,
    ::testing::Values(Known{"llama_3_1_8b", "8030261248 parameters"},
                      Known{"qwen3_14b", "14768307200 parameters"}),
    [](const auto& info) { return std::string(info.param.directory); });

}  // namespace
}  // namespace castor::testing
