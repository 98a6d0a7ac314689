// Runs of random models whose operators are the test's own: the promises of a
// run, for a client that Castor knows nothing of, and an optimizer in double
// precision as the oracle of what it learns.
#include "runtime/client/client_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"
#include "runtime/client/test_client.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::kWidth;
using test_client::Layer;
using test_client::Model;
using test_client::RandomModel;
using test_client::Value;

constexpr double kRate = 0.02;

ClientOptions OptionsFor(const Model& model, const PlacementPolicy* policy,
                         int64_t device_bytes, double clipping) {
  ClientOptions options;
  options.gradient_clipping = clipping;
  options.micro_batches = model.micro_batches;
  options.learning_rate = [](int64_t) { return kRate; };
  options.memory.policy = policy;
  options.memory.device_bytes = device_bytes;
  options.scribble_freed_memory = device_bytes < kUnlimitedBytes;
  return options;
}

struct Outcome {
  std::vector<float> losses;
  std::vector<float> parameters;
  ClientRun::Stats stats;
};

constexpr int64_t kSteps = 7;

// Step 3 is given up at its use `fail_at`, if it has as many, and done again.
absl::StatusOr<Outcome> Train(const Model& model, const ClientOptions& options,
                              int64_t fail_at = -1,
                              ClientRun::Refused* refused = nullptr) {
  CASTOR_ASSIGN_OR_RETURN(
      const auto run, ClientRun::Create(model.parameters, options, refused));
  Client client(model, run.get());
  CASTOR_RETURN_IF_ERROR(client.SetValues());
  const std::vector<float> initial = client.Values();
  Outcome outcome;
  for (int64_t step = 1; step <= kSteps; ++step) {
    auto loss = client.Step(step, step == 3 ? fail_at : -1);
    if (absl::IsCancelled(loss.status())) loss = client.Step(step);
    // A step that takes more than those before may find that gradients are in
    // its way. The second time it is recorded.
    if (absl::IsAborted(loss.status())) loss = client.Step(step);
    if (!loss.ok()) {
      if (refused != nullptr) *refused = run->refused();
      // Nothing is lost by a refusal.
      EXPECT_EQ(client.Values() == initial, step == 1);
      return loss.status();
    }
    outcome.losses.push_back(*loss);
    if (step % 3 == 0) {
      CASTOR_ASSIGN_OR_RETURN(outcome.losses.emplace_back(),
                              client.Evaluate(step));
    }
  }
  CASTOR_RETURN_IF_ERROR(run->Drain());
  outcome.parameters = client.Values();
  outcome.stats = run->stats();
  EXPECT_EQ(outcome.stats.claimed_bytes, 0);
  return outcome;
}

class RandomClients : public testing::TestWithParam<int> {};

// Promises P1, P2 and P5.
TEST_P(RandomClients, GiveTheSameBitsAtEveryBudgetOrAreRefused) {
  std::mt19937 random(GetParam());
  const Model model = RandomModel(random);
  const double clipping = random() % 2 == 0 ? 0 : 0.5;
  const auto reference = Train(
      model, OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, clipping));
  ASSERT_TRUE(reference.ok()) << reference.status();
  const bool grows =
      std::any_of(model.layers.begin(), model.layers.end(),
                  [](const Layer& layer) { return layer.growth > 0; });
  const auto follows = [&](const Outcome& outcome) {
    return grows || !model.tells || outcome.stats.followed_steps > 0;
  };
  EXPECT_TRUE(follows(*reference));
  for (const char* const name : {"cpu", "auto", "cuda"}) {
    const PlacementPolicy* const policy = FindPolicy(name);
    const auto unlimited =
        Train(model, OptionsFor(model, policy, kUnlimitedBytes, clipping));
    ASSERT_TRUE(unlimited.ok()) << unlimited.status();
    const int64_t smallest = unlimited->stats.smallest_device_budget_bytes;
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
                &refused);
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
        const bool alike = std::none_of(
            model.layers.begin(), model.layers.end(), [](const Layer& layer) {
              return layer.optional || layer.growth > 0;
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

INSTANTIATE_TEST_SUITE_P(Seeds, RandomClients, testing::Range(0, 30));

// The same steps in double precision, with AdamW as its paper has it.
TEST(ClientRun, TrainsAsPlainArithmeticDoes) {
  std::mt19937 random(77);
  for (int i = 0; i < 8; ++i) {
    Model model = RandomModel(random);
    for (ClientParameter& parameter : model.parameters) {
      parameter.weight_decay = 0.1;
    }
    const auto outcome =
        Train(model, OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, 0));
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
    std::vector<double> losses;
    for (int64_t step = 1; step <= kSteps; ++step) {
      std::vector<std::vector<double>> g(count);
      for (size_t q = 0; q < count; ++q) g[q].resize(p[q].size());
      double loss = 0;
      for (int64_t b = 0; b < model.micro_batches; ++b) {
        const std::vector<float> input = Client::Input(step, b);
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
            const size_t q = model.layers[order[k]].parameter;
            g[q][w(order[k])] += dy * x[k];
            dy *= p[q][w(order[k])];
          }
        }
      }
      losses.push_back(loss);
      for (size_t q = 0; q < count; ++q) {
        if (!model.parameters[q].trainable) continue;
        for (size_t e = 0; e < p[q].size(); ++e) {
          m[q][e] = 0.9 * m[q][e] + 0.1 * g[q][e];
          v[q][e] = 0.999 * v[q][e] + 0.001 * g[q][e] * g[q][e];
          const double mean = m[q][e] / (1 - std::pow(0.9, step));
          const double square = v[q][e] / (1 - std::pow(0.999, step));
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
  ASSERT_TRUE((*run)->Abort().ok());
  EXPECT_TRUE(client.Step(1).ok());
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

TEST(ClientRun, RefusesWhatNoRunCanHave) {
  const auto refusal = [](std::vector<ClientParameter> parameters,
                          ClientOptions options) {
    return ClientRun::Create(parameters, std::move(options)).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(refusal({}, {})));
  ClientOptions options;
  options.dtype = DType::kFloat16;
  EXPECT_TRUE(absl::IsInvalidArgument(refusal({{"w", 4}}, options)));
  options = {};
  options.memory.device_bytes = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(refusal({{"w", 4}}, options)));
  options = {};
  options.memory.host_bytes = 1000;
  EXPECT_TRUE(absl::IsInvalidArgument(refusal({{"w", 4}}, options)));
}

}  // namespace
}  // namespace castor
