// Runs of random models whose operators are the test's own: the promises of a
// run, for a client that Castor knows nothing of, and an optimizer in double
// precision as the oracle of what it learns.
#include "client/client_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/sanitizers.h"
#include "base/status_macros.h"
#include "client/testing/test_client.h"
#include "client/testing/trained_client.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::kRate;
using test_client::kSteps;
using test_client::kWidth;
using test_client::Layer;
using test_client::Model;
using test_client::OptionsFor;
using test_client::OtherBudgets;
using test_client::Outcome;
using test_client::RandomModel;
using test_client::RandomWays;
using test_client::Train;
using test_client::Value;
using test_client::Ways;

class RandomClients : public testing::TestWithParam<int> {};

// Promises P1, P2 and P5.
TEST_P(RandomClients, GiveTheSameBitsAtEveryBudgetOrAreRefused) {
  std::mt19937 random(GetParam());
  const Model model = RandomModel(random);
  // Nothing, nearly everything and nothing of gradients is clipped.
  const double clipping = std::vector<double>{0, 0.5, 1e9}[random() % 3];
  const auto reference = Train(
      model, OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, clipping));
  ASSERT_TRUE(reference.ok()) << reference.status();
  const bool grows =
      std::any_of(model.layers.begin(), model.layers.end(),
                  [](const Layer& layer) { return layer.growth > 0; });
  const auto follows = [&](const Outcome& outcome) {
    return grows || !model.tells || !model.lengths.empty() ||
           outcome.stats.followed_steps > 0;
  };
  EXPECT_TRUE(follows(*reference));
  for (const char* const name : {"cpu", "auto", "cuda"}) {
    const PlacementPolicy* const policy = FindPolicy(name);
    const auto unlimited =
        Train(model, OptionsFor(model, policy, kUnlimitedBytes, clipping));
    ASSERT_TRUE(unlimited.ok()) << unlimited.status();
    const int64_t smallest = unlimited->stats.smallest_device_budget_bytes;
    if (smallest > 0) {
      Ways ways = RandomWays(random, kSteps);
      ways.before_step = OtherBudgets(random(), smallest);
      const auto outcome =
          Train(model, OptionsFor(model, policy, 2 * smallest, clipping), -1,
                nullptr, nullptr, ways);
      ASSERT_TRUE(outcome.ok()) << name << " " << outcome.status();
      EXPECT_EQ(outcome->losses, reference->losses) << name;
      EXPECT_EQ(outcome->parameters, reference->parameters) << name;
    }
    for (const int64_t budget :
         {smallest, smallest + 256,
          smallest + static_cast<int64_t>(random() % 20000),
          static_cast<int64_t>(random() % (smallest + 4000)), smallest - 256}) {
      ClientRun::Refused refused;
      const int64_t fail_at =
          random() % 2 == 0
              ? -1
              : static_cast<int64_t>(random() % (2 * model.layers.size() + 2));
      const auto outcome =
          Train(model, OptionsFor(model, policy, budget, clipping), fail_at,
                &refused, nullptr, RandomWays(random, kSteps));
      if (budget >= smallest) {
        ASSERT_TRUE(outcome.ok()) << name << " " << outcome.status();
        EXPECT_EQ(outcome->losses, reference->losses) << name << " " << budget;
        EXPECT_EQ(outcome->parameters, reference->parameters)
            << name << " " << budget;
        EXPECT_LE(outcome->stats.device_peak_bytes, budget) << name;
        EXPECT_TRUE(follows(*outcome)) << name;
      } else {
        EXPECT_TRUE(absl::IsResourceExhausted(outcome.status()))
            << name << " " << budget << " of " << smallest << " "
            << outcome.status();
        EXPECT_GT(refused.smallest_device_budget_bytes, budget);
        EXPECT_LE(refused.smallest_device_budget_bytes, smallest);
        // A later step may take more.
        const bool alike =
            model.lengths.empty() &&
            std::none_of(model.layers.begin(), model.layers.end(),
                         [](const Layer& layer) {
                           return layer.optional || layer.seldom ||
                                  layer.growth > 0;
                         });
        if (refused.exact && alike) {
          EXPECT_TRUE(
              Train(model,
                    OptionsFor(model, policy,
                               refused.smallest_device_budget_bytes, clipping))
                  .ok());
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomClients,
                         testing::Range(0, SanitizedCases(24)));

// Small steps. Under policy "cpu" their updates are the host's, under "auto"
// the device's.
absl::StatusOr<Outcome> TrainSmall(const char* policy, double clipping,
                                   const Ways& ways) {
  Model model;
  model.micro_batches = 2;
  model.tells = false;
  for (int64_t i = 0; i < 6; ++i) {
    model.parameters.push_back(
        {.name = absl::StrCat("w", i), .elements = 64 + i});
    model.layers.push_back({.parameter = i});
  }
  ClientOptions options =
      OptionsFor(model, FindPolicy(policy), kUnlimitedBytes, clipping);
  options.memory.chunk_bytes = 512;
  options.memory.device_bytes = 1 << 20;
  return Train(model, options, -1, nullptr, nullptr, ways);
}

TEST(ClientRun, UpdatesAheadOfTheNorm) {
  Ways late;
  late.planning.speculation.on = false;
  Ways ahead;
  ahead.planning.speculation = {
      .first_wait = 0, .longest_wait = 0, .least_gain = -1};
  Ways surprised = ahead, told = ahead;
  surprised.gives_rate_from = told.gives_rate_from = 9;
  told.expects_rate = true;
  for (const double clipping : {1e-3, 1e9}) {
    const auto reference = TrainSmall("cpu", clipping, late);
    ASSERT_TRUE(reference.ok()) << reference.status();
    EXPECT_EQ(reference->speculation, SpeculationCounts());
    for (const Ways* const ways : {&ahead, &surprised, &told}) {
      const auto outcome = TrainSmall("cpu", clipping, *ways);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      EXPECT_EQ(outcome->losses, reference->losses);
      EXPECT_EQ(outcome->parameters, reference->parameters);
      const auto& [committed, repeated] = outcome->speculation;
      // A schedule that is wrong once is not believed any more.
      EXPECT_EQ(committed > 0, clipping > 1);
      EXPECT_EQ(repeated > 0, clipping < 1 || ways == &surprised);
    }
  }
}

// Two kinds of steps that begin alike, as those of a generator and of what
// judges it.
TEST(ClientRun, FollowsStepsOfTwoKindsThatTakeTurns) {
  Model model;
  model.tells = false;
  for (int64_t i = 0; i < 3; ++i) {
    model.parameters.push_back({.name = absl::StrCat("w", i), .elements = 8});
    model.layers.push_back({.parameter = i, .optional = i == 1});
  }
  const auto outcome =
      Train(model, OptionsFor(model, FindPolicy("auto"), 1 << 20, 0));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  // Each kind is recorded when it is new, and the first once more, since the
  // second one was expected.
  EXPECT_LE(outcome->stats.recorded_steps, 3);
  EXPECT_GE(outcome->stats.followed_steps, kSteps - 3);
}

// A step with inputs of another length takes the plan of a longer one, but for
// one that is much longer.
TEST(ClientRun, FollowsStepsWhoseInputsWereAtLeastAsLarge) {
  Model model;
  model.tells = false;
  for (int64_t i = 0; i < 3; ++i) {
    model.parameters.push_back({.name = absl::StrCat("w", i), .elements = 8});
    model.layers.push_back({.parameter = i, .claim = 3000, .temporary = 1000});
  }
  const auto recorded = [&](std::vector<int64_t> lengths,
                            int64_t budget = 1 << 20) {
    model.lengths = std::move(lengths);
    const auto outcome =
        Train(model, OptionsFor(model, FindPolicy("auto"), budget, 0));
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? outcome->stats.recorded_steps : -1;
  };
  EXPECT_EQ(recorded({12, 9, 11, 7, 12, 6, 8, 10, 9, 11, 7}), 1);
  EXPECT_EQ(recorded({12, 9, 5, 6, 4, 5, 3, 12, 11, 10, 4}), 2);  // 12, 5
  EXPECT_EQ(recorded({6, 7, 8, 9, 8, 7, 6, 10, 9, 8, 11}), 6);  // each longest
  // Also where nothing else has room: of a plan for more, all still fits.
  model.lengths = {12};
  const auto longest =
      Train(model, OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, 0));
  ASSERT_TRUE(longest.ok()) << longest.status();
  EXPECT_EQ(recorded({12, 9, 11, 7, 12, 6, 8, 10, 9, 11, 7},
                     longest->stats.smallest_device_budget_bytes),
            1);
}

// Steps that take other than what their plan foresaw are planned again with
// what they took.
TEST(ClientRun, PlansAgainWhenStepsDrift) {
  Ways ways;
  ways.planning.beside = false;
  ways.planning.watch = {
      .settling_steps = 1, .most_settling_steps = 1, .drift_steps = 1};
  std::vector<int64_t> told;
  ways.planning.step_seconds = [&](int64_t step, double foreseen_seconds) {
    told.push_back(step);
    return 3 * foreseen_seconds;
  };
  int asked = 0;
  ways.planning.settled_durations = [&](StepTrace*, BusModel*) { ++asked; };
  const auto outcome = TrainSmall("cpu", 0, ways);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GT(outcome->stats.predicted_step_ns, 0);
  // Step 1 is recorded, 2 follows it, 3 and 4 are measured, 5 is the first on
  // the plan that comes of that. The evaluations after steps 6 and 9 stand
  // between steps, so that 7 is no witness, but 8 is, when 9 is over.
  EXPECT_EQ(told, std::vector<int64_t>{8});
  EXPECT_EQ(asked, 1);
}

// The time between the device's own works on its stream is the client's, and no
// part of how long these take.
TEST(ClientRun, PlansAgainWithWhatStepsTook) {
  Ways ways;
  ways.planning.beside = false;
  ways.planning.watch = {
      .settling_steps = 1, .most_settling_steps = 1, .drift_steps = 1};
  int told = 0;
  ways.planning.step_seconds = [&](int64_t, double foreseen_seconds) {
    ++told;
    return 3 * foreseen_seconds;
  };
  const auto began = std::chrono::steady_clock::now();
  const auto outcome = TrainSmall("auto", 0.5, ways);
  const std::chrono::nanoseconds took =
      std::chrono::steady_clock::now() - began;
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GT(told, 0);
  // The prediction is a sum of medians of works that these steps are made of.
  EXPECT_LT(outcome->stats.predicted_step_ns, took.count());
}

// The same steps in double precision, with AdamW as its paper has it, and as
// PyTorch applies it: to parameters that have a gradient.
TEST(ClientRun, TrainsAsPlainArithmeticDoes) {
  std::mt19937 random(77);
  for (int i = 0; i < 16; ++i) {
    Model model = RandomModel(random);
    for (ClientParameter& parameter : model.parameters) {
      parameter.weight_decay = 0.1;
    }
    ClientOptions options =
        OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, 0);
    const bool zeros = i % 4 == 3;
    options.zeros_for_missing_gradients = zeros;
    const auto outcome = Train(model, options);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const size_t count = model.parameters.size();
    std::vector<std::vector<double>> p(count), m(count), v(count);
    for (size_t q = 0; q < count; ++q) {
      for (int64_t e = 0; e < model.parameters[q].elements; ++e) {
        p[q].push_back(1 + Value(q, e) / 4);
      }
      m[q].resize(p[q].size());
      v[q].resize(p[q].size());
    }
    std::vector<int> updates(count);  // of each parameter
    std::vector<double> losses;
    for (int64_t step = 1; step <= kSteps; ++step) {
      std::vector<std::vector<double>> g(count);
      std::vector<bool> has_gradient(count, zeros);
      for (size_t q = 0; q < count; ++q) g[q].resize(p[q].size());
      double loss = 0;
      for (int64_t b = 0; b < model.micro_batches; ++b) {
        const std::vector<float> input = Client::InputOf(step, b);
        for (int64_t e = 0; e < kWidth; ++e) {
          std::vector<double> x = {input[e]};
          std::vector<size_t> order;
          for (size_t l = 0; l < model.layers.size(); ++l) {
            if (!model.layers[l].optional || step % 2 == 0) order.push_back(l);
          }
          const auto w = [&](size_t l) -> size_t {
            return e % p[model.layers[l].parameter].size();
          };
          for (const size_t l : order) {
            x.push_back(x.back() * p[model.layers[l].parameter][w(l)]);
          }
          double dy = x.back();
          loss += dy * dy / 2;
          for (size_t k = order.size(); k-- > 0;) {
            const Layer& layer = model.layers[order[k]];
            const size_t q = layer.parameter;
            if (layer.HandsIn(step, b)) {
              has_gradient[q] = true;
              g[q][w(order[k])] += dy * x[k];
            }
            dy *= p[q][w(order[k])];
          }
        }
      }
      losses.push_back(loss);
      for (size_t q = 0; q < count; ++q) {
        if (!model.parameters[q].trainable || !has_gradient[q]) continue;
        ++updates[q];
        for (size_t e = 0; e < p[q].size(); ++e) {
          m[q][e] = 0.9 * m[q][e] + 0.1 * g[q][e];
          v[q][e] = 0.999 * v[q][e] + 0.001 * g[q][e] * g[q][e];
          const double mean = m[q][e] / (1 - std::pow(0.9, updates[q]));
          const double square = v[q][e] / (1 - std::pow(0.999, updates[q]));
          p[q][e] -=
              kRate * (mean / (std::sqrt(square) + 1e-8) + 0.1 * p[q][e]);
        }
      }
    }
    size_t at = 0;
    for (int64_t step = 1; step <= kSteps; ++step) {
      // fp32 through at most 8 layers and 7 steps.
      EXPECT_NEAR(outcome->losses[at], losses[step - 1],
                  1e-4 * losses[step - 1] + 1e-6)
          << i << " step " << step;
      at += step % 3 == 0 ? 2 : 1;
    }
  }
}

TEST(ClientRun, TellsCallsThatAreOutOfOrder) {
  const Model model = {
      .parameters = {{.name = "w", .elements = 4},
                     {.name = "f", .elements = 4, .trainable = false}},
      .layers = {{}}};
  const auto run = ClientRun::Create(
      model.parameters,
      OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, 0));
  ASSERT_TRUE(run.ok()) << run.status();
  Client client(model, run->get());
  EXPECT_EQ((*run)->Begin(true).message(), "parameter \"w\" has no values");
  ASSERT_TRUE(client.SetValues().ok());
  EXPECT_FALSE((*run)->Step().ok());
  const float gradient[4] = {};
  ASSERT_TRUE((*run)->Begin(true).ok());
  EXPECT_FALSE((*run)->Begin(true).ok());
  EXPECT_FALSE((*run)->SetValues(ParamId(0), gradient).ok());
  EXPECT_FALSE((*run)->EndBackward().ok());
  void* address = nullptr;
  ASSERT_TRUE(
      (*run)
          ->Use((*run)->Label("op"), Phase::kForward, {ParamId(1)}, &address)
          .ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      (*run)->HandInGradient(ParamId(1), gradient, false).status()));
  EXPECT_FALSE((*run)->Step().ok());
  const LabelId inputs = (*run)->Label("inputs[*x*]");
  EXPECT_TRUE((*run)->Announce(inputs, Phase::kForward, {2, 3}).ok());
  EXPECT_EQ((*run)->Announce(inputs, Phase::kForward, {2}),
            absl::InvalidArgumentError(
                "\"inputs[*x*]\" with 1 extents, which had 2"));
  ASSERT_TRUE((*run)->Abort().ok());
  EXPECT_TRUE(client.Step(1).ok());
}

