// A client's run that goes on from a checkpoint has the bits of one that was
// not interrupted; what cannot be loaded or saved changes nothing.
#include "runtime/client/client_checkpoints.h"

#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/test_files.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"
#include "runtime/client/test_client.h"
#include "runtime/config/config.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::Model;
using test_client::RandomModel;

constexpr int64_t kSteps = 6;

Config ConfigOf(const std::string& more = "") {
  const auto config = ParseClientConfig(absl::StrCat(
      R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.02}})", more, "}"));
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

// A run with its client and its checkpoints.
struct Running {
  static std::unique_ptr<Running> Make(const Model& model, Config config,
                                       const char* policy, int64_t budget) {
    ClientOptions options;
    options.rule = config.optimizer.rule;
    options.micro_batches = model.micro_batches;
    options.gradient_clipping = config.gradient_clipping;
    options.learning_rate = [lr = config.optimizer.lr](int64_t step) {
      return lr / static_cast<double>(step);
    };
    options.memory.policy = FindPolicy(policy);
    options.memory.device_bytes = budget;
    options.scribble_freed_memory = budget < kUnlimitedBytes;
    auto run = ClientRun::Create(model.parameters, std::move(options));
    if (!run.ok()) {
      ADD_FAILURE() << run.status();
      return nullptr;
    }
    auto running = std::make_unique<Running>();
    running->run = *std::move(run);
    running->client = std::make_unique<Client>(model, running->run.get());
    config.gradient_accumulation_steps = model.micro_batches;
    running->checkpoints =
        std::make_unique<ClientCheckpoints>(running->run.get(), config);
    EXPECT_TRUE(running->client->SetValues().ok());
    return running;
  }
  absl::StatusOr<ClientCheckpoints::Found> Load(const std::string& path,
                                                bool changed = false) {
    CASTOR_ASSIGN_OR_RETURN(auto found, checkpoints->Find(path, changed));
    CASTOR_RETURN_IF_ERROR(checkpoints->Take());
    return found;
  }
  float Step(int64_t step) {
    auto loss = client->Step(step);
    if (absl::IsAborted(loss.status())) loss = client->Step(step);
    EXPECT_TRUE(loss.ok()) << loss.status();
    return loss.value_or(-1);
  }

  std::unique_ptr<ClientRun> run;
  std::unique_ptr<Client> client;
  std::unique_ptr<ClientCheckpoints> checkpoints;
};

// Promise P4, for a client.
TEST(ClientCheckpoints, ResumeToTheSameBitsUnderAnyPlacement) {
  std::mt19937 random(5);
  const TemporaryDirectory directory;
  for (int i = 0; i < 25; ++i) {
    const Model model = RandomModel(random);
    const Config config =
        ConfigOf(i % 2 == 0 ? "" : R"(, "gradient_clipping": 0.5)");
    const auto whole = Running::Make(model, config, "auto", kUnlimitedBytes);
    ASSERT_NE(whole, nullptr);
    std::vector<float> losses;
    for (int64_t step = 1; step <= kSteps; ++step) {
      losses.push_back(whole->Step(step));
    }
    const std::vector<float> expected = whole->client->Values();
    const int64_t enough =
        whole->run->stats().smallest_device_budget_bytes + 60000;

    const auto policy = [&] {
      constexpr const char* kNames[] = {"cpu", "auto", "cuda"};
      return kNames[random() % 3];
    };
    const auto budget = [&] {
      return random() % 2 == 0 ? kUnlimitedBytes : enough;
    };
    const int64_t saved_after = 1 + static_cast<int64_t>(random() % kSteps);
    const std::string where = absl::StrCat(directory.path(), "/", i);
    const auto first = Running::Make(model, config, policy(), budget());
    ASSERT_NE(first, nullptr);
    for (int64_t step = 1; step <= saved_after; ++step) first->Step(step);
    const auto saved = first->checkpoints->Save(where, "mine", {});
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_TRUE(saved->notes.empty());
    // Saving does not disturb the run that saves.
    for (int64_t step = saved_after + 1; step <= kSteps; ++step) {
      EXPECT_EQ(first->Step(step), losses[step - 1]);
    }
    EXPECT_EQ(first->client->Values(), expected);

    // A new run goes on, and so does one that has gone elsewhere meanwhile.
    const auto second = Running::Make(model, config, policy(), budget());
    ASSERT_NE(second, nullptr);
    for (Running* const run : {second.get(), first.get()}) {
      const auto loaded = run->Load(random() % 2 == 0 ? where : saved->path);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(loaded->path, saved->path);
      EXPECT_EQ(loaded->text, "mine");
      EXPECT_EQ(run->run->steps(), saved_after);
      for (int64_t step = saved_after + 1; step <= kSteps; ++step) {
        EXPECT_EQ(run->Step(step), losses[step - 1]) << i << " step " << step;
      }
      EXPECT_EQ(run->client->Values(), expected) << i;
    }
  }
}

Model TwoLayers() {
  return {.parameters = {{.name = "a", .elements = 40},
                         {.name = "b", .elements = 7}},
          .layers = {{.parameter = 0}, {.parameter = 1}}};
}

