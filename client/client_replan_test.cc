// A client's steps go on while a thread plans them again: all ranks take the
// answer before the same step, and what becomes of the steps meanwhile changes
// no bit. How long steps take is said here, not measured.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/client_run.h"
#include "client/testing/test_client.h"
#include "memory/plan/policy/policies.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::kRate;
using test_client::Model;
using test_client::Place;

// Step 1 is recorded, step 2 follows it, 3 and 4 are measured, and 5 is the
// first on the plan that comes of that. The first step that is watched is 6,
// which is told when 7 is over: the planner is asked before step 8.
constexpr int64_t kAsked = 8;
// After this step the planner may end.
constexpr int64_t kEnds = kAsked + 2;
constexpr int64_t kSteps = kEnds + 3;

Model SmallModel(int world_size) {
  Model model;
  model.micro_batches = 2 / world_size;
  model.tells = false;
  for (int64_t i = 0; i < 6; ++i) {
    model.parameters.push_back({.name = absl::StrCat("w", i), .elements = 512});
    model.layers.push_back({.parameter = i, .claim = 1024});
  }
  return model;
}

// Says when a rank's planner may end.
class MayEnd {
 public:
  ~MayEnd() {
    if (later_.joinable()) later_.join();
  }
  void Now() { now_.Notify(); }
  // Notifies from another thread, when the caller's next action is likely to be
  // under way.
  void Later() {
    later_ = std::thread([this] {
      absl::SleepFor(absl::Milliseconds(50));
      Now();
    });
  }
  void Await() { now_.WaitForNotificationWithTimeout(absl::Seconds(10)); }

 private:
  absl::Notification now_;
  std::thread later_;
};

// The work that a rank does between step kEnds and the next.
using Between = std::function<absl::Status(ClientRun& run, Client& client,
                                           MayEnd& may_end)>;

struct Outcome {
  absl::Status status;
  // By the end of each step, from step 1: how many plans were made, and how
  // long the step was foreseen to take.
  std::vector<int64_t> plans, foreseen_ns;
  std::vector<float> parameters;
};

