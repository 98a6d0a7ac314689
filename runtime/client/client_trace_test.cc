// The trace of a client's run, read back: every use of every step that follows
// a script, and all of the device's bytes.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/test_files.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"
#include "runtime/client/client_run.h"
#include "runtime/client/test_client.h"
#include "runtime/train/run_trace.h"
#include "tracer/rank_traces.h"
#include "tracer/trace_file.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::Model;
using test_client::Place;
using test_client::RandomModel;

constexpr int64_t kSteps = 6;

struct Trained {
  std::vector<float> values;
  int64_t followed_steps = 0;
  int64_t device_peak_bytes = 0;
  int64_t smallest_device_budget_bytes = 0;
};

Trained Train(Model model, const char* policy, int64_t budget,
              const std::string& path, const Place& place = {}) {
  model.micro_batches /= place.world_size;
  ClientOptions options;
  place.Join(&options);
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
  Client client(model, run->get(), place.rank, place.world_size);
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
    const absl::Status merged = trace->Merge();
    EXPECT_TRUE(merged.ok()) << merged;
  }
  const ClientRun::Stats stats = (*run)->stats();
  return {.values = client.Values(),
          .followed_steps = stats.followed_steps,
          .device_peak_bytes = stats.device_peak_bytes,
          .smallest_device_budget_bytes = stats.smallest_device_budget_bytes};
}

// What the streams did, by what the test looks for.
struct Seen {
  int64_t waits = 0;
  int64_t copies = 0;
  int64_t collectives = 0;
};

// Reading has checked that categories sum to the arena's count, that each
// number stands for something, and that times are in order.
void ExpectWhole(const TraceContents& contents, const Trained& traced,
                 Seen* seen) {
  EXPECT_EQ(contents.results.size(), static_cast<size_t>(kSteps));
  ASSERT_TRUE(contents.end.has_value());
  std::map<int64_t, std::set<int64_t>> issued, ran;
  int64_t most = 0;
  for (const IssueRecord& issue : contents.issues) {
    issued[issue.step].insert(issue.moment.value);
    most = std::max(most, issue.used_bytes);
  }
  EXPECT_LE(most, traced.device_peak_bytes);
  for (const WorkRecord& work : contents.works) {
    seen->copies += work.kind == WorkKind::kFetch;
    if (work.step < 0 || !work.moment.valid()) continue;
    if (work.kind == WorkKind::kOperator || work.kind == WorkKind::kReduce ||
        work.kind == WorkKind::kUpdate) {
      ran[work.step].insert(work.moment.value);
    }
  }
  seen->waits += static_cast<int64_t>(contents.waits.size());
  seen->collectives += static_cast<int64_t>(contents.networks.size());
  int64_t whole = 0;
  for (size_t s = 0; s < contents.steps.size(); ++s) {
    const StepRecord& step = contents.steps[s];
    if (step.step == 0) continue;
    const StepTrace& trace =
        contents.step_traces[contents.plans[step.plan].trace];
    const std::set<int64_t>& moments = issued[static_cast<int64_t>(s)];
    // One that did something else was recorded from there on.
    if (moments.size() < trace.ops.size()) continue;
    ++whole;
    EXPECT_EQ(moments.size(), trace.ops.size());
    EXPECT_EQ(ran[static_cast<int64_t>(s)], moments);
  }
  EXPECT_EQ(whole, traced.followed_steps);
}

TEST(ClientTrace, HasEveryUseAndEveryByte) {
  const TemporaryDirectory directory;
  std::mt19937 random(3);
  Seen seen;
  for (int i = 0; i < 20; ++i) {
    const Model model = RandomModel(random);
    const char* const policy = i % 2 == 0 ? "auto" : "cpu";
    const Trained plain = Train(model, policy, kUnlimitedBytes, "");
    const int64_t budget = plain.smallest_device_budget_bytes;
    const std::string path = directory.path() + "/trace";
    const Trained traced = Train(model, policy, budget, path);
    EXPECT_EQ(traced.values, plain.values);

    const auto contents = ReadTraceFile(path);
    ASSERT_TRUE(contents.ok()) << contents.status();
    ExpectWhole(*contents, traced, &seen);
  }
  EXPECT_GT(seen.copies, 0);
  EXPECT_GT(seen.waits, 0);
}

TEST(ClientTrace, HasAllRanksInOneFile) {
  const TemporaryDirectory directory;
  std::mt19937 random(5);
  for (int i = 0; i < 4; ++i) {
    Model model = RandomModel(random);
    model.micro_batches = 2;
    const Trained alone = Train(model, "auto", kUnlimitedBytes, "");
    const std::string path = directory.path() + "/trace";
    const Place first = Place::First(2);
    std::vector<Trained> traced(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        traced[rank] = Train(model, i % 2 == 0 ? "auto" : "cpu",
                             kUnlimitedBytes, path, first.Of(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto ranks = ReadRankTraces(path);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    ASSERT_EQ(ranks->size(), 2u);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(traced[rank].values, alone.values);
      Seen seen;
      ExpectWhole((*ranks)[rank], traced[rank], &seen);
      EXPECT_GT(seen.collectives, 0);
      EXPECT_FALSE(std::filesystem::exists(RankFileName(path, 1)));
    }
  }
}

}  // namespace
}  // namespace castor
