// The budget of the device's memory changes between the steps of random
// trainings, on one rank and on several: the bits are those of the run that has
// everything on the device throughout, each budget is kept while it is in
// force, one that is too small is refused and changes nothing, and memory that
// a smaller budget does without is the system's again.
//
// CASTOR_CASES=N makes as many of 1,200ths of the changes; CASTOR_SEED=S draws
// others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "device/forwarding_device.h"
#include "device/host/host_device.h"
#include "run/program/memory_follower.h"
#include "tests/case_generator.h"
#include "tests/from_environment.h"
#include "tests/test_machine.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr int64_t kChanges = 1000;
constexpr int64_t kSteps = 8;
constexpr int64_t kChangesPerStep = 5;

int64_t ResidentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct Tally {
  int64_t larger = 0, smaller = 0, refused = 0, refused_exactly = 0;
};

// A budget around what the run needs at least and at most.
int64_t RandomBudget(const Needs& needs, Random& random) {
  switch (random.Uniform(0, 7)) {
    case 0:
      return needs.smallest_device;
    case 1:
      return needs.smallest_device - 1;
    case 2:
      return random.Uniform(0, needs.smallest_device);
    case 3:
      return needs.unmanaged_device;
    case 4:
      return 2 * needs.unmanaged_device + 4321;
    case 5:
      return kUnlimitedBytes;
    default:
      return random.Uniform(
          needs.smallest_device,
          std::max(needs.smallest_device, needs.unmanaged_device));
  }
}

// Changes the budget several times, as every rank does.
absl::Status ChangeBudgets(const Needs& needs, Random random, Trainer& trainer,
                           Tally* tally) {
  for (int64_t i = 0; i < kChangesPerStep; ++i) {
    const int64_t before = trainer.admission().device_arena_bytes;
    const ArenaStats& stats = trainer.arena_stats();
    if (stats.peak_in_budget > before) {
      return absl::InternalError(absl::StrCat(
          "a peak of ", stats.peak_in_budget, " of ", before, " bytes"));
    }
    const int64_t asked = RandomBudget(needs, random);
    Refusal refusal;
    const absl::Status set = trainer.SetDeviceMemory(asked, &refusal);
    const int64_t after = trainer.admission().device_arena_bytes;
    if (absl::IsResourceExhausted(set)) {
      const int64_t least = refusal.smallest_device_budget_bytes;
      if (least <= asked || after != before) {
        return absl::InternalError(absl::StrCat(
            "of ", asked, " refused: ", set.message(), "; now ", after));
      }
      ++tally->refused;
      // The refusal's figures are true to the byte.
      if (!random.Chance(0.5)) continue;
      ++tally->refused_exactly;
      if (!absl::IsResourceExhausted(trainer.SetDeviceMemory(least - 1))) {
        return absl::InternalError("less than the least budget would do");
      }
      if (absl::Status enough = trainer.SetDeviceMemory(least); !enough.ok()) {
        return enough;
      }
      continue;
    }
    if (!set.ok()) return set;
    if (asked < kUnlimitedBytes && after != asked) {
      return absl::InternalError(absl::StrCat("of ", asked, " it is ", after));
    }
    ++(after > before ? tally->larger : tally->smaller);
  }
  return absl::OkStatus();
}

// A random training with room for what it needs at least, and its results with
// everything on the device.
struct RandomRun {
  TrainingCase c;
  Needs needs;
  TrainingResult reference;
};

absl::StatusOr<RandomRun> RandomTraining(uint64_t seed, int64_t steps,
                                         Random& random) {
  TrainingCase model = OnTestMachine(RandomModel(seed));
  model.steps = steps;
  RandomRun run;
  CASTOR_ASSIGN_OR_RETURN(run.reference, RunTraining(ReferenceOf(model)));
  CASTOR_ASSIGN_OR_RETURN(
      run.c, RandomPlacement(model, random, MostRanksOnTestMachine()));
  CASTOR_ASSIGN_OR_RETURN(run.needs, FindNeeds(run.c));
  MemoryOptions& memory = run.c.options.memory;
  memory.device_bytes =
      std::max(memory.device_bytes, run.needs.smallest_device);
  memory.host_bytes = std::max(memory.host_bytes, run.needs.smallest_host);
  return run;
}

