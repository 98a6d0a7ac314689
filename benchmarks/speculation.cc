// Measures what updates gain that run on the host before the gradients' norm is
// known, where the host's updates take long beside a short backward: a step
// with them over one without, by turns, where nothing is clipped and where all
// steps are.
//
//   bazel run -c opt //benchmarks:speculation -- [--bf16] [--layers N]
//       [--width N] [--vocabulary N] [--batch N] [--length N] [--rounds N]
//       [--steps N] [--bus BYTES_PER_S] [--paced]
//
// The device and the host have a thread each. With --paced the model is small,
// and its operators and updates take as long as a device and a host that have
// nothing else to do would take: the rest of each passes asleep, so that two
// cores that are shared with others do not decide who wins.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/median.h"
#include "benchmarks/synthetic.h"
#include "device/device.h"
#include "device/forwarding_device.h"
#include "device/host/host_device.h"
#include "memory/plan/policy/policies.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

// Warm-up, the first steps on a plan, and those in which it settles.
constexpr int64_t kSettle = 10;

struct Flags {
  bool bf16 = false;
  double bus_bytes_per_s = 0;
  int64_t rounds = 9;
  int64_t steps = 12;  // measured
  bool paced = false;
  SyntheticRun run = {6, 512, 256, 1, 16};
};

// The time of each piece of work on a paced device.
constexpr int64_t kOperatorNs = 2'000'000;
constexpr int64_t kReduceNs = 1'000'000;
constexpr int64_t kUpdateNs = 20'000'000;
constexpr SyntheticRun kPacedRun = {4, 64, 64, 1, 4};
constexpr int64_t kPacedChunkBytes = 64 << 10;

// A host device that passes the rest of each piece of work's time asleep.
class PacedDevice final : public ForwardingDevice {
 public:
  explicit PacedDevice(std::unique_ptr<Device> device)
      : ForwardingDevice(device.get()), device_(std::move(device)) {}

  // Counts updates that were done again, whose time passes at their commit.
  void set_repeated(std::function<int64_t()> repeated) {
    repeated_ = std::move(repeated);
  }

  absl::string_view name() const override { return "paced"; }
  Fence Enqueue(StreamId stream, int64_t tag, Work work) override {
    return ForwardingDevice::Enqueue(
        stream, tag,
        [this, work = std::move(work),
         tag](const ExecContext& context) mutable -> absl::Status {
          const auto start = std::chrono::steady_clock::now();
          const int64_t before = repeated_ ? repeated_() : 0;
          const absl::Status status = work(context);
          const bool again = repeated_ && repeated_() > before;
          std::this_thread::sleep_until(
              start + std::chrono::nanoseconds(NsOf(tag, again)));
          return status;
        });
  }

 private:
  static int64_t NsOf(int64_t tag, bool again) {
    switch (WorkTag::Unpack(tag).kind) {
      case WorkKind::kOperator:
        return kOperatorNs;
      case WorkKind::kReduce:
        return kReduceNs;
      case WorkKind::kUpdate:
        return kUpdateNs;
      default:
        return again ? kUpdateNs : 0;
    }
  }

  const std::unique_ptr<Device> device_;
  std::function<int64_t()> repeated_;
};

struct Run {
  double step_seconds = 0;
  double predicted_seconds = 0;
  SpeculationCounts counts;
  int64_t chunks = 0;
  int64_t host_bytes = 0;
};

