// Plans that are made again in the middle of a run: when steps have settled,
// and when they have drifted from what was foreseen. The times of steps are
// given here, not measured.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "tests/case_generator.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr int64_t kSteps = 44;

// The rank whose thread this is, once its first step is over.
thread_local int this_rank = 0;

TrainingCase Small(int world_size) {
  TrainingCase c;
  c.model.n_layer = 3;
  c.model.n_head = 2;
  c.model.n_embd = 32;
  c.model.n_positions = 16;
  c.model.vocab_size = 97;
  c.dtype = DType::kBFloat16;
  c.options.shape = {.batch = 2, .length = 16, .micro_batches = 2};
  c.options.optimizer.gradient_clipping = 0.5;
  c.options.memory.policy = FindPolicy("auto");
  c.options.memory.chunk_bytes = 8192;
  c.world_size = world_size;
  c.steps = kSteps;
  return c;
}

// Copies take most of a step, so a plan that fetches each chunk when it is
// needed is far from the best.
void SlowBus(StepTrace* trace, BusModel* bus) {
  for (OpRecord& op : trace->ops) {
    op.duration_ns = 1'000;
    if (op.kind != OpKind::kCompute) op.host_duration_ns = 100;
  }
  bus->h2d_bytes_per_s = bus->d2h_bytes_per_s = 1e9;
  bus->network_bytes_per_s = 1e9;
}

// After a step.
struct Told {
  int64_t plans = 0;  // made by then
  int64_t asked = 0;  // how often the planner was asked by then
};

// The planner may end now.
absl::Status LetEnd(Trainer&, absl::Notification& may_end, int64_t) {
  may_end.Notify();
  return absl::OkStatus();
}

// The time of a step on a rank, as a multiple of the foreseen one.
using Drift = std::function<double(int rank, int64_t step)>;

class Replan : public ::testing::TestWithParam<int> {
 protected:
  // Returns what the run tells of each step, from 1. All ranks must tell the
  // same, and the run's results must be those of an untroubled one. The
  // `mistaken`th plan that is made fails its proof, so that a slower one takes
  // its place.
  std::vector<Told> Run(const Drift& drift, int64_t mistaken) {
    TrainingCase c = Small(GetParam());
    const auto needs = FindNeeds(c);
    EXPECT_TRUE(needs.ok()) << needs.status();
    const auto reference = RunTraining(c);
    EXPECT_TRUE(reference.ok()) << reference.status();
    c.options.memory.device_bytes =
        needs->smallest_device +
        (needs->unmanaged_device - needs->smallest_device) / 4;
    std::mutex mutex;
    std::vector<std::vector<Told>> told(c.world_size,
                                        std::vector<Told>(kSteps + 1));
    // Ranks copy it: each counts for itself, from its admission on.
    thread_local int64_t made;
    c.options.planning.mistake = [mistaken](Plan* plan) {
      if (++made == mistaken) FetchTwice(plan);
    };
    c.options.planning.beside = false;
    c.options.planning.settled_durations = SlowBus;
    c.options.planning.step_seconds = [&drift](int64_t step,
                                               double foreseen_seconds) {
      return drift(this_rank, step) * foreseen_seconds;
    };
    made = 0;
    c.after_step = [&](Trainer& trainer, int64_t step) {
      const std::lock_guard<std::mutex> lock(mutex);
      this_rank = trainer.communicator() == nullptr
                      ? 0
                      : trainer.communicator()->rank();
      told[this_rank][step] = {trainer.plans(), made};
      return absl::OkStatus();
    };
    const auto result = RunTraining(c);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->refusal.has_value()) << result->refusal_message;
    EXPECT_EQ(result->state_sha256, reference->state_sha256);
    EXPECT_EQ(result->losses, reference->losses);
    for (const std::vector<Told>& of_rank : told) {
      for (int64_t step = 1; step <= kSteps; ++step) {
        EXPECT_EQ(of_rank[step].plans, told[0][step].plans) << step;
        EXPECT_EQ(of_rank[step].asked, told[0][step].asked) << step;
      }
    }
    return told[0];
  }
  // The steps before which the planner was asked.
  static std::vector<int64_t> Asked(const std::vector<Told>& told) {
    std::vector<int64_t> steps;
    for (int64_t step = 2; step <= kSteps; ++step) {
      if (told[step].asked > told[step - 1].asked) steps.push_back(step);
    }
    return steps;
  }
  // A step is over when the next one's loss is there; on several ranks its
  // length is told with the losses of the one after that.
  static int64_t Late() { return GetParam() > 1 ? 1 : 0; }
  // Step 2 is the first on its plan, and 3 to 6 are watched.
  static int64_t Settled() { return 8 + Late(); }
  static int64_t SettledAgain() { return Settled() + 6 + Late(); }

  // A run of `steps` in which planning again, beside the steps, is not over
  // before `go_on` is called on each rank, between step `until` and the next.
  // `plans` gets how many plans there were after each step from 1, which all
  // ranks must agree on. The run's results must be those of an untroubled one.
  void RunBeside(int64_t steps, int64_t until,
                 const std::function<absl::Status(Trainer&, absl::Notification&,
                                                  int64_t smallest)>& go_on,
                 std::vector<int64_t>* plans) {
    TrainingCase c = Small(GetParam());
    c.steps = steps;
    c.awaits_plans = false;
    const auto needs = FindNeeds(c);
    ASSERT_TRUE(needs.ok()) << needs.status();
    const auto reference = RunTraining(c);
    ASSERT_TRUE(reference.ok()) << reference.status();
    c.options.memory.device_bytes =
        needs->smallest_device +
        (needs->unmanaged_device - needs->smallest_device) / 4;
    std::atomic<bool> asked = false;
    thread_local bool asks;
    asks = false;
    c.options.planning.settled_durations = [&](StepTrace* trace,
                                               BusModel* bus) {
      SlowBus(trace, bus);
      asks = asked = true;
    };
    std::vector<std::unique_ptr<absl::Notification>> may_end(c.world_size);
    for (auto& each : may_end) each = std::make_unique<absl::Notification>();
    c.options.planning.mistake = [&](Plan*) {
      if (!asked || asks) return;  // a thread that issues steps
      for (auto& each : may_end)
        each->WaitForNotificationWithTimeout(absl::Seconds(10));
    };
    c.options.planning.step_seconds = [](int64_t, double foreseen_seconds) {
      return foreseen_seconds;
    };
    std::mutex mutex;
    std::vector<std::vector<int64_t>> told(c.world_size,
                                           std::vector<int64_t>(steps + 1));
    c.after_step = [&](Trainer& trainer, int64_t step) {
      const int rank = trainer.communicator() == nullptr
                           ? 0
                           : trainer.communicator()->rank();
      if (step == until) {
        CASTOR_RETURN_IF_ERROR(
            go_on(trainer, *may_end[rank], needs->smallest_device));
      }
      if (step == until && step < steps) trainer.AwaitPlanning();
      const std::lock_guard<std::mutex> lock(mutex);
      told[rank][step] = trainer.plans();
      return absl::OkStatus();
    };
    const auto result = RunTraining(c);
    for (auto& each : may_end) {
      if (!each->HasBeenNotified()) each->Notify();
    }
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(asked);
    EXPECT_EQ(result->state_sha256, reference->state_sha256);
    EXPECT_EQ(result->losses, reference->losses);
    for (const std::vector<int64_t>& of_rank : told) {
      EXPECT_EQ(of_rank, told[0]);
    }
    *plans = told[0];
  }
};