// Each rank's outcome. Without `between` steps wait for the planner.
std::vector<Outcome> TrainOn(int world_size, int64_t steps,
                             const Between& between) {
  const Model model = SmallModel(world_size);
  const Place first = Place::First(world_size);
  std::vector<Outcome> outcomes(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      Outcome& outcome = outcomes[rank];
      const std::thread::id issuer = std::this_thread::get_id();
      std::atomic<bool> asked = false;
      MayEnd may_end;
      ClientOptions options;
      options.micro_batches = model.micro_batches;
      options.learning_rate = [](int64_t) { return kRate; };
      options.memory.policy = FindPolicy("auto");
      options.memory.chunk_bytes = 2048;
      options.memory.device_bytes = 20480;
      options.planning.beside = between != nullptr;
      options.planning.watch = {
          .settling_steps = 1, .most_settling_steps = 1, .drift_steps = 1000};
      options.planning.step_seconds = [](int64_t, double foreseen_seconds) {
        return foreseen_seconds;
      };
      // Copies take most of a step, so another plan is better.
      options.planning.settled_durations = [&](StepTrace* trace,
                                               BusModel* bus) {
        for (OpRecord& op : trace->ops) {
          op.duration_ns = op.host_duration_ns = 1000;
        }
        bus->h2d_bytes_per_s = bus->d2h_bytes_per_s = 1e9;
        asked = true;
      };
      options.planning.mistake = [&](Plan*) {
        if (!asked || std::this_thread::get_id() == issuer) return;
        may_end.Await();
      };
      first.Of(rank).Join(&options);
      outcome.status = [&]() -> absl::Status {
        CASTOR_ASSIGN_OR_RETURN(const auto run,
                                ClientRun::Create(model.parameters, options));
        Client client(model, run.get(), rank, world_size);
        CASTOR_RETURN_IF_ERROR(client.SetValues());
        for (int64_t step = 1; step <= steps; ++step) {
          absl::Status done = client.Step(step).status();
          // It takes more than those before, and is recorded now.
          if (absl::IsAborted(done)) done = client.Step(step).status();
          CASTOR_RETURN_IF_ERROR(done);
          outcome.plans.push_back(run->stats().plans);
          outcome.foreseen_ns.push_back(run->stats().predicted_step_ns);
          if (step == kEnds && between) {
            CASTOR_RETURN_IF_ERROR(between(*run, client, may_end));
          }
        }
        outcome.parameters = client.Values();
        return absl::OkStatus();
      }();
      EXPECT_TRUE(asked);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

class ClientReplan : public testing::TestWithParam<int> {
 protected:
  // Returns rank 0's outcome. All ranks must succeed, with the bits of a run
  // that waits for its planner.
  Outcome Run(int64_t steps, const Between& between) {
    const std::vector<Outcome> outcomes = TrainOn(GetParam(), steps, between);
    const std::vector<Outcome> waited = TrainOn(GetParam(), steps, nullptr);
    for (const Outcome& outcome : outcomes) {
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.parameters, waited[0].parameters);
      EXPECT_EQ(outcome.plans, outcomes[0].plans);
      EXPECT_EQ(outcome.foreseen_ns, outcomes[0].foreseen_ns);
    }
    return outcomes[0];
  }
};

absl::Status LetEnd(ClientRun& run, Client&, MayEnd& may_end) {
  may_end.Now();
  run.AwaitPlanning();
  return absl::OkStatus();
}

TEST_P(ClientReplan, TakesAPlanThatWasMadeBesideTheSteps) {
  const Outcome outcome = Run(kSteps, LetEnd);
  ASSERT_EQ(outcome.foreseen_ns.size(), kSteps);
  const int64_t before = outcome.foreseen_ns[kAsked - 2];
  for (int64_t step = kAsked; step <= kEnds; ++step) {
    EXPECT_EQ(outcome.foreseen_ns[step - 1], before) << step;
  }
  EXPECT_NE(outcome.foreseen_ns[kEnds], before);
}

TEST_P(ClientReplan, TakesNoPlanThatWasAskedForAnotherBudget) {
  const std::vector<int64_t> plans =
      Run(kSteps, [](ClientRun& run, Client&, MayEnd& may_end) {
        may_end.Now();
        return run.SetDeviceMemory(run.stats().smallest_device_budget_bytes);
      }).plans;
  ASSERT_EQ(plans.size(), kSteps);
  EXPECT_EQ(plans[kEnds], plans[kEnds - 1] + 1);
  EXPECT_EQ(plans[kSteps - 1], plans[kEnds]);
}

TEST_P(ClientReplan, TakesNoPlanForStepsThatTakeLessThanTheyDoNow) {
  const std::vector<int64_t> plans =
      Run(kSteps, [](ClientRun&, Client& client, MayEnd& may_end) {
        // While the larger step is under way, so that it cannot take an answer.
        client.BeforeNextLayer([&may_end] { may_end.Now(); });
        client.TakeMore(256);
        return absl::OkStatus();
      }).plans;
  ASSERT_EQ(plans.size(), kSteps);
  // One that is made for larger steps, and not what was asked before.
  EXPECT_EQ(plans[kSteps - 1], plans[kEnds - 1] + 1);
}

TEST_P(ClientReplan, EndsWhileAThreadPlans) {
  const std::vector<int64_t> plans =
      Run(kEnds, [](ClientRun&, Client&, MayEnd& may_end) {
        may_end.Later();
        return absl::OkStatus();
      }).plans;
  ASSERT_EQ(plans.size(), kEnds);
  EXPECT_EQ(plans.back(), plans[kAsked - 2]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ClientReplan, testing::Values(1, 2));

}  // namespace
}  // namespace castor
