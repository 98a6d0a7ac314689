// Several ranks, as threads: their parameters have the bits of one rank that
// does all their micro batches, and what one of them meets all of them learn.
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sanitizers.h"
#include "base/status_macros.h"
#include "client/testing/on_gpu.h"
#include "client/testing/test_client.h"
#include "device/cuda/nccl/fake_nccl.h"
#include "device/cuda/nccl/nccl_parts.h"
#include "gtest/gtest.h"
#include "kernels/gradient_sum/add_to_sum.h"
#include "memory/plan/policy/policies.h"
#include "run/optim/testing/rule_for_test.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::Model;
using test_client::OnGpu;
using test_client::OtherBudgets;
using test_client::Place;
using test_client::RandomModel;
using test_client::RandomWays;
using test_client::Ways;

constexpr int64_t kSteps = 8;

struct Setting {
  const PlacementPolicy* policy = DefaultPolicy();
  int64_t device_bytes = kUnlimitedBytes;
  double clipping = 0;
  int world_size = 1;
  // Step 3 is given up by this rank at this use, if it has as many.
  int failing_rank = 0;
  int64_t fail_at = -1;
  // Bytes that the last rank takes more from step 4 on.
  int64_t more = 0;
  Ways ways = {};
  bool on_gpus = false;  // each rank has one
};

struct Outcome {
  absl::Status status;
  std::vector<float> initial, parameters;
  ClientRun::Stats stats;
  ClientRun::Refused refused;
};

// The work that each of the ranks does with its run.
using RankWork = std::function<absl::Status(ClientRun& run, int rank)>;

absl::StatusOr<std::unique_ptr<ClientRun>> Open(const Model& model,
                                                const Setting& setting,
                                                const Place& place,
                                                ClientRun::Refused* refused,
                                                OnGpu* gpu = nullptr) {
  ClientOptions options;
  options.gradient_clipping = setting.clipping;
  options.micro_batches = model.micro_batches / setting.world_size;
  options.memory.policy = setting.policy;
  options.memory.device_bytes = setting.device_bytes;
  options.scribble_freed_memory = setting.device_bytes < kUnlimitedBytes;
  place.Join(&options);
  setting.ways.Change(&options);
  if (gpu != nullptr) options = gpu->RunOn(options);
  return ClientRun::Create(model.parameters, options, refused);
}

// The ranks' model has the micro batches of one rank.
Model OfRank(Model model, int world_size) {
  model.micro_batches /= world_size;
  return model;
}

absl::Status Train(const Model& model, const Setting& setting, ClientRun* run,
                   int rank, OnGpu* gpu, Outcome* outcome) {
  Client client(model, run, rank, setting.world_size, gpu);
  client.Give(setting.ways);
  CASTOR_RETURN_IF_ERROR(client.SetValues());
  outcome->initial = client.Values();
  for (int64_t step = 1; step <= kSteps; ++step) {
    const bool fails = step == 3 && rank == setting.failing_rank;
    if (step >= 4 && rank + 1 == setting.world_size) {
      client.TakeMore(setting.more);
    }
    if (step == setting.ways.tries_in_vain) {
      const absl::Status tried = client.TryInVain(setting.ways, step);
      if (!tried.ok()) {
        outcome->refused = run->refused();
        return tried;
      }
    }
    if (step == setting.ways.gives_values_at) {
      CASTOR_RETURN_IF_ERROR(client.GiveValuesAgain());
    }
    if (setting.ways.before_step) {
      CASTOR_RETURN_IF_ERROR(setting.ways.before_step(*run, step));
    }
    auto loss = client.Step(step, fails ? setting.fail_at : -1);
    if (absl::IsCancelled(loss.status())) loss = client.Step(step);
    if (absl::IsAborted(loss.status())) loss = client.Step(step);
    if (!loss.ok()) {
      outcome->refused = run->refused();
      EXPECT_EQ(client.Values() == outcome->initial, step == 1);
      return loss.status();
    }
    if (step % 3 == 0) {
      CASTOR_RETURN_IF_ERROR(client.Evaluate(step).status());
    }
  }
  CASTOR_RETURN_IF_ERROR(run->Drain());
  outcome->parameters = client.Values();
  outcome->stats = run->stats();
  return absl::OkStatus();
}