TEST(Budgets, ChangeBetweenStepsAndChangeNoBit) {
  const int64_t seed = FromEnvironment("CASTOR_SEED", 20261128);
  const int64_t all = PlacementsOnTestMachine();
  // An emulated GPU takes seconds for a run.
  const int64_t most = MostRanksOnTestMachine() > 1 ? kChanges : 40;
  const int64_t changes = most * FromEnvironment("CASTOR_CASES", all) / all;
  const int64_t models = CeilDiv(changes, kSteps * kChangesPerStep);
  Tally tally;
  int64_t ranks = 0;
  for (int64_t i = 0; i < models; ++i) {
    SCOPED_TRACE(absl::StrCat("CASTOR_SEED=", seed, " model ", i));
    Random random(MixKey(seed, i), 1);
    auto training = RandomTraining(MixKey(seed, i), kSteps, random);
    ASSERT_TRUE(training.ok()) << training.status();
    TrainingCase& c = training->c;
    const Needs& needs = training->needs;
    const TrainingResult& reference = training->reference;
    c.after_step = [&](Trainer& trainer, int64_t step) {
      const bool first = trainer.communicator() == nullptr ||
                         trainer.communicator()->rank() == 0;
      Tally other;
      return ChangeBudgets(needs, Random(MixKey(seed, i), 100 + step), trainer,
                           first ? &tally : &other);
    };
    const auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status() << Describe(c);
    if (result->refusal.has_value()) continue;
    ranks += c.world_size > 1;
    EXPECT_EQ(result->state_sha256, reference.state_sha256) << Describe(c);
    EXPECT_TRUE(SameNumbers(result->losses, reference.losses));
    EXPECT_EQ(result->misplaced, 0) << Describe(c);
  }
  std::printf(
      "%lld larger budgets, %lld smaller ones, %lld refused (%lld with the "
      "least that would do, tried); %lld runs on several ranks\n",
      static_cast<long long>(tally.larger),
      static_cast<long long>(tally.smaller),
      static_cast<long long>(tally.refused),
      static_cast<long long>(tally.refused_exactly),
      static_cast<long long>(ranks));
  EXPECT_GT(tally.larger, 0);
  EXPECT_GT(tally.smaller, 0);
  EXPECT_GT(tally.refused_exactly, 0);
}

// A device on a card of which others take, and give back: what they leave
// changes after some looks, and is drawn.
class CrowdedDevice final : public ForwardingDevice {
 public:
  CrowdedDevice(std::unique_ptr<Device> device, int64_t total_bytes,
                Random random)
      : ForwardingDevice(device.get()),
        device_(std::move(device)),
        total_bytes_(total_bytes),
        random_(std::move(random)) {}

  absl::StatusOr<DeviceRoom> Room() override {
    if (looks_left_-- == 0) {
      looks_left_ = random_.Uniform(0, 2 * MemoryFollower::kGrowAfter);
      left_bytes_ = random_.Uniform(0, total_bytes_);
    }
    return DeviceRoom{
        .free_bytes = std::max<int64_t>(0, left_bytes_ - memory_bytes()),
        .total_bytes = total_bytes_};
  }

 private:
  const std::unique_ptr<Device> device_;
  const int64_t total_bytes_;
  Random random_;
  int64_t looks_left_ = 0;
  int64_t left_bytes_ = 0;  // by the others
};

