// A client's run that goes on from a checkpoint has the bits of one that was
// not interrupted; what cannot be loaded or saved changes nothing.
#include "client/client_checkpoints.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/test_files.h"
#include "client/testing/test_client.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"
#include "run/config/config.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::Model;
using test_client::Place;
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
  // `model` has the micro batches of all ranks.
  static std::unique_ptr<Running> Make(const Model& model, Config config,
                                       const char* policy, int64_t budget,
                                       const Place& place = {}) {
    auto running = std::make_unique<Running>();
    running->model = model;
    running->model.micro_batches /= place.world_size;
    running->rank = place.rank;
    ClientOptions options;
    options.rule = config.optimizer.rule;
    options.micro_batches = running->model.micro_batches;
    place.Join(&options);
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
    running->run = *std::move(run);
    running->client = std::make_unique<Client>(
        running->model, running->run.get(), place.rank, place.world_size);
    config.gradient_accumulation_steps = running->model.micro_batches;
    running->checkpoints =
        std::make_unique<ClientCheckpoints>(running->run.get(), config);
    EXPECT_TRUE(running->client->SetValues().ok());
    return running;
  }
  absl::StatusOr<ClientCheckpoints::Found> Load(const std::string& path,
                                                bool changed = false) {
    CASTOR_ASSIGN_OR_RETURN(auto found, checkpoints->Find(path, changed));
    CASTOR_RETURN_IF_ERROR(checkpoints->Load());
    return found;
  }
  float Step(int64_t step) {
    auto loss = client->Step(step);
    if (absl::IsAborted(loss.status())) loss = client->Step(step);
    EXPECT_TRUE(loss.ok()) << loss.status();
    return loss.value_or(-1);
  }

  Model model;
  int rank = 0;
  std::unique_ptr<ClientRun> run;
  std::unique_ptr<Client> client;
  std::unique_ptr<ClientCheckpoints> checkpoints;
};

// Does `work` on each of several ranks.
void OnRanks(int world_size, const Model& model, const Config& config,
             const char* policy, int64_t budget,
             const std::function<void(Running&)>& work) {
  const Place first = Place::First(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto running =
          Running::Make(model, config, policy, budget, first.Of(rank));
      if (running != nullptr) work(*running);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

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

TEST(ClientCheckpoints, MoveBetweenNumbersOfRanks) {
  std::mt19937 random(7);
  const TemporaryDirectory directory;
  for (int i = 0; i < 12; ++i) {
    Model model = RandomModel(random);
    model.micro_batches = 6;
    const Config config =
        ConfigOf(i % 2 == 0 ? "" : R"(, "gradient_clipping": 0.5)");
    const auto whole = Running::Make(model, config, "auto", kUnlimitedBytes);
    ASSERT_NE(whole, nullptr);
    for (int64_t step = 1; step <= kSteps; ++step) whole->Step(step);
    const std::vector<float> expected = whole->client->Values();
    const int64_t saved_after = 1 + static_cast<int64_t>(random() % kSteps);
    const std::string where = absl::StrCat(directory.path(), "/", i);
    // One of both numbers of ranks is not 1.
    const int saving = 1 + i % 3, loading = 1 + (i + 1 + i / 3 % 2) % 3;
    constexpr const char* kNames[] = {"cpu", "auto", "cuda"};
    OnRanks(saving, model, config, kNames[random() % 3], kUnlimitedBytes,
            [&](Running& run) {
              for (int64_t step = 1; step <= saved_after; ++step) {
                run.Step(step);
              }
              const auto saved = run.checkpoints->Save(
                  where, absl::StrCat("of rank ", run.rank), {});
              ASSERT_TRUE(saved.ok()) << saved.status();
              for (int64_t step = saved_after + 1; step <= kSteps; ++step) {
                run.Step(step);
              }
              EXPECT_EQ(run.client->Values(), expected);
            });
    OnRanks(loading, model, config, kNames[random() % 3], kUnlimitedBytes,
            [&](Running& run) {
              run.Step(4);  // elsewhere before
              run.Step(5);
              const auto loaded = run.Load(where);
              ASSERT_TRUE(loaded.ok()) << loaded.status();
              EXPECT_EQ(loaded->text, "of rank 0");
              EXPECT_EQ(run.run->steps(), saved_after);
              for (int64_t step = saved_after + 1; step <= kSteps; ++step) {
                run.Step(step);
              }
              EXPECT_EQ(run.client->Values(), expected)
                  << i << ": " << saving << " ranks to " << loading;
            });
  }
}

TEST(ClientCheckpoints, FailOnAllRanksTogether) {
  const TemporaryDirectory directory;
  Model model = TwoLayers();
  model.micro_batches = 2;
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "x";
  const auto told = [](const absl::Status& status, const char* words) {
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  OnRanks(2, model, ConfigOf(), "auto", kUnlimitedBytes, [&](Running& run) {
    ClientCheckpoints& checkpoints = *run.checkpoints;
    run.Step(1);
    const auto saved = checkpoints.Save(directory.path() + "/a", "", {});
    ASSERT_TRUE(saved.ok()) << saved.status();
    run.Step(2);
    const std::vector<float> values = run.client->Values();

    const std::string own = absl::StrCat(directory.path(), "/of ", run.rank);
    told(checkpoints.Save(own, "", {}).status(),
         "ranks differ: rank 0 saves a checkpoint at \"");
    const absl::Status other = run.rank == 0
                                   ? checkpoints.Save(own, "", {}).status()
                                   : run.run->Begin(/*training=*/true);
    told(other, ", rank 1 begins a training step");
    told(checkpoints.Save(file, "", {}).status(), "rank 0: ");
    told(checkpoints
             .Save(directory.path(), std::string(kMaxClientTextBytes + 1, 'x'),
                   {})
             .status(),
         "rank 0: the client's own part");

    // Rank 1's part is torn, once all have come here.
    ASSERT_TRUE(run.run->Exchange("all are here", "").ok());
    if (run.rank == 0) {
      std::filesystem::resize_file(saved->path + "/rank-1-of-2.part", 300);
    }
    ASSERT_TRUE(run.run->Exchange("it is torn", "").ok());
    const absl::Status torn = run.Load(saved->path).status();
    EXPECT_TRUE(absl::IsDataLoss(torn)) << torn;
    told(torn, "rank-1-of-2.part");
    told(run.Load(directory.path() + "/a").status(), "step-00000001");
    EXPECT_EQ(run.client->Values(), values);
    EXPECT_EQ(run.run->steps(), 2);
    const auto texts = run.run->Exchange("who", absl::StrCat(run.rank));
    ASSERT_TRUE(texts.ok()) << texts.status();
    EXPECT_EQ(*texts, (std::vector<std::string>{"0", "1"}));
    run.Step(3);
  });
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

  // A run that goes on from step 2 has not made step 3.
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

  // Values that are not finite take no good checkpoint's place.
  std::vector<float> nan(40, std::numeric_limits<float>::quiet_NaN());
  const auto bad = Running::Make(model, ConfigOf(), "auto", kUnlimitedBytes);
  ASSERT_TRUE(bad->run->SetValues(ParamId(0), nan.data()).ok());
  const absl::Status status =
      bad->checkpoints->Save(directory.path() + "/nan", "", {}).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "a (master) holds nan"));
}

}  // namespace
}  // namespace castor
