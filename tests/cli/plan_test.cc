// Tests `castor plan` for models of the sizes that people train, from their
// config.json alone: it takes seconds, no weights and no memory for them. This
// machine need not have the memory of the budgets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/test_files.h"
#include "base/units.h"
#include "cli/run/session.h"
#include "models/families.h"
#include "nlohmann/json.hpp"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGib = int64_t{1} << 30;

absl::StatusOr<AdmissionReport> PlanOfFile(
    const std::string& path, const std::vector<std::string>& overrides,
    std::optional<RefusedRun>* refused) {
  CASTOR_ASSIGN_OR_RETURN(const Config config,
                          LoadConfig(models::Reader(), path, overrides));
  cli::Session::Options options;
  options.admit_only = true;
  CASTOR_ASSIGN_OR_RETURN(
      const std::unique_ptr<cli::Session> session,
      cli::Session::Create(config, std::move(options), refused));
  return session->trainer().admission();
}

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
    refused_.reset();
    return PlanOfFile(path, {}, &refused_);
  }

  std::optional<RefusedRun> refused_;

 private:
  TemporaryDirectory directory_;
};

TEST_P(PlanOf, FitsOneGpusBudgetsAndMovesNothingWhereAllFits) {
  int64_t moved = -1;
  for (const int64_t gib : {8, 24, 80, 640}) {
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
                                           Known{"qwen3_14b", 14768307200},
                                           Known{"opt_30b", 29974540288}),
                         [](const auto& info) {
                           return std::string(info.param.directory);
                         });

class PlanOfExample : public CliTest {
 protected:
  const std::string config_ =
      std::filesystem::absolute("examples/opt/opt_1.3b.json").string();
  // Nobody's text need be here; the plan asks for its length alone.
  const std::string data_ = "data.train=" + Path("text.txt");
};

// The sizes of examples/opt/opt_1.3b/config.json, counted here once more.
TEST_F(PlanOfExample, OptFitsSixGibibytes) {
  constexpr int64_t kWidth = 2048, kInner = 8192, kLayers = 24;
  constexpr int64_t kLayer = 4 * (kWidth * kWidth + kWidth) +  // attention
                             2 * kWidth * kInner + kInner + kWidth +
                             2 * 2 * kWidth;  // two norms
  constexpr int64_t kElements =
      50272 * kWidth + (2048 + 2) * kWidth + kLayers * kLayer + 2 * kWidth;
  const auto plan = PlanOfFile(config_, {data_}, nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->parameter_elements, kElements);
  EXPECT_EQ(plan->device.budget_bytes, 6 * kGib);
  EXPECT_LE(plan->device.total(), 6 * kGib);
  EXPECT_LE(plan->host.total(), 32 * kGib);
  EXPECT_LE(plan->smallest_device_budget_bytes, 6 * kGib);

  // bf16 values at home, and wherever it is updated 12 bytes of each element's
  // masters and states and 4 of its sum over micro batches.
  const int64_t with_padding = kElements + plan->padding_bytes / 2;
  EXPECT_EQ(plan->host.parameters, 2 * with_padding);
  EXPECT_EQ(plan->device.optimizer_states + plan->host.optimizer_states,
            12 * with_padding);
  // Where a micro batch's gradients stand beside the values, they are as large.
  const int64_t gradients = plan->device.gradients + plan->host.gradients;
  EXPECT_GE(gradients, 4 * with_padding);
  EXPECT_LE(gradients, (4 + 2) * with_padding);
  EXPECT_GT(plan->unmanaged_device_bytes, 18 * kElements);
  // The input of each layer is kept for its backward pass; the rest of one
  // layer's activations is the width of the inner layer and some of its own.
  constexpr int64_t kTokens = 4 * 1024;
  EXPECT_GE(plan->device.activations, 2 * kLayers * kTokens * kWidth);
  EXPECT_LE(plan->device.activations,
            2 * kTokens * (kLayers * kWidth + 4 * kInner + 16 * kWidth));
  // All values have room on the device, so what leaves it are, in each of four
  // micro batches, the gradients whose sums the host has. The values come back
  // once: gradients take their places in the last micro batch alone, while they
  // stand beside them before. A device sum is as long as the gradients of two
  // micro batches.
  const int64_t values = 2 * (plan->host.gradients / 4);
  EXPECT_GE(plan->d2h_bytes_per_step, 2 * values);
  EXPECT_LE(plan->d2h_bytes_per_step, 8 * values);
  EXPECT_GE(plan->h2d_bytes_per_step, values);
  EXPECT_LE(plan->h2d_bytes_per_step, 2 * values);
}

