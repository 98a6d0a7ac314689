// Whole runs of test_client.h's client, and their outcomes.
#ifndef CASTOR_CLIENT_TESTING_TRAINED_CLIENT_H_
#define CASTOR_CLIENT_TESTING_TRAINED_CLIENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "client/testing/test_client.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"

namespace castor::test_client {

inline ClientOptions OptionsFor(const Model& model,
                                const PlacementPolicy* policy,
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
  SpeculationCounts speculation;
};

inline constexpr int64_t kSteps = 11;

// Trains for kSteps steps. Two of them are given up at their use `fail_at`, if
// they have as many, and done again.
inline absl::StatusOr<Outcome> Train(const Model& model,
                                     const ClientOptions& options,
                                     int64_t fail_at = -1,
                                     ClientRun::Refused* refused = nullptr,
                                     Machine* machine = nullptr,
                                     const Ways& ways = Ways()) {
  ClientOptions changed = options;
  ways.Change(&changed);
  CASTOR_ASSIGN_OR_RETURN(
      const auto run, ClientRun::Create(model.parameters, changed, refused));
  Client client(model, run.get(), 0, 1, machine);
  client.Give(ways);
  CASTOR_RETURN_IF_ERROR(client.SetValues());
  const std::vector<float> initial = client.Values();
  Outcome outcome;
  std::vector<Client::Loss> losses;
  for (int64_t step = 1; step <= kSteps; ++step) {
    if (step == ways.tries_in_vain) {
      const absl::Status tried = client.TryInVain(ways, step);
      if (!tried.ok()) {
        if (refused != nullptr) *refused = run->refused();
        return tried;
      }
    }
    if (step == ways.gives_values_at) {
      CASTOR_RETURN_IF_ERROR(client.GiveValuesAgain());
    }
    if (ways.before_step) {
      CASTOR_RETURN_IF_ERROR(ways.before_step(*run, step));
    }
    const bool fails = step == 3 || step == kSteps - 1;
    auto loss = client.QueueStep(step, fails ? fail_at : -1);
    if (absl::IsCancelled(loss.status())) loss = client.QueueStep(step);
    // A step that takes more than earlier ones may find that gradients are in
    // its way. The second time it is recorded.
    if (absl::IsAborted(loss.status())) loss = client.QueueStep(step);
    if (!loss.ok()) {
      if (refused != nullptr) *refused = run->refused();
      // Nothing is lost by a refusal.
      EXPECT_EQ(client.Values() == initial, step == 1);
      return loss.status();
    }
    losses.push_back(*loss);
    if (step % 3 == 0) {
      CASTOR_ASSIGN_OR_RETURN(losses.emplace_back(),
                              client.QueueEvaluation(step));
    }
  }
  CASTOR_RETURN_IF_ERROR(run->Drain());
  for (const Client::Loss& loss : losses) outcome.losses.push_back(*loss);
  outcome.parameters = client.Values();
  outcome.stats = run->stats();
  outcome.speculation = run->speculation();
  EXPECT_EQ(outcome.stats.claimed_bytes, 0);
  return outcome;
}

}  // namespace castor::test_client

#endif  // CASTOR_CLIENT_TESTING_TRAINED_CLIENT_H_