TEST(Budgets, FollowWhatOthersLeaveAndChangeNoBit) {
  if (MostRanksOnTestMachine() == 1) {
    GTEST_SKIP() << "SKIPPED: an emulated GPU takes minutes for it";
  }
  const int64_t seed = FromEnvironment("CASTOR_SEED", 20261129);
  const int64_t models =
      CeilDiv(12 * FromEnvironment("CASTOR_CASES", PlacementsOnTestMachine()),
              PlacementsOnTestMachine());
  int64_t larger = 0, smaller = 0, kept = 0, ranks = 0;
  for (int64_t i = 0; i < models; ++i) {
    SCOPED_TRACE(absl::StrCat("CASTOR_SEED=", seed, " model ", i));
    Random random(MixKey(seed, i), 1);
    auto training = RandomTraining(MixKey(seed, i), /*steps=*/24, random);
    ASSERT_TRUE(training.ok()) << training.status();
    TrainingCase& c = training->c;
    const Needs& needs = training->needs;
    const TrainingResult& reference = training->reference;
    MemoryOptions& memory = c.options.memory;
    memory.follows_device = true;
    if (random.Chance(0.5)) {
      memory.device_floor_bytes = random.Uniform(0, needs.unmanaged_device);
    }
    std::atomic<int64_t> devices{0};
    c.options.open_device =
        [&](int64_t bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
      CASTOR_ASSIGN_OR_RETURN(
          std::unique_ptr<Device> device,
          HostDevice::Create(
              {.memory_bytes = bytes,
               .most_memory_bytes = 4 * needs.unmanaged_device}));
      return std::make_unique<CrowdedDevice>(
          std::move(device), 2 * needs.unmanaged_device,
          Random(MixKey(seed, i), 100 + devices++));
    };
    int64_t before = 0;
    c.after_step = [&](Trainer& trainer, int64_t step) -> absl::Status {
      const int64_t budget = trainer.admission().device_arena_bytes;
      const int64_t floor =
          std::min(memory.device_floor_bytes,
                   trainer.admission().unmanaged_device_bytes);
      if (trainer.arena_stats().peak_in_budget > budget || budget < floor) {
        return absl::InternalError(
            absl::StrCat("a peak of ", trainer.arena_stats().peak_in_budget,
                         " in ", budget, " bytes, floor ", floor));
      }
      // All ranks or none have a note about a floor.
      const std::string note = trainer.TakeMemoryNote();
      if (trainer.communicator() != nullptr &&
          trainer.communicator()->rank() > 0) {
        return absl::OkStatus();
      }
      kept += !note.empty();
      if (step > 1) {
        larger += budget > before;
        smaller += budget < before;
      }
      before = budget;
      return absl::OkStatus();
    };
    const auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status() << Describe(c);
    if (result->refusal.has_value()) continue;
    ranks += c.world_size > 1;
    EXPECT_EQ(result->state_sha256, reference.state_sha256) << Describe(c);
    EXPECT_TRUE(SameNumbers(result->losses, reference.losses));
  }
  std::printf(
      "%lld larger budgets, %lld smaller ones, %lld notes of a floor; %lld "
      "runs on several ranks\n",
      static_cast<long long>(larger), static_cast<long long>(smaller),
      static_cast<long long>(kept), static_cast<long long>(ranks));
  EXPECT_GT(larger, 0);
  EXPECT_GT(smaller, 0);
  EXPECT_GT(kept, 0);
}

TEST(Budgets, GiveMemoryBackToTheSystem) {
  if (MostRanksOnTestMachine() == 1) {
    GTEST_SKIP() << "SKIPPED: pages are given back by the host device";
  }
  constexpr int64_t kLarge = int64_t{192} << 20;
  TrainingCase c = RandomModel(7);
  c.steps = 4;
  c.options.memory.device_bytes = kLarge;
  c.options.scribble_freed_memory = true;  // touches all of it
  int64_t full = 0;
  c.after_step = [&](Trainer& trainer, int64_t step) {
    if (step == 1) {
      full = ResidentBytes();
      return trainer.SetDeviceMemory(
          trainer.admission().smallest_device_budget_bytes);
    }
    if (step == 2) {
      EXPECT_LT(ResidentBytes(), full - kLarge / 8 * 7);
      return trainer.SetDeviceMemory(kLarge);
    }
    // The step in between has scribbled over all that is there again.
    if (step == 3) EXPECT_GT(ResidentBytes(), full - kLarge / 8);
    return absl::OkStatus();
  };
  const auto result = RunTraining(c);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_FALSE(result->refusal.has_value()) << result->refusal_message;
}

}  // namespace
}  // namespace castor::testing
