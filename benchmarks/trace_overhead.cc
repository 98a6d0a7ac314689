// Measures what recording a trace costs: steps of one trainer, in turns with
// and without every event of them written to a file. Goal: less than 1 % of a
// step.
//
//   bazel run -c opt //benchmarks:trace_overhead -- [ROUNDS [THREADS]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/median.h"
#include "benchmarks/seconds.h"
#include "benchmarks/synthetic.h"
#include "models/gpt2/gpt2.h"
#include "run/report/run_trace.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"
#include "tracer/trace_file.h"

namespace castor {
namespace {

// Small enough for many events in little time, and one of the usual kind; both
// in a budget that makes chunks move.
struct Size {
  const char* name;
  SyntheticRun run;
  int64_t device_bytes;
};
constexpr Size kSizes[] = {
    {"6 x 128, 4 x 64 tokens, bytes, 8 MiB",
     {6, 128, 256, 4, 64, 4, 0.1},
     8 << 20},
    {"6 x 384, 4 x 128 tokens, bytes, 48 MiB",
     {6, 384, 256, 4, 128, 6, 0.1},
     48 << 20},
};
constexpr int kStepsPerRound = 25;  // beside which the records of plans are few

void Compare(const Size& size, int rounds, int threads) {
  Engine engine(DType::kBFloat16, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(size.run.Model());
  TrainerOptions options;
  options.shape = size.run.Shape();
  options.threads = threads;
  options.optimizer.gradient_clipping = 1;
  options.memory.device_bytes = size.device_bytes;
  auto trainer = Trainer::Create(&engine, &model, std::move(options));
  CASTOR_CHECK(trainer.ok());
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());

  const std::string path =
      (std::filesystem::temp_directory_path() / "castor_trace_overhead.trace")
          .string();
  int64_t sample = 0;
  const auto round_of_steps = [&] {
    const double start = Seconds();
    for (int i = 0; i < kStepsPerRound; ++i) {
      auto loss = (*trainer)->Step([&]() -> absl::StatusOr<MicroBatch> {
        return size.run.Batch(sample++);
      });
      CASTOR_CHECK(loss.ok());
    }
    CASTOR_CHECK((*trainer)->Drain().ok());
    return (Seconds() - start) / kStepsPerRound;
  };
  std::vector<double> ratios, traced_s, plain_s;
  int64_t records = 0, bytes = 0;
  for (int round = -1; round < rounds; ++round) {  // round -1 warms up
    const double plain = round_of_steps();
    double traced;
    {
      auto trace = RunTrace::Create(
          path, {}, {1, std::numeric_limits<int64_t>::max()}, trainer->get());
      CASTOR_CHECK(trace.ok());
      traced = round_of_steps();
      CASTOR_CHECK((*trace)->status().ok());
    }
    if (round < 0) continue;
    plain_s.push_back(plain);
    traced_s.push_back(traced);
    ratios.push_back(traced / plain);
    if (round > 0) continue;
    const auto contents = ReadTraceFile(path);
    CASTOR_CHECK(contents.ok());
    records =
        static_cast<int64_t>(contents->issues.size() + contents->works.size() +
                             contents->waits.size());
    bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  }
  std::filesystem::remove(path);
  std::printf(
      "%-40s plain %7.2f ms  traced %7.2f ms  ratio %.4f (%.3f to %.3f, %d "
      "rounds of %d steps), %lld records and %lld bytes a step\n",
      size.name, 1e3 * Median(plain_s), 1e3 * Median(traced_s), Median(ratios),
      *std::min_element(ratios.begin(), ratios.end()),
      *std::max_element(ratios.begin(), ratios.end()), rounds, kStepsPerRound,
      static_cast<long long>(records / kStepsPerRound),
      static_cast<long long>(bytes / kStepsPerRound));
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 41;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
  for (const castor::Size& size : castor::kSizes) {
    castor::Compare(size, rounds, threads);
  }
}