TEST(ClientCheckpoints, WhatCannotBeLoadedChangesNothing) {
  const TemporaryDirectory directory;
  const Model model = TwoLayers();
  const auto run = Running::Make(model, ConfigOf(), "auto", kUnlimitedBytes);
  run->Step(1);
  const auto saved = run->checkpoints->Save(directory.path(), "", {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  run->Step(2);
  const std::vector<float> values = run->client->Values();
  const auto refuses = [&](Running& into, const std::string& path,
                           std::vector<std::string> words) {
    const std::vector<float> before = into.client->Values();
    const int64_t steps = into.run->steps();
    const absl::Status status = into.Load(path).status();
    EXPECT_FALSE(status.ok());
    for (const std::string& word : words) {
      EXPECT_TRUE(absl::StrContains(status.message(), word)) << status;
    }
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
    EXPECT_EQ(into.client->Values(), before);
    EXPECT_EQ(into.run->steps(), steps);
  };
  refuses(*run, directory.path() + "/none", {"none"});
  refuses(*run, directory.path() + "/step-00000009.castor", {"step-00000009"});

  Model other = model;
  other.parameters[1].elements = 8;
  refuses(*Running::Make(other, ConfigOf(), "auto", kUnlimitedBytes),
          saved->path, {"another model", "\"b\" has 7 elements, not 8"});
  other.parameters[1] = {.name = "c", .elements = 7};
  refuses(*Running::Make(other, ConfigOf(), "auto", kUnlimitedBytes),
          saved->path, {"another model", "\"c\" is missing"});
  const auto slower = Running::Make(
      model,
      *ParseClientConfig(
          R"({"optimizer": {"type": "Adam", "params": {"lr": 0.5}}})"),
      "auto", kUnlimitedBytes);
  refuses(*slower, saved->path,
          {"optimizer.type", "AdamW", "optimizer.params.lr: 0.02 then, 0.5 now",
           "changed=True"});
  const auto changed = slower->Load(saved->path, true);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->step, 1);

  // Any byte of it is torn.
  std::ifstream file(saved->path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GT(whole.size(), 200u);
  const std::string torn = directory.path() + "/step-00000005.castor";
  for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 40) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    std::ofstream(torn, std::ios::binary) << bad;
    refuses(*run, torn, {torn});
    std::ofstream(torn, std::ios::binary) << whole.substr(0, at);
    refuses(*run, torn, {torn});
  }
  // The newest that is whole is taken, and it is told which one is not.
  const auto latest = run->Load(directory.path());
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->path, saved->path);
  ASSERT_EQ(latest->notes.size(), 1u);
  EXPECT_TRUE(absl::StrContains(latest->notes[0], "step-00000005"));
  run->Step(2);
  EXPECT_EQ(run->client->Values(), values);

  ASSERT_TRUE(run->run->Begin(true).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(run->Load(saved->path).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      run->checkpoints->Save(directory.path(), "", {}).status()));
}

TEST(ClientCheckpoints, AreOneRunsInItsDirectory) {
  const TemporaryDirectory directory;
  const std::string where = directory.path() + "/new/out";
  const Model model = TwoLayers();
  const auto one = Running::Make(model, ConfigOf(), "auto", kUnlimitedBytes);
  for (int64_t step = 1; step <= 3; ++step) {
    one->Step(step);
    ASSERT_TRUE(one->checkpoints->Save(where, "", {.keep = 2}).ok());
  }
  EXPECT_FALSE(std::ifstream(where + "/step-00000001.castor").good());
  EXPECT_TRUE(std::ifstream(where + "/step-00000002.castor").good());

  auto two = Running::Make(model, ConfigOf(), "auto", kUnlimitedBytes);
  const auto busy = two->checkpoints->Save(where, "", {});
  EXPECT_TRUE(absl::IsFailedPrecondition(busy.status())) << busy.status();
  EXPECT_TRUE(absl::StrContains(busy.status().message(), "in use by"));

  // Who goes on from step 2 has not made step 3.
  ASSERT_TRUE(two->Load(where + "/step-00000002.castor").ok());
  one->checkpoints = nullptr;
  const auto saved = two->checkpoints->Save(where, "", {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(saved->notes.size(), 1u);
  EXPECT_TRUE(absl::StrContains(saved->notes[0], where + ".1"));
  EXPECT_TRUE(std::ifstream(where + ".1/step-00000003.castor").good());
}

TEST(ClientCheckpoints, WhatCannotBeWrittenLeavesWhatWasThere) {
  const TemporaryDirectory directory;
  const Model model = TwoLayers();
  const auto run = Running::Make(model, ConfigOf(), "auto", kUnlimitedBytes);
  run->Step(1);
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "x";
  EXPECT_FALSE(run->checkpoints->Save(file, "", {}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      run->checkpoints
          ->Save(directory.path(), std::string(kMaxClientTextBytes + 1, 'x'),
                 {})
          .status()));
  // A directory that is full, or not there any more.
  const std::string where = directory.path() + "/gone";
  const auto saved = run->checkpoints->Save(where, "", {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  run->Step(2);
  const std::vector<float> values = run->client->Values();
  ASSERT_EQ(std::rename(where.c_str(), (where + "2").c_str()), 0);
  const absl::Status failed = run->checkpoints->Save(where, "", {}).status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_TRUE(absl::StrContains(failed.message(), "step 2 is not saved"));
  ASSERT_EQ(std::rename((where + "2").c_str(), where.c_str()), 0);
  EXPECT_TRUE(run->Load(where).ok());
  run->Step(2);
  EXPECT_EQ(run->client->Values(), values);

  // What is not finite takes no good checkpoint's place.
  std::vector<float> nan(40, std::numeric_limits<float>::quiet_NaN());
  const auto bad = Running::Make(model, ConfigOf(), "auto", kUnlimitedBytes);
  ASSERT_TRUE(bad->run->SetValues(ParamId(0), nan.data()).ok());
  const absl::Status status =
      bad->checkpoints->Save(directory.path() + "/nan", "", {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "a (master) holds nan"));
}

}  // namespace
}  // namespace castor