// Each rank's outcome.
std::vector<Outcome> TrainOn(const Model& model, const Setting& setting) {
  nccl::FakeNccl nccl;
  Place first = Place::First(setting.world_size);
  if (setting.on_gpus) {
    const std::string id = *nccl.NewId();
    first.gpu_parts = [&nccl, id, world_size = setting.world_size](int rank) {
      return nccl::NcclParts::Join(&nccl, &FakeGpu(),
                                   {.rank = rank,
                                    .world_size = world_size,
                                    .id = id,
                                    .add = kernels::AddToSum},
                                   [] { return absl::OkStatus(); });
    };
  }
  std::vector<Outcome> outcomes(setting.world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < setting.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      Outcome& outcome = outcomes[rank];
      const Model own = OfRank(model, setting.world_size);
      std::optional<OnGpu> gpu;
      if (setting.on_gpus) gpu.emplace();
      OnGpu* const machine = gpu.has_value() ? &*gpu : nullptr;
      outcome.status = [&]() -> absl::Status {
        CASTOR_ASSIGN_OR_RETURN(
            const auto run,
            Open(model, setting, first.Of(rank), &outcome.refused, machine));
        return Train(own, setting, run.get(), rank, machine, &outcome);
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (outcomes.front().status.ok()) {
    EXPECT_EQ(nccl.moved_bytes() > 0, setting.on_gpus);
  }
  return outcomes;
}

class RandomRanks : public testing::TestWithParam<int> {};

// Promises P1 and P2.
TEST_P(RandomRanks, GiveTheBitsOfOneRankOrAreRefusedTogether) {
  std::mt19937 random(GetParam());
  Model model = RandomModel(random);
  Setting setting = {.clipping =
                         std::vector<double>{0, 0.5, 1e9}[random() % 3]};
  const int world_size = 2 + static_cast<int>(random() % 3);
  model.micro_batches = world_size * (1 + static_cast<int>(random() % 2));
  const Outcome reference = TrainOn(model, setting).front();
  ASSERT_TRUE(reference.status.ok()) << reference.status;
  setting.world_size = world_size;
  for (const char* const name : {"cpu", "auto", "cuda"}) {
    setting.policy = FindPolicy(name);
    setting.device_bytes = kUnlimitedBytes;
    setting.fail_at = -1;
    setting.more = 0;
    int64_t smallest = 0;
    for (const Outcome& rank : TrainOn(model, setting)) {
      ASSERT_TRUE(rank.status.ok()) << name << " " << rank.status;
      EXPECT_EQ(rank.parameters, reference.parameters) << name;
      smallest = rank.stats.smallest_device_budget_bytes;
    }
    // Ranks that never hand in the same gradients follow no plan.
    if (smallest == 0) continue;
    setting.failing_rank = static_cast<int>(random() % world_size);
    setting.fail_at = static_cast<int64_t>(random() % 12);
    for (const int64_t budget :
         {smallest, smallest + static_cast<int64_t>(random() % 9000),
          static_cast<int64_t>(random() % smallest), smallest - 256}) {
      setting.device_bytes = budget;
      setting.ways = RandomWays(random, kSteps);
      for (const Outcome& rank : TrainOn(model, setting)) {
        if (budget >= smallest) {
          ASSERT_TRUE(rank.status.ok()) << name << " " << rank.status;
          EXPECT_EQ(rank.parameters, reference.parameters)
              << name << " " << budget;
          EXPECT_LE(rank.stats.device_peak_bytes, budget) << name;
        } else {
          EXPECT_TRUE(absl::IsResourceExhausted(rank.status))
              << name << " " << budget << " of " << smallest << " "
              << rank.status;
          EXPECT_GT(rank.refused.smallest_device_budget_bytes, budget);
        }
      }
    }
    setting.device_bytes = 2 * smallest;
    setting.ways = RandomWays(random, kSteps);
    setting.ways.before_step = OtherBudgets(random(), smallest);
    for (const Outcome& rank : TrainOn(model, setting)) {
      ASSERT_TRUE(rank.status.ok()) << name << " " << rank.status;
      EXPECT_EQ(rank.parameters, reference.parameters) << name;
    }
    setting.ways = {};
    // One rank alone takes more: all go on together, or are refused.
    setting.more = static_cast<int64_t>(random() % 3000);
    setting.device_bytes = smallest + static_cast<int64_t>(random() % 3000);
    int trained = 0;
    for (const Outcome& rank : TrainOn(model, setting)) {
      if (rank.status.ok()) {
        ++trained;
        EXPECT_EQ(rank.parameters, reference.parameters) << name;
      } else {
        EXPECT_TRUE(absl::IsResourceExhausted(rank.status))
            << name << " " << rank.status;
        EXPECT_GT(rank.refused.smallest_device_budget_bytes,
                  setting.device_bytes);
      }
      EXPECT_LE(rank.stats.device_peak_bytes, setting.device_bytes);
    }
    EXPECT_TRUE(trained == 0 || trained == world_size) << trained;
  }
}

// Does the same where each rank queues its operators on a GPU of its own, and
// the contents of the GPUs' memory go over NCCL.
TEST_P(RandomRanks, GiveTheBitsOfOneRankOnGpus) {
  std::mt19937 random(100 + GetParam());
  Model model = RandomModel(random);
  Setting setting = {.clipping =
                         std::vector<double>{0, 0.5, 1e9}[random() % 3]};
  const int world_size = 2 + static_cast<int>(random() % 2);
  model.micro_batches = world_size * (1 + static_cast<int>(random() % 2));
  const Outcome reference = TrainOn(model, setting).front();
  ASSERT_TRUE(reference.status.ok()) << reference.status;
  setting.world_size = world_size;
  setting.on_gpus = true;
  for (const char* const name : {"cpu", "auto"}) {
    setting.policy = FindPolicy(name);
    setting.fail_at = -1;
    int64_t smallest = 0;
    for (const int64_t budget : {int64_t{1} << 20, int64_t{0}, int64_t{-256}}) {
      setting.device_bytes = smallest + budget;
      const std::vector<Outcome> outcomes = TrainOn(model, setting);
      // The holes between a client's blocks are not the same each time: a
      // little less than the smallest budget may do.
      const bool trained = budget >= 0 || outcomes.front().status.ok();
      for (const Outcome& rank : outcomes) {
        if (!trained) {
          EXPECT_TRUE(absl::IsResourceExhausted(rank.status))
              << name << " " << setting.device_bytes << " " << rank.status;
          continue;
        }
        ASSERT_TRUE(rank.status.ok()) << name << " " << rank.status;
        EXPECT_EQ(rank.parameters, reference.parameters)
            << name << " " << setting.device_bytes;
        EXPECT_LE(rank.stats.device_peak_bytes, setting.device_bytes) << name;
      }
      if (smallest == 0) {
        smallest = outcomes.front().stats.smallest_device_budget_bytes;
      }
      if (smallest == 0) break;  // no step follows a plan
      setting.failing_rank = static_cast<int>(random() % world_size);
      setting.fail_at = static_cast<int64_t>(random() % 12);
      setting.ways = RandomWays(random, kSteps);
    }
    setting.ways = {};
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRanks,
                         testing::Range(0, SanitizedCases(6)));

// Does `work` on each of two ranks.
std::vector<absl::Status> OnTwoRanks(const Model& model, const RankWork& work) {
  const Place first = Place::First(2);
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto run = Open(model, {.world_size = 2}, first.Of(rank), nullptr);
      statuses[rank] = !run.ok() ? run.status() : work(**run, rank);
      if (!statuses[rank].ok()) first.Of(rank).Kill();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

const Model& TwoLayers() {
  static const Model* const model =
      new Model{.parameters = {{.name = "w0", .elements = 40},
                               {.name = "w1", .elements = 30}},
                .layers = {{.parameter = 0}, {.parameter = 1}},
                .micro_batches = 2};
  return *model;
}

TEST(ClientRanks, TellsRanksThatReadOtherParametersAndGoesOn) {
  const Model model = OfRank(TwoLayers(), 2);
  Model other = model;
  std::swap(other.layers[0], other.layers[1]);
  for (const absl::Status& status :
       OnTwoRanks(TwoLayers(), [&](ClientRun&run, int rank) -> absl::Status {
         Client client(model, &run, rank, 2);
         CASTOR_RETURN_IF_ERROR(client.SetValues());
         const std::vector<float> initial = client.Values();
         Client another(rank == 0 ? model : other, &run, rank, 2);
         const absl::Status told = another.Step(1).status();
         EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
         EXPECT_TRUE(absl::StrContains(told.message(),
                                       "ranks differ: rank 0 "
                                       "reads parameters at "
                                       "\"layer 0\""))
             << told;
         EXPECT_EQ(client.Values(), initial);
         for (int64_t step = 1; step <= 3; ++step) {
           CASTOR_RETURN_IF_ERROR(client.Step(step).status());
         }
         EXPECT_EQ(run.stats().followed_steps, 1);
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ClientRanks, TellsRanksOfCallsThatOthersDoNotMake) {
  const Model model = OfRank(TwoLayers(), 2);
  for (const absl::Status& status :
       OnTwoRanks(TwoLayers(), [&](ClientRun&run, int rank) -> absl::Status {
         Client client(model, &run, rank, 2);
         CASTOR_RETURN_IF_ERROR(client.SetValues());
         const absl::Status told = run.Begin(/*training=*/rank == 0);
         EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
         EXPECT_TRUE(absl::StrContains(
             told.message(),
             "rank 0 begins a training step at \"learning rate 0.02\", rank 1 "
             "begins an evaluation"))
             << told;
         return client.Step(1).status();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ClientRanks, BeginWithTheValuesOfTheRoots) {
  for (const absl::Status& status :
       OnTwoRanks(TwoLayers(), [&](ClientRun&run, int rank) -> absl::Status {
         for (const int root : {0, 1}) {
           // Others than the root need none.
           const std::vector<float> values(40, 10 + root);
           CASTOR_RETURN_IF_ERROR(run.SetValues(
               ParamId(root), rank == root ? values.data() : nullptr, root));
         }
         for (const int64_t id : {0, 1}) {
           std::vector<float> values(id == 0 ? 40 : 30);
           CASTOR_RETURN_IF_ERROR(run.GetValues(ParamId(id), values.data()));
           EXPECT_EQ(values, std::vector<float>(values.size(), 10 + id));
         }
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ClientRanks, EndWhenOneOfThemIsGone) {
  const Model model = OfRank(TwoLayers(), 2);
  std::latch stepped(2);
  const std::vector<absl::Status> statuses =
      OnTwoRanks(TwoLayers(), [&](ClientRun& run, int rank) -> absl::Status {
        Client client(model, &run, rank, 2);
        CASTOR_RETURN_IF_ERROR(client.SetValues());
        CASTOR_RETURN_IF_ERROR(client.Step(1).status());
        stepped.arrive_and_wait();  // what is under way might be cut off, too
        if (rank == 1) return absl::CancelledError("gone");
        const absl::Status told = run.Begin(/*training=*/true);
        EXPECT_TRUE(absl::IsUnavailable(told)) << told;
        // The run has failed for good.
        EXPECT_EQ(run.Begin(/*training=*/true), told);
        return absl::OkStatus();
      });
  EXPECT_TRUE(statuses[0].ok()) << statuses[0];
  EXPECT_TRUE(absl::IsCancelled(statuses[1])) << statuses[1];
}

// The parameters and options that a rank of two is opened with.
struct Opened {
  std::vector<ClientParameter> parameters = TwoLayers().parameters;
  ClientOptions options;

  Opened() {
    options.learning_rate = [](int64_t) { return 0.02; };
    options.memory.device_bytes = 1 << 20;
    options.memory.host_bytes = 1 << 20;
  }
};

// Each rank's status after it was opened, rank 1 with `change`, and has done
// `work`.
std::vector<absl::Status> OpenRanks(
    const std::function<void(Opened& opened)>& change,
    const RankWork& work = [](ClientRun&, int) { return absl::OkStatus(); }) {
  const Place first = Place::First(2);
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Opened opened;
      if (rank == 1) change(opened);
      first.Of(rank).Join(&opened.options);
      auto run = ClientRun::Create(opened.parameters, opened.options);
      statuses[rank] = run.ok() ? work(**run, rank) : run.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

// Ranks that were given another optimizer, decay or rate than the others
// started all the same, and trained each its own way.
TEST(ClientRanks, AreNotStartedWithOtherOptions) {
  const struct {
    const char* said;
    std::function<void(Opened& opened)> change;
  } kCases[] = {
      {"type is \"bf16\", on rank 0 \"fp32\"",
       [](Opened& o) { o.options.dtype = DType::kBFloat16; }},
      {"optimizer.type is \"Adam\", on rank 0 \"AdamW\"",
       [](Opened& o) { o.options.rule = RuleForTest("Adam"); }},
      {"optimizer.params.betas is [0.9,0.95], on rank 0 [0.9,0.999]",
       [](Opened& o) {
         o.options.rule = RuleForTest("AdamW", R"({"betas": [0.9, 0.95]})");
       }},
      {"optimizer.params.eps is 1e-07, on rank 0 1e-08",
       [](Opened& o) {
         o.options.rule = RuleForTest("AdamW", R"({"eps": 1e-7})");
       }},
      {"gradient_clipping is 1.0000000001, on rank 0 0.0",
       [](Opened& o) { o.options.gradient_clipping = 1.0000000001; }},
      {"gradient_accumulation_steps is 2, on rank 0 1",
       [](Opened& o) { o.options.micro_batches = 2; }},
      {"parameters.w1.weight_decay is 0.1, on rank 0 0.0",
       [](Opened& o) { o.parameters[1].weight_decay = 0.1; }},
      {"parameters.w1.lr_factor is 2.0, on rank 0 1.0",
       [](Opened& o) { o.parameters[1].lr_factor = 2; }},
      {"parameters.w1.elements is 31, on rank 0 30",
       [](Opened& o) { o.parameters[1].elements = 31; }},
      {"parameters.w0.trainable is false, on rank 0 true",
       [](Opened& o) { o.parameters[0].trainable = false; }},
      {"parameters.w2.elements is 30, on rank 0 absent",
       [](Opened& o) { o.parameters[1].name = "w2"; }},
      {"parameters.w0.number is 1, on rank 0 0",
       [](Opened& o) { std::swap(o.parameters[0], o.parameters[1]); }},
      {"memory.placement_policy is \"cpu\", on rank 0 \"auto\"",
       [](Opened& o) { o.options.memory.policy = FindPolicy("cpu"); }},
      {"memory.device_memory is 1052672, on rank 0 1048576",
       [](Opened& o) { o.options.memory.device_bytes += 4096; }},
      {"memory.host_memory is 1052672, on rank 0 1048576",
       [](Opened& o) { o.options.memory.host_bytes += 4096; }},
      {"memory.pinned_memory is 4096, on rank 0",
       [](Opened& o) { o.options.memory.pinned_bytes = 4096; }},
      {"memory.chunk_size is 256, on rank 0 0",
       [](Opened& o) { o.options.memory.chunk_bytes = 256; }},
      {"memory.gpu_margin_mem_ratio is 0.5, on rank 0 1.0",
       [](Opened& o) { o.options.memory.gpu_margin_mem_ratio = 0.5; }},
      {"memory.warmup_steps is 2, on rank 0 1",
       [](Opened& o) { o.options.memory.warmup_steps = 2; }},
      {"memory.prefetch is false, on rank 0 true",
       [](Opened& o) { o.options.memory.prefetch = false; }},
      {"device.bus_bytes_per_s is 1000000000.0, on rank 0 0.0",
       [](Opened& o) { o.options.bus_bytes_per_s = 1e9; }},
  };
  for (const auto& each : kCases) {
    for (const absl::Status& status : OpenRanks(each.change)) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << each.said << status;
      EXPECT_TRUE(absl::StrContains(status.message(),
                                    absl::StrCat("rank 1: ", each.said)))
          << each.said << "\n"
          << status;
    }
  }
  // Ranks may be of other machines.
  for (const absl::Status& status : OpenRanks([](Opened& o) {
         o.options.threads = 2;
         o.options.memory.machine_share_bytes = 1 << 30;
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ClientRanks, DoNoStepWithOtherRates) {
  const Model model = OfRank(TwoLayers(), 2);
  const auto later = [](Opened& opened) {
    opened.options.learning_rate = [](int64_t step) {
      return step < 3 ? 0.02 : 0.020000000001;
    };
  };
  for (const absl::Status& status :
       OpenRanks(later, [&](ClientRun&run, int rank) -> absl::Status {
         Client client(model, &run, rank, 2);
         CASTOR_RETURN_IF_ERROR(client.SetValues());
         CASTOR_RETURN_IF_ERROR(client.Step(1).status());
         CASTOR_RETURN_IF_ERROR(client.Step(2).status());
         const std::vector<float> before = client.Values();
         const absl::Status told = run.Begin(/*training=*/true);
         EXPECT_TRUE(absl::IsFailedPrecondition(told)) << told;
         EXPECT_TRUE(absl::StrContains(
             told.message(),
             "rank 0 begins a training step at \"learning rate 0.02\", rank 1 "
             "begins a training step at \"learning rate 0.020000000001\""))
             << told;
         EXPECT_EQ(client.Values(), before);
         return absl::OkStatus();
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace castor