TEST_F(PlanOfExample, OptIsPlannedByTheProgram) {
  const ProcessResult fits = Castor({"plan", config_, "--set", data_});
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_THAT(fits.out, HasSubstr("1315758080 parameters"));
  EXPECT_THAT(fits.out, HasSubstr("it fits"));
  EXPECT_THAT(fits.out,
              HasSubstr("\na trained parameter takes 18 bytes at home; "));
  EXPECT_THAT(fits.out, HasSubstr("\n  activations of 24 blocks: 24 made again "
                                  "(which spares 4.14 GiB)\n"));
  // The step's time, and what limits it.
  EXPECT_THAT(
      fits.out,
      ContainsRegex("predicted step: [0-9.e+]+ s, [0-9.]+ tokens/s, "
                    "bound by compute; busy: compute [0-9]+%, bus to "
                    "the device [0-9]+%, bus from it [0-9]+%, host "
                    "[0-9]+%; addresses planned \\(durations as estimated"));
  const ProcessResult shared =
      Castor({"plan", config_, "--set", data_, "--world-size", "2", "--set",
              "memory.host_memory=64GiB"});
  EXPECT_EQ(shared.exit_code, 0) << shared.err;
  EXPECT_THAT(shared.out,
              ContainsRegex(", network [0-9]+%; addresses planned "));
}

class PlanForAnotherMachine : public CliTest {};

// A model of 280 TiB, for budgets that would do.
TEST_F(PlanForAnotherMachine, SaysThatThisOneHasLess) {
  Json config = SmallConfig();
  config["model"]["n_embd"] = 1 << 16;
  config["model"]["n_layer"] = 300;
  WriteConfig(config);
  const ProcessResult plan = Castor({"plan", "run.json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("it fits"));
  EXPECT_THAT(plan.out, HasSubstr("not on this machine, which has "));
  ExpectUserError(Castor({"train", "run.json"}));
  EXPECT_FALSE(Exists("out"));

  WriteConfig(SmallConfig());
  EXPECT_THAT(Castor({"plan", "run.json"}).out,
              Not(HasSubstr("not on this machine")));
}

// One line of standard error, with `why` in it.
void ExpectError(const ProcessResult& plan, const std::string& why) {
  ExpectUserError(plan);
  EXPECT_THAT(plan.err, HasSubstr(why));
}

// GPUs that are not here, in whatever build this is.
class PlanOfGpu : public CliTest {
 protected:
  PlanOfGpu() { WriteConfig(SmallConfig()); }

  ProcessResult Plan(std::vector<std::string> args) const {
    args.insert(args.begin(), {"plan", "run.json"});
    return Castor(args);
  }
  void ExpectRefused(const std::vector<std::string>& args,
                     const std::string& why) const {
    ExpectError(Plan(args), why);
  }
};

TEST_F(PlanOfGpu, PutsTheRunOnTheMachineThatIsNamed) {
  Json config = SmallConfig();
  config["memory"] = Json::object();
  WriteConfig(config);
  const ProcessResult plan = Plan({"--gpu", "4090", "--ram", "64GiB"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out,
              HasSubstr("machine: NVIDIA GeForce RTX 4090, device memory of up "
                        "to 22.5 GiB (of the 23.5 GiB that CUDA reports, less "
                        "1.00 GiB for its context and libraries)\n"
                        "  copies 25.2 GB/s to the device, 25.2 GB/s from it; "
                        "host desktop, two channels of DDR5-5600, 64.0 GiB of "
                        "memory (--ram)\n"));
  EXPECT_THAT(plan.out, ContainsRegex("budget +22.5 GiB +64.0 GiB\n"));
  EXPECT_THAT(plan.out, HasSubstr("durations as estimated"));
  // Values that the configuration gives are kept.
  const ProcessResult given =
      Plan({"--gpu", "4090", "--set", "memory.device_memory=1GiB", "--set",
            "device.bus_gbps=6", "--host", "server"});
  ASSERT_EQ(given.exit_code, 0) << given.err;
  EXPECT_THAT(given.out, HasSubstr("copies 6 GB/s to the device, 6 GB/s from "
                                   "it (device.bus_gbps); host server"));
  EXPECT_THAT(given.out, ContainsRegex("budget +1.00 GiB +unlimited\n"));
}

TEST_F(PlanOfGpu, TakesMachinesOfTheUsersOwn) {
  WriteFile(Path("mine.json"), R"({"gpus": {"mine": {
      "name": "Mine", "compute_capability": 8.9, "memory": "16GiB",
      "memory_gbps": 500, "tflops": {"fp32": 10}, "to_device_gbps": 10,
      "from_device_gbps": 5, "source": "measured"}}})");
  const ProcessResult plan = Plan({"--gpu", "mine", "--machine", "mine.json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out,
              HasSubstr("copies 8 GB/s to the device, 4 GB/s from it"));
  ExpectRefused({"--gpu", "mine"}, "there is no GPU \"mine\"");
  WriteFile(Path("mine.json"), R"({"efficiency": {"product": 2}})");
  ExpectRefused({"--gpu", "4090", "--machine", "mine.json"},
                "--machine: mine.json: efficiency.product: ");
  // A type that it has no rate for.
  WriteFile(Path("mine.json"), R"({"gpus": {"mine": {
      "name": "Mine", "compute_capability": 8.9, "memory": "16GiB",
      "memory_gbps": 500, "tflops": {"fp32": 10}, "to_device_gbps": 10,
      "from_device_gbps": 5, "source": "measured"}}})");
  ExpectRefused(
      {"--gpu", "mine", "--machine", "mine.json", "--set", "bf16.enabled=true"},
      "no rate of products in bf16 for the Mine");
}

