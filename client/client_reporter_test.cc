// The trace of a client's run, read back: every use of every step that follows
// a script, and all of the device's bytes.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "base/test_files.h"
#include "client/client_run.h"
#include "client/testing/test_client.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"
#include "run/report/run_trace.h"
#include "run/run_observer.h"
#include "tracer/rank_traces.h"
#include "tracer/trace_file.h"

namespace castor {
namespace {

using test_client::Client;
using test_client::Layer;
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
    // All queued work is over when the window closes.
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

// How often the streams did the things that the test looks for.
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
    // Ranks that hand in other gradients follow no plan, and tell of none.
    for (Layer& layer : model.layers) layer.seldom = false;
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

// Records what an observer is told: how long each operator's work took, and the
// durations that the plan of each step that follows a script was made with.
class Records final : public RunObserver {
 public:
  struct Step {
    uint16_t tag;
    StepTrace trace;
  };

  void OnStep(const StepStart& start) override {
    steps_.push_back({start.tag, *start.request->trace});
  }
  void OnOperator(uint16_t, Moment, const BytesByCategory&, int64_t) override {}
  void OnWork(const WorkRecord& work, const NetworkRecord*) override {
    if (work.kind != WorkKind::kOperator && work.kind != WorkKind::kReduce &&
        work.kind != WorkKind::kUpdate) {
      return;
    }
    const std::lock_guard lock(mutex_);
    const bool host =
        static_cast<StreamId>(work.stream) == StreamId::kHostCompute;
    took_[{work.tag, work.moment.value, host}] +=
        std::max<int64_t>(1, work.end_ns - work.start_ns);
  }
  void OnWait(const WaitRecord&) override {}

  const std::vector<Step>& steps() const { return steps_; }
  // The least in these steps; 0: there was none.
  int64_t Took(const std::vector<Step>& steps, int64_t moment, bool host) {
    const std::lock_guard lock(mutex_);
    int64_t least = 0;
    for (const Step& step : steps) {
      const int64_t took = took_[{step.tag, moment, host}];
      least = least == 0 ? took : std::min(least, took);
    }
    return least;
  }

 private:
  std::vector<Step> steps_;
  std::mutex mutex_;
  std::map<std::tuple<uint16_t, int64_t, bool>, int64_t> took_;
};

TEST(ClientRun, PlansWithWhatUsesReducesAndUpdatesTook) {
  std::mt19937 random(5);
  for (int i = 0; i < 6; ++i) {
    Model model = RandomModel(random);
    for (test_client::Layer& layer : model.layers) {
      layer.optional = layer.seldom = false;
      layer.growth = 0;
    }
    model.tells = false;  // all steps are alike
    // Updates on the host, or on the device.
    ClientOptions options;
    options.micro_batches = model.micro_batches;
    options.learning_rate = [](int64_t) { return 0.02; };
    options.memory.policy = FindPolicy(i % 2 == 0 ? "cpu" : "cuda");
    const auto run = ClientRun::Create(model.parameters, options);
    ASSERT_TRUE(run.ok()) << run.status();
    Records records;
    (*run)->SetObserver(&records);
    Client client(model, run->get());
    ASSERT_TRUE(client.SetValues().ok());
    for (int64_t step = 1; step <= 5; ++step) {
      ASSERT_TRUE(client.Step(step).ok());
    }
    (*run)->SetObserver(nullptr);

    // The first step was recorded, and the second one is not measured.
    ASSERT_EQ(records.steps().size(), 4u);
    EXPECT_FALSE(records.steps()[0].trace.measured);
    const std::vector<Records::Step> measured = {records.steps()[1],
                                                 records.steps()[2]};
    const StepTrace& trace = records.steps()[3].trace;
    EXPECT_TRUE(trace.measured);
    for (size_t t = 0; t < trace.ops.size(); ++t) {
      const OpRecord& op = trace.ops[t];
      const auto moment = static_cast<int64_t>(t);
      const int64_t device = records.Took(measured, moment, /*host=*/false);
      const int64_t host = records.Took(measured, moment, /*host=*/true);
      EXPECT_GT(device + host, 0) << op.name;
      // Where an update was seen on one side alone, it counts for both.
      EXPECT_EQ(op.duration_ns, device > 0 ? device : host) << op.name;
      if (op.kind != OpKind::kCompute) {
        EXPECT_EQ(op.host_duration_ns, host > 0 ? host : device) << op.name;
      }
    }
    EXPECT_EQ((*run)->stats().plans, 2);
  }
}

}  // namespace
}  // namespace castor
