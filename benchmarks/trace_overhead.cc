// What recording a trace costs: steps of one trainer, in turns with and without
// every event of them written to a file. Goal: less than 1 % of a step.
//
//   bazel run -c opt //benchmarks:trace_overhead -- [ROUNDS [THREADS]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "cli/run_trace.h"
#include "models/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/trainer.h"
#include "tracer/trace_file.h"

namespace castor {
namespace {

// Small enough for many events in little time, and one of the usual kind; both
// in a budget that makes chunks move.
struct Size {
  const char* name;
  int64_t layers, heads, width, vocabulary, batch, length;
  int64_t device_bytes;
};
constexpr Size kSizes[] = {
    {"6 x 128, 4 x 64 tokens, bytes, 8 MiB", 6, 4, 128, 256, 4, 64, 8 << 20},
    {"6 x 384, 4 x 128 tokens, bytes, 48 MiB", 6, 6, 384, 256, 4, 128,
     48 << 20},
};
constexpr int kStepsPerRound = 25;  // beside which the records of plans are few

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Compare(const Size& size, int rounds, int threads) {
  Engine engine(DType::kBFloat16, 1);
  const ZeroInit scope(engine);
  ModelConfig config;
  config.n_layer = size.layers;
  config.n_head = size.heads;
  config.n_embd = size.width;
  config.n_positions = size.length;
  config.vocab_size = size.vocabulary;
  models::Gpt2 model(config);
  TrainerOptions options;
  options.shape = {.batch = size.batch, .length = size.length};
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
        MicroBatch batch;
        for (int64_t n = 0; n < size.batch * size.length; ++n) {
          batch.tokens.push_back(
              static_cast<int32_t>((n * 7919 + sample) % size.vocabulary));
          batch.targets.push_back(
              static_cast<int32_t>((n * 6101 + sample) % size.vocabulary));
        }
        ++sample;
        return batch;
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
      auto trace = cli::RunTrace::Create(
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