TEST_F(PlanOfGpu, RefusesWhatIsNoMachine) {
  ExpectRefused({"--gpu", "4080"},
                "--gpu: there is no GPU \"4080\"; the "
                "nearest name is \"");
  ExpectRefused({"--gpu", "t4"},
                "--gpu: the Tesla T4 has compute capability 7.5");
  ExpectRefused({"--gpu", "4090", "--ram", "much"},
                "--ram: \"much\" is no size");
  ExpectRefused({"--ram", "unlimited"}, "--ram: the memory of a machine");
  ExpectRefused({"--host", "server"},
                "--host: says what stands beside the GPU of a plan: give --gpu "
                "too, or a row that castor info --measure printed");
  ExpectRefused({"--nodes", "2"}, "--nodes, --gpus-per-node: ");
  ExpectRefused({"--gpu", "4090", "--nodes", "2", "--world-size", "2"},
                "--world-size");
  ExpectRefused({"--machine", "mine.json"}, "--machine: ");
  ExpectRefused({"--gpu", "4090", "--machine", "none.json"}, "none.json");
  ExpectRefused({"--gpu", "4090", "--set", "memory.device_memory=23GiB"},
                "memory.device_memory 23.0 GiB is more than the NVIDIA GeForce "
                "RTX 4090 has room for, 22.5 GiB");
  ExpectRefused({"--ram", "1GiB", "--set", "memory.host_memory=2GiB"},
                "memory.host_memory 2.00 GiB is more than --ram 1.00 GiB");
  // A machine with too little memory refuses, though this one has more.
  ExpectRefused({"--ram", "1KiB"}, "this run does not fit");
}

// Models that are known by name, without a configuration.
class PlanOfModel : public CliTest {
 protected:
  void ExpectRefused(std::vector<std::string> args,
                     const std::string& why) const {
    args.insert(args.begin(), "plan");
    ExpectError(Castor(args), why);
  }
};