// `always`: whatever norms said before.
Run Train(const Flags& flags, double clipping, bool speculates, bool always) {
  Engine engine(flags.bf16 ? DType::kBFloat16 : DType::kFloat32, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(flags.run.Model());
  TrainerOptions options;
  options.shape = flags.run.Shape();
  options.bus_bytes_per_s = flags.bus_bytes_per_s;
  options.optimizer.gradient_clipping = clipping;
  options.memory.policy = FindPolicy("cpu");
  options.planning.speculation.on = speculates;
  if (always) {
    options.planning.speculation.first_wait =
        options.planning.speculation.longest_wait = 0;
  }
  PacedDevice* paced = nullptr;
  if (flags.paced) {
    options.memory.chunk_bytes = kPacedChunkBytes;
    options.open_device =
        [&](int64_t bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
      auto device = HostDevice::Create(
          {.memory_bytes = bytes, .bus_bytes_per_s = flags.bus_bytes_per_s});
      if (!device.ok()) return device.status();
      auto made = std::make_unique<PacedDevice>(*std::move(device));
      paced = made.get();
      return made;
    };
  }
  auto trainer = Trainer::Create(&engine, &model, std::move(options));
  CASTOR_CHECK(trainer.ok());
  if (paced != nullptr) {
    paced->set_repeated([&] { return (*trainer)->speculation().repeated; });
  }
  InitialValues values(1);
  CASTOR_CHECK((*trainer)->Initialize(values).ok());
  int64_t index = 0;
  for (int64_t i = 0; i < kSettle + flags.steps; ++i) {
    const auto loss = (*trainer)->Step([&]() -> absl::StatusOr<MicroBatch> {
      return flags.run.Batch(index++);
    });
    CASTOR_CHECK(loss.ok());
  }
  CASTOR_CHECK((*trainer)->Drain().ok());
  std::vector<double> seconds;
  for (const StepReport& step : (*trainer)->TakeReports()) {
    if (step.step > kSettle) seconds.push_back(step.seconds);
  }
  return {
      .step_seconds = Median(seconds),
      .predicted_seconds =
          1e-9 * static_cast<double>((*trainer)->training_forecast().step_ns),
      .counts = (*trainer)->speculation(),
      .chunks = (*trainer)->layout().num_chunks(),
      .host_bytes = (*trainer)->host_stats().peak_bytes};
}

void Measure(const Flags& flags) {
  const struct {
    const char* name;
    double clipping;
    bool always;
  } kKinds[] = {{"nothing clipped", 1e9, false},
                {"always clipped", 1e-9, false},
                {"all in vain", 1e-9, true}};
  struct Results {
    std::vector<double> without, with, ratio, predicted, predicted_with;
    Run last, last_with;
  };
  std::vector<Results> results(std::size(kKinds));
  for (int64_t round = 0; round < flags.rounds; ++round) {
    for (size_t i = 0; i < results.size(); ++i) {
      Results& r = results[i];
      // Each order as often as the other: the machine's speed drifts.
      for (const bool with : {round % 2 == 0, round % 2 != 0}) {
        const Run run =
            Train(flags, kKinds[i].clipping, with, kKinds[i].always);
        (with ? r.with : r.without).push_back(run.step_seconds);
        (with ? r.predicted_with : r.predicted)
            .push_back(run.predicted_seconds);
        (with ? r.last_with : r.last) = run;
      }
      r.ratio.push_back(r.with.back() / r.without.back());
    }
  }
  std::printf(
      "GPT-2 %ld x %ld, V %ld, %ld x %ld tokens, %s, policy cpu, bus %g GB/s "
      "(0: unlimited), a thread on either side, %ld chunks; medians of %ld "
      "rounds\n",
      static_cast<long>(flags.run.layers), static_cast<long>(flags.run.width),
      static_cast<long>(flags.run.vocabulary),
      static_cast<long>(flags.run.batch), static_cast<long>(flags.run.length),
      flags.bf16 ? "bf16" : "fp32", flags.bus_bytes_per_s * 1e-9,
      static_cast<long>(results[0].last.chunks),
      static_cast<long>(flags.rounds));
  std::printf("%-16s %10s %10s %8s %17s %16s %16s %10s %10s\n", "",
              "without ms", "with ms", "ratio", "(min to max)",
              "foreseen without", "foreseen with", "committed", "repeated");
  for (size_t i = 0; i < results.size(); ++i) {
    const Results& r = results[i];
    std::printf(
        "%-16s %10.1f %10.1f %8.3f  (%6.3f, %6.3f) %16.1f %16.1f %10ld %10ld\n",
        kKinds[i].name, 1e3 * Median(r.without), 1e3 * Median(r.with),
        Median(r.ratio), *std::min_element(r.ratio.begin(), r.ratio.end()),
        *std::max_element(r.ratio.begin(), r.ratio.end()),
        1e3 * Median(r.predicted), 1e3 * Median(r.predicted_with),
        static_cast<long>(r.last_with.counts.committed),
        static_cast<long>(r.last_with.counts.repeated));
  }
  std::printf(
      "all in vain: always clipped, and updates run ahead nonetheless; "
      "committed, repeated: updates of the last run with them, in %ld steps; "
      "its host peak %.1f MB, without %.1f MB\n",
      static_cast<long>(kSettle + flags.steps),
      1e-6 * static_cast<double>(results[0].last_with.host_bytes),
      1e-6 * static_cast<double>(results[0].last.host_bytes));
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) {
  castor::Flags flags;
  const auto take = [&](int* at) {
    if (castor::TakeFlag("--paced", argv, at, &flags.paced)) {
      flags.run = castor::kPacedRun;
      return true;
    }
    return castor::TakeFlag("--bf16", argv, at, &flags.bf16) ||
           castor::TakePositive("--bus", argc, argv, at,
                                &flags.bus_bytes_per_s) ||
           flags.run.TakeArgument(argc, argv, at) ||
           castor::TakeNumber("--rounds", argc, argv, at, &flags.rounds) ||
           castor::TakeNumber("--steps", argc, argv, at, &flags.steps);
  };
  if (!castor::TakeArguments("speculation", argc, argv, take)) return 2;
  castor::Measure(flags);
}