// The step at which the last plan is there, which is made of what steps took.
int64_t StepOfLastPlan(int64_t warmup_steps) {
  const Model model = {.parameters = {{.name = "w", .elements = 4}},
                       .layers = {{}}};
  ClientOptions options =
      OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, 0);
  options.memory.warmup_steps = warmup_steps;
  options.planning.watch.settling_steps = 1000;
  options.planning.watch.most_settling_steps = 1000;
  const auto run = ClientRun::Create(model.parameters, options);
  EXPECT_TRUE(run.ok()) << run.status();
  Client client(model, run->get());
  EXPECT_TRUE(client.SetValues().ok());
  int64_t last = 0, plans = 0;
  for (int64_t step = 1; step <= 30; ++step) {
    EXPECT_TRUE(client.Step(step).ok());
    if ((*run)->stats().plans > plans) last = step;
    plans = (*run)->stats().plans;
  }
  return last;
}

// memory.warmup_steps was dropped: two steps were measured, whatever it said.
// One step is recorded, one follows it without being measured; two kinds of
// steps take turns here.
TEST(ClientRun, MeasuresAsManyStepsAsItIsAskedTo) {
  EXPECT_EQ(StepOfLastPlan(1), 2 * (1 + 1 + 2 + 1));
  EXPECT_EQ(StepOfLastPlan(2), 2 * (1 + 1 + 2 + 1));
  EXPECT_EQ(StepOfLastPlan(7), 2 * (1 + 1 + 7 + 1));
}

