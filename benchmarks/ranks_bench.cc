// Measures what several ranks cost. benchmarks/ranks.sh runs it, alone and
// under mpirun in turns.
//
//   ranks_bench step [--bf16] [--steps N] [--accumulation N] [--width N]
//                    [--layers N] [--policy cuda|cpu|auto]
//   ranks_bench sum [--rounds N]
//
// step: steps of a GPT-2 on as many ranks as there are, the same micro batches
// for each; prints one line of rank 0's. The bound of bytes: what a rank
// receives, P the payloads' bytes, per micro batch 2 (N - 1) / N P of gathers
// and (N - 1) / N P of a reduce, in the parameters' type; with everything
// gathered kept until the backward pass, the gathers once.
//
// sum: the ordered sum of parts (Communicator::ReduceScatter), against MPI's
// own reduce-scatter in the gradient's type, in turns.
#define OMPI_SKIP_MPICXX 1  // the C++ bindings are long gone
#include <mpi/mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/median.h"
#include "base/units.h"
#include "benchmarks/synthetic.h"
#include "device/comm/launch_env.h"
#include "device/comm/rank_group.h"
#include "device/host/host_device.h"
#include "models/gpt2/gpt2.h"
#include "runtime/nn/zero_init.h"
#include "runtime/train/trainer.h"

namespace castor {
namespace {

struct Flags {
  bool bf16 = false;
  int64_t steps = 10, accumulation = 2, rounds = 15;
  SyntheticRun run = {6, 384, 256, 4, 128};
  const PlacementPolicy* policy = FindPolicy("cuda");
};

constexpr int kSettle = 4;  // before: warm-up, change of plan, two more

double Spread(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least;
}

void Steps(const Flags& flags, RankGroup* group) {
  const int ranks = group->world_size();
  Engine engine(flags.bf16 ? DType::kBFloat16 : DType::kFloat32, 1);
  const ZeroInit scope(engine);
  models::Gpt2 model(flags.run.Model());
  TrainerOptions options;
  options.shape = flags.run.Shape();
  options.shape.micro_batches = flags.accumulation * ranks;
  options.threads = 1;
  options.memory.policy = flags.policy;
  options.ranks.rank = group->rank();
  options.ranks.world_size = ranks;
  options.ranks.join = [&](Device* device) {
    return group->MakeCommunicator(device);
  };
  auto made = Trainer::Create(&engine, &model, std::move(options));
  CASTOR_CHECK(made.ok());
  Trainer& trainer = **made;
  InitialValues values(1);
  CASTOR_CHECK(trainer.Initialize(values).ok());
  int64_t index = group->rank();
  const auto run = [&](int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      CASTOR_CHECK(trainer
                       .Step([&]() -> absl::StatusOr<MicroBatch> {
                         MicroBatch batch = flags.run.Batch(index);
                         index += ranks;
                         return batch;
                       })
                       .ok());
    }
    CASTOR_CHECK(trainer.Drain().ok());
  };
  run(kSettle);
  trainer.TakeReports();
  CommunicatorStats before;
  if (ranks > 1) before = trainer.communicator()->stats();
  run(flags.steps);
  std::vector<double> seconds, waits;
  int64_t received = 0;
  for (const StepReport& step : trainer.TakeReports()) {
    seconds.push_back(step.seconds);
    waits.push_back(step.stall_seconds);
    received = step.network_bytes;
  }
  double network = 0;  // a collective under way, from all ranks' being there
  int64_t payloads = 0;
  for (int64_t i = 0; i < trainer.layout().num_chunks(); ++i) {
    payloads += trainer.layout().payload_bytes(ChunkId(i));
  }
  if (ranks > 1) {
    network = 1e-9 *
              static_cast<double>(trainer.communicator()->stats().transfer_ns -
                                  before.transfer_ns) /
              static_cast<double>(flags.steps);
  }
  if (group->rank() > 0) return;
  const int64_t part = payloads / ranks * (ranks - 1) * flags.accumulation;
  const double step = Median(seconds), wait = Median(waits);
  std::printf(
      "ranks %d  policy %s  step_ms %.1f  spread_ms %.1f  tokens_per_s %.0f  "
      "wait_ms %.1f  network_ms %.1f  hidden_ms %.1f  received %lld  "
      "bound_gathered_twice %lld  bound_gathered_once %lld\n",
      ranks, std::string(flags.policy->name).c_str(), 1e3 * step,
      1e3 * Spread(seconds),
      static_cast<double>(flags.run.batch * flags.run.length *
                          flags.accumulation * ranks) /
          step,
      1e3 * wait, 1e3 * network, 1e3 * std::max(0.0, network - wait),
      static_cast<long long>(received), static_cast<long long>(3 * part),
      static_cast<long long>(2 * part));
}

// MPI's operator on bf16, which it does not know.
void AddHalves(void* in, void* inout, int* n, MPI_Datatype*) {
  const auto* a = static_cast<const BFloat16*>(in);
  auto* b = static_cast<BFloat16*>(inout);
  for (int i = 0; i < *n; ++i) {
    b[i] = BFloat16(static_cast<float>(a[i]) + static_cast<float>(b[i]));
  }
}

void Sums(const Flags& flags, RankGroup* group) {
  const int ranks = group->world_size();
  CASTOR_CHECK(ranks > 1);
  auto device = HostDevice::Create({.memory_bytes = 4096});
  CASTOR_CHECK(device.ok());
  auto made = group->MakeCommunicator(device->get());
  CASTOR_CHECK(made.ok());
  Communicator& comm = **made;
  MPI_Op add = MPI_OP_NULL;
  MPI_Op_create(AddHalves, /*commute=*/1, &add);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t payload :
         {int64_t{1} << 18, int64_t{1} << 20, int64_t{1} << 23}) {
      const int64_t n = payload / ranks / SizeOf(dtype);
      std::vector<std::byte> send(payload, std::byte{0}), scratch(payload);
      std::vector<float> sum(n);
      const auto timed = [&](const std::function<void()>& body) {
        const auto here = comm.Barrier("together", 0);
        CASTOR_CHECK(here.ok() && (*device)->Synchronize(*here).ok());
        const int64_t start = (*device)->NowNs();
        body();
        return 1e-3 * static_cast<double>((*device)->NowNs() - start);
      };
      std::vector<double> ordered, plain, ratios;
      for (int64_t round = -2; round < flags.rounds; ++round) {
        const double ours = timed([&] {
          const auto done = comm.ReduceScatter(
              "sum", 0, dtype, send.data(), scratch.data(), sum.data(), n,
              /*assign=*/false, StreamId::kHostCompute);
          CASTOR_CHECK(done.ok() && (*device)->Synchronize(*done).ok());
        });
        const double theirs = timed([&] {
          const bool single = dtype == DType::kFloat32;
          MPI_Reduce_scatter_block(send.data(), scratch.data(),
                                   static_cast<int>(n),
                                   single ? MPI_FLOAT : MPI_UINT16_T,
                                   single ? MPI_SUM : add, MPI_COMM_WORLD);
        });
        if (round < 0) continue;
        ordered.push_back(ours);
        plain.push_back(theirs);
        ratios.push_back(ours / theirs);
      }
      if (comm.rank() > 0) continue;
      std::printf(
          "ranks %d  %s  payload %s  ordered_us %.0f  mpi_us %.0f  ratio %.2f "
          "(%.2f to %.2f, %lld rounds)\n",
          ranks, std::string(DTypeName(dtype)).c_str(),
          FormatBytes(payload).c_str(), Median(ordered), Median(plain),
          Median(ratios), *std::min_element(ratios.begin(), ratios.end()),
          *std::max_element(ratios.begin(), ratios.end()),
          static_cast<long long>(flags.rounds));
    }
  }
  MPI_Op_free(&add);
}