// Three plans are made before: at admission, for the warm-up, and from its
// durations.
constexpr int64_t kFirstFromDurations = 3;

TEST_P(Replan, TakesABetterPlanWhenStepsHaveSettled) {
  const std::vector<Told> told =
      Run([](int, int64_t) { return 1.0; }, kFirstFromDurations);
  EXPECT_EQ(told[1].plans, 1);
  EXPECT_EQ(told[2].plans, 2);
  EXPECT_EQ(told[Settled() - 1].plans, 2);
  EXPECT_EQ(told[Settled()].plans, 3);
  // Once more for the new plan's own durations. They are the same and give the
  // same plan, so there is nothing to gain, and its forecast holds.
  EXPECT_EQ(told[kSteps].plans, 3);
  EXPECT_EQ(Asked(told), (std::vector<int64_t>{2, Settled(), SettledAgain()}));
}

TEST_P(Replan, AsksAgainAfterEightStepsThatDriftOnAnyRank) {
  const std::vector<Told> told = Run(
      [](int rank, int64_t step) {
        return rank == GetParam() - 1 && step >= SettledAgain() ? 1.2 : 1.0;
      },
      kFirstFromDurations);
  // Eight steps from SettledAgain() on; as the plan stays, sixteen more.
  const int64_t drifted = SettledAgain() + 9 + Late();
  EXPECT_EQ(Asked(told), (std::vector<int64_t>{2, Settled(), SettledAgain(),
                                               drifted, drifted + 16}));
  EXPECT_EQ(told[kSteps].plans, 3);
}

TEST_P(Replan, DoesNotAskAgainForLessThanATenth) {
  const std::vector<Told> told =
      Run([](int, int64_t step) { return step % 2 == 0 ? 1.09 : 0.91; },
          kFirstFromDurations);
  EXPECT_EQ(Asked(told).back(), SettledAgain());
}

TEST_P(Replan, TakesAPlanThatWasMadeBesideTheSteps) {
  const int64_t until = Settled() + 2;
  std::vector<int64_t> plans;
  RunBeside(kSteps, until, LetEnd, &plans);
  ASSERT_FALSE(plans.empty());
  // The planner is asked before the first of these steps.
  for (int64_t step = Settled(); step <= until + Late(); ++step) {
    EXPECT_EQ(plans[step], 2) << step;
  }
  // Ranks say with one step's losses that they have the plan.
  EXPECT_EQ(plans[until + Late() + 1], 3);
  EXPECT_EQ(plans[kSteps], 3);
}

TEST_P(Replan, ShrinksWhileItIsPlannedBesideTheSteps) {
  const int64_t until = Settled() + 2;
  std::vector<int64_t> plans;
  RunBeside(
      until + 4, until,
      [](Trainer& trainer, absl::Notification& may_end, int64_t smallest) {
        may_end.Notify();
        const absl::Status shrunk = trainer.SetDeviceMemory(smallest);
        if (shrunk.ok()) {
          EXPECT_LE(trainer.arena_stats().used_bytes, smallest);
        }
        return shrunk;
      },
      &plans);
  ASSERT_FALSE(plans.empty());
  // The plan is that of the smaller budget, and not the one that was asked for
  // before.
  EXPECT_EQ(plans[until], 3);
  EXPECT_EQ(plans[until + 4], 3);
}

TEST_P(Replan, EndsWhileItIsPlannedBesideTheSteps) {
  const int64_t until = Settled() + 1;
  std::vector<int64_t> plans;
  RunBeside(until, until, LetEnd, &plans);
  ASSERT_FALSE(plans.empty());
  EXPECT_EQ(plans[until], 2);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Replan, ::testing::Values(1, 2));

}  // namespace
}  // namespace castor::testing