TEST(ClientRun, RefusesToReadGradientsAsParameters) {
  const Model model = {.parameters = {{.name = "w", .elements = 4}},
                       .layers = {{}}};
  const auto run = ClientRun::Create(
      model.parameters,
      OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, 0));
  ASSERT_TRUE(run.ok()) << run.status();
  Client client(model, run->get());
  ASSERT_TRUE(client.SetValues().ok());
  for (int step = 1; step <= 3; ++step) {
    ASSERT_TRUE((*run)->Begin(true).ok());
    void* address = nullptr;
    const LabelId op = (*run)->Label("op");
    ASSERT_TRUE((*run)->Use(op, Phase::kForward, {ParamId(0)}, &address).ok());
    ASSERT_TRUE((*run)->EndBackward().ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(
        (*run)->Use(op, Phase::kForward, {ParamId(0)}, &address)));
    // A use that reads none is none of them.
    EXPECT_TRUE((*run)->Use(op, Phase::kForward, {}, nullptr).ok());
    ASSERT_TRUE((*run)->Step().ok());
  }
}

// A client still has an evaluation's results when it ends, where the plan
// brings back what the next one begins with.
TEST(ClientRun, EndsAnEvaluationWhoseResultsAreInTheWay) {
  constexpr int64_t kParameters = 6, kBytes = 1024, kResultBytes = 3 * kBytes;
  Model model;
  for (int64_t i = 0; i < kParameters; ++i) {
    model.parameters.push_back({.name = absl::StrCat("w", i),
                                .elements = kBytes / 4,
                                .trainable = false});
    model.layers.push_back({.parameter = i});
  }
  int evaluated = 0;
  for (int64_t budget = kResultBytes; budget <= kResultBytes + 6 * kBytes;
       budget += kBytes) {
    ClientOptions options = OptionsFor(model, FindPolicy("auto"), budget, 0);
    options.memory.chunk_bytes = kBytes;
    const auto run = ClientRun::Create(model.parameters, options);
    if (!run.ok()) continue;  // too small for it
    Client client(model, run->get());
    ASSERT_TRUE(client.SetValues().ok());
    for (int evaluation = 1; evaluation <= 4; ++evaluation) {
      ASSERT_TRUE((*run)->Begin(/*training=*/false).ok());
      for (int64_t i = 0; i < kParameters; ++i) {
        void* address = nullptr;
        const LabelId op = (*run)->Label(absl::StrCat("layer ", i));
        ASSERT_TRUE(
            (*run)->Use(op, Phase::kForward, {ParamId(i)}, &address).ok());
        EXPECT_EQ(static_cast<const float*>(address)[5], 1 + Value(i, 5) / 4);
      }
      const absl::Status claimed = (*run)->Claim(kResultBytes);
      if (evaluation == 1 && absl::IsResourceExhausted(claimed)) {
        ASSERT_TRUE((*run)->Abort().ok());
        break;
      }
      ASSERT_TRUE(claimed.ok()) << evaluation << ": " << claimed;
      const absl::Status ended = (*run)->EndEvaluation();
      EXPECT_TRUE(ended.ok())
          << evaluation << " in " << budget << ": " << ended;
      (*run)->Release(kResultBytes);
      ++evaluated;
    }
  }
  EXPECT_GE(evaluated, 8);  // in two budgets
}

TEST(ClientRun, RefusesWhatNoRunCanHave) {
  const auto refusal = [](std::vector<ClientParameter> parameters,
                          ClientOptions options) {
    return ClientRun::Create(parameters, std::move(options)).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(refusal({}, {})));
  ClientOptions options;
  options.memory.device_bytes = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(refusal({{"w", 4}}, options)));
  options = {};
  options.memory.host_bytes = 1000;
  EXPECT_TRUE(absl::IsInvalidArgument(refusal({{"w", 4}}, options)));
  options = {};
  options.memory.machine_share_bytes = 1000;
  const absl::Status larger = refusal({{"w", 4}}, options);
  EXPECT_TRUE(absl::IsInvalidArgument(larger));
  EXPECT_TRUE(absl::StrContains(larger.message(), "this machine's memory"))
      << larger;
  EXPECT_TRUE(absl::StrContains(larger.message(), "; train a smaller model"))
      << larger;
}

}  // namespace
}  // namespace castor