TEST_F(PlanOfModel, TellsWhatItTakesForGranted) {
  const ProcessResult plan =
      Castor({"plan", "--model", "gpt2", "--gpu", "4090", "--ram", "32GiB"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(
      plan.out,
      HasSubstr("model: gpt2, gpt2, 12 layers of 768\n"
                "run: steps of train_batch_size 8 samples of "
                "data.sequence_length 1024 tokens, "
                "train_micro_batch_size_per_gpu 8, "
                "gradient_accumulation_steps 1; bf16, AdamW, "
                "memory.activation_checkpointing auto (--set changes each)\n"
                "machine: NVIDIA GeForce RTX 4090"));
  EXPECT_THAT(plan.out, HasSubstr("124439808 parameters"));
  EXPECT_THAT(plan.out, HasSubstr("it fits"));
  EXPECT_FALSE(Exists("none"));
}

TEST_F(PlanOfModel, TakesSettings) {
  const ProcessResult plan =
      Castor({"plan", "--model", "smollm2-135m", "--gpu", "3060", "--set",
              "train_batch_size=6", "--set", "data.sequence_length=512",
              "--set", "fp16.enabled=true", "--set", "optimizer.type=AdamW8bit",
              "--world-size", "2"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out,
              HasSubstr("train_batch_size 6 samples of data.sequence_length "
                        "512 tokens, train_micro_batch_size_per_gpu 3, "
                        "gradient_accumulation_steps 1; fp16, "));
  EXPECT_THAT(plan.out, HasSubstr("of each of 2 ranks"));
}

TEST_F(PlanOfModel, ReadsADirectoryOrItsConfig) {
  std::filesystem::create_directory(Path("mine"));
  WriteFile(Path("mine/config.json"),
            R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2,
                "n_positions": 32, "vocab_size": 100})");
  // 12 C^2 + 13 C a layer, the embeddings and the last norm.
  constexpr int64_t kElements =
      2 * (12 * 64 * 64 + 13 * 64) + (100 + 32) * 64 + 2 * 64;
  for (const char* const model : {"mine", "./mine", "mine/config.json"}) {
    const ProcessResult plan =
        Castor({"plan", "--model", model, "--gpu", "3060"});
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
    EXPECT_THAT(plan.out, HasSubstr(std::to_string(kElements) + " parameters"));
    EXPECT_THAT(plan.out, HasSubstr("data.sequence_length 32 tokens"));
  }
}

TEST_F(PlanOfModel, RefusesWhatIsNoModel) {
  ExpectRefused({"--model", "gpt2-huge"},
                "--model: there is no model \"gpt2-huge\"; the nearest name is "
                "\"gpt2-large\", of ");
  ExpectRefused({"--model", "./none"}, "none");
  ExpectRefused({"--model", "./text.txt"}, "text.txt");
  ExpectRefused({"--model", "gpt2", "run.json"}, "give one of the two");
  ExpectRefused({}, "CONFIG is required, or --model NAME");
  ExpectRefused({"--model", "gpt2", "--set", "data.packing=rows"},
                "has no data but data.sequence_length");
  ExpectRefused({"--model", "gpt2", "--set", "data.sequence_length=2048"},
                "2048 is more than the model's n_positions (1024)");
  ExpectRefused({"--model", "gpt2", "--set", "model.n_layer=3"}, "n_layer");
}

class PlanAsJson : public CliTest {
 protected:
  // The document that the command prints, and nothing else.
  Json Figures(std::vector<std::string> args, int exit_code = 0) const {
    args.insert(args.begin(), "plan");
    args.push_back("--json");
    const ProcessResult plan = Castor(args);
    EXPECT_EQ(plan.exit_code, exit_code) << plan.err;
    const Json json = Json::parse(plan.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << plan.out;
    return json;
  }
};

TEST_F(PlanAsJson, HasTheSummarysNames) {
  const Json summary = Summary(SmallConfig());
  const Json plan = Figures({"run.json"});
  for (const char* const name :
       {"fits", "binds", "busy", "predicted_step_seconds",
        "predicted_device_peak_bytes", "predicted_host_peak_bytes", "policy",
        "precision", "world_size", "device_budget_bytes",
        "smallest_device_budget_bytes", "unmanaged_device_bytes", "blocks",
        "kept_blocks", "offloaded_blocks", "planned_addresses",
        "h2d_bytes_per_step", "d2h_bytes_per_step"}) {
    EXPECT_TRUE(plan.contains(name)) << name;
    EXPECT_TRUE(summary.contains(name)) << name;
  }
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan["durations_measured"], false);
  EXPECT_GT(plan["predicted_host_peak_bytes"], 0);
  EXPECT_GT(plan["predicted_step_seconds"], 0);
  EXPECT_EQ(plan["busy"].size(), 4u);
}

// The roofline's arithmetic, through all layers: of two machines that differ in
// one figure, that figure shows.
TEST_F(PlanAsJson, FollowsTheMachinesFigures) {
  const auto machine = [&](double tflops, double gbps) {
    WriteFile(Path("mine.json"),
              Json({{"gpus",
                     {{"mine",
                       {{"name", "Mine"},
                        {"compute_capability", 8.9},
                        {"memory", "24GiB"},
                        {"memory_gbps", 1e5},
                        {"tflops", {{"fp32", tflops}, {"bf16", tflops}}},
                        {"to_device_gbps", gbps},
                        {"from_device_gbps", gbps},
                        {"source", "this test"}}}}},
                    {"hosts",
                     {{"fast",
                       {{"name", "fast"},
                        {"memory_gbps", 1e5},
                        {"network_gbps", 1},
                        {"source", "this test"}}}}}})
                  .dump());
    return Figures({"--model", "gpt2", "--gpu", "mine", "--host", "fast",
                    "--machine", "mine.json", "--set",
                    "memory.placement_policy=cuda"});
  };
  // All is resident: products are what takes time.
  const Json slow = machine(1, 10);
  const Json fast = machine(4, 10);
  EXPECT_EQ(slow["binds"], "compute");
  EXPECT_EQ(slow["gpu"], "mine");
  EXPECT_EQ(slow["h2d_bytes_per_step"], 0);
  const double ratio = slow["predicted_step_seconds"].get<double>() /
                       fast["predicted_step_seconds"].get<double>();
  EXPECT_GT(ratio, 3.5);
  EXPECT_LT(ratio, 4);
  // 6 operations a parameter and token, more with attention, at 0.65 of the
  // peak: 124e6 * 6 * 8192 / 0.65e12.
  EXPECT_GT(slow["predicted_step_seconds"], 9.4);
  EXPECT_LT(slow["predicted_step_seconds"], 2 * 9.4);
  EXPECT_EQ(machine(1, 0.01)["predicted_step_seconds"],
            slow["predicted_step_seconds"]);
}

// Memory that a machine's ranks share is counted once.
TEST_F(PlanAsJson, DividesAMachineAmongItsRanks) {
  const auto plan = [&](const std::string& nodes, const std::string& gpus) {
    return Figures({"--model", "gpt2", "--gpu", "a100-40", "--host", "server",
                    "--ram", "64GiB", "--nodes", nodes, "--gpus-per-node", gpus,
                    "--set", "memory.placement_policy=cpu"});
  };
  const Json apart = plan("8", "1");
  const Json together = plan("2", "4");
  for (const Json& each : {apart, together}) {
    EXPECT_EQ(each["world_size"], 8);
    EXPECT_EQ(each["ram_bytes"], int64_t{64} << 30);
    // A rank's own bytes do not depend on where the others are.
    EXPECT_EQ(each["predicted_host_peak_bytes"],
              apart["predicted_host_peak_bytes"]);
  }
  EXPECT_EQ(apart["host_budget_bytes"], int64_t{64} << 30);
  EXPECT_EQ(together["host_budget_bytes"], int64_t{16} << 30);
  EXPECT_EQ(together["nodes"], 2);
  EXPECT_EQ(together["gpus_per_node"], 4);
  EXPECT_EQ(together["predicted_machine_host_bytes"],
            4 * apart["predicted_host_peak_bytes"].get<int64_t>());
  // Updates on the host, which all four want, and the network take longer.
  EXPECT_GT(together["predicted_step_seconds"],
            apart["predicted_step_seconds"]);

  // Memory that does for one rank of a machine does not for all of them.
  const auto with_ram = [&](int64_t bytes, const std::string& nodes,
                            const std::string& gpus, int exit_code) {
    return Figures({"--model", "gpt2", "--gpu", "a100-40", "--nodes", nodes,
                    "--gpus-per-node", gpus, "--ram", std::to_string(bytes),
                    "--set", "memory.placement_policy=cpu"},
                   exit_code);
  };
  const Json nothing = with_ram(1 << 20, "8", "1", 2);
  EXPECT_EQ(nothing["binds"], "host_memory");
  const int64_t least =
      nothing["refused"]["smallest_host_budget_bytes"].get<int64_t>();
  EXPECT_EQ(with_ram(least, "8", "1", 0)["predicted_host_peak_bytes"], least);
  EXPECT_EQ(with_ram(2 * least, "4", "2", 0)["fits"], true);
  const Json two = with_ram(2 * least - 2, "4", "2", 2);
  EXPECT_EQ(two["binds"], "host_memory");
  EXPECT_EQ(two["host_budget_bytes"], least - 1);
}

TEST_F(PlanAsJson, SaysWhatARefusalNeeds) {
  const Json refused = Figures({"--model", "gpt2", "--gpu", "3060", "--set",
                                "memory.device_memory=16MiB"},
                               2);
  EXPECT_EQ(refused["fits"], false);
  EXPECT_EQ(refused["binds"], "device_memory");
  EXPECT_THAT(refused["error"].get<std::string>(),
              HasSubstr("this run does not fit"));
  const auto least = refused["smallest_device_budget_bytes"].get<int64_t>();
  EXPECT_GT(least, int64_t{16} << 20);
  EXPECT_EQ(Figures({"--model", "gpt2", "--gpu", "3060", "--set",
                     "memory.device_memory=" + std::to_string(least)})["fits"],
            true);
  const Json host =
      Figures({"--model", "qwen3-32b", "--gpu", "4090", "--ram", "64GiB"}, 2);
  EXPECT_EQ(host["binds"], "host_memory");
  EXPECT_GT(host["refused"]["smallest_host_budget_bytes"], int64_t{64} << 30);
  EXPECT_EQ(host["ram_bytes"], int64_t{64} << 30);

  // Other errors leave standard output empty.
  const ProcessResult wrong =
      Castor({"plan", "--model", "gpt2", "--gpu", "none", "--json"});
  ExpectUserError(wrong);
  EXPECT_EQ(wrong.out, "");
}

}  // namespace
}  // namespace castor::testing
