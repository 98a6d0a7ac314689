// A trace that is written while streams run: for the thread sanitizer, and what
// a window holds.
#include "run/report/run_trace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"
#include "tracer/trace_file.h"

namespace castor::cli {
namespace {

TEST(RunTrace, HoldsTheWindowWhileStreamsRun) {
  Engine engine(DType::kBFloat16, 1);
  const ZeroInit scope(engine);
  models::Gpt2Config config;
  config.n_layer = 2;
  config.n_head = 2;
  config.n_embd = 16;
  config.n_positions = 8;
  config.vocab_size = 32;
  models::Gpt2 model(config);
  TrainerOptions options;
  options.shape = {.batch = 2, .length = 8, .micro_batches = 2};
  options.eval_batch = 1;
  options.threads = 2;
  options.optimizer.gradient_clipping = 1;
  options.memory.policy = FindPolicy("cpu");
  options.memory.chunk_bytes = 4096;
  auto trainer = Trainer::Create(&engine, &model, options);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  InitialValues values(1);
  ASSERT_TRUE((*trainer)->Initialize(values).ok());

  const char* base = std::getenv("TEST_TMPDIR");
  const std::string path =
      std::string(base == nullptr ? "/tmp" : base) + "/run_trace_test.trace";
  auto trace =
      RunTrace::Create(path, {}, {.first = 2, .last = 4}, trainer->get());
  ASSERT_TRUE(trace.ok()) << trace.status();
  const auto batch = [](int64_t samples) {
    return [samples]() -> absl::StatusOr<MicroBatch> {
      const std::vector<int32_t> tokens(samples * 8, 3);
      return MicroBatch{tokens, tokens};
    };
  };
  const auto report = [&] {
    for (const StepReport& step : (*trainer)->TakeReports()) {
      (*trace)->OnResult(step);
    }
  };
  for (int step = 1; step <= 6; ++step) {
    ASSERT_TRUE((*trainer)->Step(batch(2)).ok());
    report();
    if (step % 2 == 1) {
      ASSERT_TRUE((*trainer)->Evaluate(1, batch(1)).ok());
      report();
    }
  }
  ASSERT_TRUE((*trainer)->Drain().ok());
  report();
  (*trace)->Finish("finished", "");
  ASSERT_TRUE((*trace)->status().ok()) << (*trace)->status();
  trace->reset();

  const auto contents = ReadTraceFile(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->results.size(), 6u);
  std::vector<int64_t> steps;
  for (const StepRecord& step : contents->steps) steps.push_back(step.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 3, 0, 4}));  // 0: the evaluation
  // Every operator of every step has run.
  std::set<std::pair<int64_t, int64_t>> issued, ran;
  for (const IssueRecord& issue : contents->issues) {
    issued.insert({issue.step, issue.moment.value});
  }
  for (const WorkRecord& work : contents->works) {
    const bool copy =
        work.kind == WorkKind::kFetch || work.kind == WorkKind::kCopyBack;
    if (work.step >= 0 && work.moment.valid() && !copy) {
      ran.insert({work.step, work.moment.value});
    }
  }
  EXPECT_FALSE(issued.empty());
  EXPECT_EQ(ran, issued);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace castor::cli