int Main(int argc, char** argv) {
  Flags flags;
  const std::string mode = argc > 1 ? argv[1] : "";
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--bf16") {
      flags.bf16 = true;
      continue;
    }
    CASTOR_CHECK(i + 1 < argc);
    const char* const value = argv[++i];
    const struct {
      const char* name;
      int64_t* number;
    } kNumbers[] = {{"--steps", &flags.steps},
                    {"--accumulation", &flags.accumulation},
                    {"--width", &flags.run.width},
                    {"--layers", &flags.run.layers},
                    {"--rounds", &flags.rounds}};
    bool known = false;
    for (const auto& number : kNumbers) {
      if (flag != number.name) continue;
      *number.number = std::atoll(value);
      known = true;
    }
    if (flag == "--policy") {
      const PlacementPolicy* policy = FindPolicy(value);
      if (policy != nullptr) {
        flags.policy = policy;
        known = true;
      }
    }
    if (!known) {
      std::fprintf(stderr, "ranks_bench: what is %s?\n", flag.c_str());
      return 2;
    }
  }
  const auto launch = DetectLaunch(CurrentEnvironment());
  CASTOR_CHECK(launch.ok());
  auto group = RankGroup::Join(*launch, {});
  if (!group.ok()) {
    std::fprintf(stderr, "%s\n", group.status().ToString().c_str());
    return 1;
  }
  if (mode == "step") {
    Steps(flags, group->get());
  } else if (mode == "sum") {
    Sums(flags, group->get());
  } else {
    std::fprintf(stderr, "usage: ranks_bench step|sum [flags]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) { return castor::Main(argc, argv); }
