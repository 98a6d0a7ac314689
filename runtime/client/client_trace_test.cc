// The trace of a client's run, read back: every use of every step that follows
// a script, and all of the device's bytes.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/test_files.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"
#include "runtime/client/client_run.h"
#include "runtime/client/test_client.h"
#include "runtime/train/run_trace.h"
#include "tracer/trace_file.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::Model;
using test_client::RandomModel;

constexpr int64_t kSteps = 6;

struct Trained {
  std::vector<float> values;
  int64_t followed_steps = 0;
  int64_t device_peak_bytes = 0;
  int64_t smallest_device_budget_bytes = 0;
};

Trained Train(const Model& model, const char* policy, int64_t budget,
              const std::string& path) {
  ClientOptions options;
  options.micro_batches = model.micro_batches;
  options.learning_rate = [](int64_t) { return 0.02; };
  options.memory.policy = FindPolicy(policy);
  options.memory.device_bytes = budget;
  const auto run = ClientRun::Create(model.parameters, options);
  EXPECT_TRUE(run.ok()) << run.status();
  if (!run.ok()) return {};
  std::unique_ptr<RunTrace> trace;
  if (!path.empty()) {
    auto created = RunTrace::Create(
        path, {.title = "a client", .device = "host", .policy = policy},
        {.first = 1, .last = kSteps}, run->get());
    EXPECT_TRUE(created.ok()) << created.status();
    if (!created.ok()) return {};
    trace = *std::move(created);
  }
  Client client(model, run->get());
  EXPECT_TRUE(client.SetValues().ok());
  for (int64_t step = 1; step <= kSteps; ++step) {
    auto loss = client.Step(step);
    if (absl::IsAborted(loss.status())) loss = client.Step(step);
    EXPECT_TRUE(loss.ok()) << loss.status();
    // What was asked for is over when the window closes.
    if (step == kSteps) {
      EXPECT_TRUE((*run)->Drain().ok());
    }
    if (trace != nullptr) trace->OnResult((*run)->report());
    if (step % 2 == 0) {
      EXPECT_TRUE(client.Evaluate(step).ok());
    }
  }
  if (trace != nullptr) {
    trace->Finish("finished", "");
    EXPECT_TRUE(trace->status().ok()) << trace->status();
  }
  const ClientRun::Stats stats = (*run)->stats();
  return {.values = client.Values(),
          .followed_steps = stats.followed_steps,
          .device_peak_bytes = stats.device_peak_bytes,
          .smallest_device_budget_bytes = stats.smallest_device_budget_bytes};
}

TEST(ClientTrace, HasEveryUseAndEveryByte) {
  const TemporaryDirectory directory;
  std::mt19937 random(3);
  int64_t waits = 0, copies = 0;
  for (int i = 0; i < 20; ++i) {
    const Model model = RandomModel(random);
    const char* const policy = i % 2 == 0 ? "auto" : "cpu";
    const Trained plain = Train(model, policy, kUnlimitedBytes, "");
    const int64_t budget = plain.smallest_device_budget_bytes;
    const std::string path = directory.path() + "/trace";
    const Trained traced = Train(model, policy, budget, path);
    EXPECT_EQ(traced.values, plain.values);

    // Reading checks that categories sum to the arena's count, that each number
    // stands for something, and that times are in order.
    const auto contents = ReadTraceFile(path);
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->results.size(), static_cast<size_t>(kSteps));
    ASSERT_TRUE(contents->end.has_value());
    std::map<int64_t, std::set<int64_t>> issued, ran;
    int64_t most = 0;
    for (const IssueRecord& issue : contents->issues) {
      issued[issue.step].insert(issue.moment.value);
      most = std::max(most, issue.used_bytes);
    }
    EXPECT_LE(most, traced.device_peak_bytes);
    for (const WorkRecord& work : contents->works) {
      copies += work.kind == WorkKind::kFetch;
      if (work.step < 0 || !work.moment.valid()) continue;
      if (work.kind == WorkKind::kOperator || work.kind == WorkKind::kReduce ||
          work.kind == WorkKind::kUpdate) {
        ran[work.step].insert(work.moment.value);
      }
    }
    waits += static_cast<int64_t>(contents->waits.size());
    int64_t whole = 0;
    for (size_t s = 0; s < contents->steps.size(); ++s) {
      const StepRecord& step = contents->steps[s];
      if (step.step == 0) continue;
      const StepTrace& trace =
          contents->step_traces[contents->plans[step.plan].trace];
      const std::set<int64_t>& moments = issued[static_cast<int64_t>(s)];
      // One that did something else was recorded from there on.
      if (moments.size() < trace.ops.size()) continue;
      ++whole;
      EXPECT_EQ(moments.size(), trace.ops.size());
      EXPECT_EQ(ran[static_cast<int64_t>(s)], moments);
    }
    EXPECT_EQ(whole, traced.followed_steps);
  }
  EXPECT_GT(copies, 0);
  EXPECT_GT(waits, 0);
}

}  // namespace
}  // namespace castor
