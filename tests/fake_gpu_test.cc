// Whole training runs on the CUDA device over a GPU made of threads: they give
// the bits of the host device, under every policy, at every budget, however
// late the GPU is (promise P1), and what is refused is refused before the first
// step (P2).
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sanitizers.h"
#include "base/with_type.h"
#include "device/cuda/fake_api.h"
#include "device/cuda/nccl/fake_nccl.h"
#include "device/cuda/nccl/nccl_parts.h"
#include "kernels/gradient_sum/add_to_sum.h"
#include "tests/fake_gpu_kernels.h"
#include "tests/on_gpu.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

TrainingCase Small(const PlacementPolicy* policy, DType dtype) {
  TrainingCase c;
  c.model.n_layer = 2;
  c.model.n_head = 2;
  c.model.n_embd = 32;
  c.model.n_positions = 16;
  c.model.vocab_size = 64;
  c.model.resid_pdrop = 0.1;
  c.dtype = dtype;
  c.steps = 5;
  c.options.shape = {.batch = 2, .length = 16, .micro_batches = 2};
  c.options.optimizer.gradient_clipping = 0.5;
  // In fp16 the first steps overflow and are skipped.
  c.options.loss_scale = {.initial = 0x1p20, .hysteresis = 1};
  c.options.memory.policy = policy;
  c.options.memory.chunk_bytes = 16384;
  c.options.scribble_freed_memory = true;
  return c;
}

// Some steps, but not all.
void ExpectSkips(DType dtype, const TrainingResult& result) {
  if (dtype != DType::kFloat16) return;
  EXPECT_GT(result.state.skipped_steps, 0);
  EXPECT_LT(result.state.skipped_steps, result.state.step);
}

// The same on the fake, which outlives the run.
TrainingCase OnFake(TrainingCase c, cuda::FakeApi* api) {
  return OnGpu(std::move(c), api, FakeGpuKernels());
}

TEST(FakeGpu, TrainsToTheHostDevicesBits) {
  for (DType dtype : kAllTypes) {
    // No type has threads of its own.
    if (CASTOR_THREAD_SANITIZER && dtype != DType::kFloat16) continue;
    const auto host = RunTraining(Small(FindPolicy("cuda"), dtype));
    ASSERT_TRUE(host.ok()) << host.status();
    ExpectSkips(dtype, *host);
    for (const PlacementPolicy& policy : Policies()) {
      cuda::FakeApi api({.clock_drift = 1e-4, .jitter_ns = 200'000});
      TrainingCase c = OnFake(Small(&policy, dtype), &api);
      auto run = RunTraining(c);
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_FALSE(run->refusal.has_value()) << run->refusal_message;
      EXPECT_EQ(run->state_sha256, host->state_sha256);
      EXPECT_EQ(run->losses, host->losses);
      EXPECT_EQ(run->state, host->state);
      // The least budget, and one in between.
      const int64_t least = run->admission.smallest_device_budget_bytes;
      const int64_t all = run->admission.unmanaged_device_bytes;
      for (int64_t budget : {least, (least + all) / 2}) {
        SCOPED_TRACE(::testing::Message() << "budget " << budget);
        c.options.memory.device_bytes = budget;
        run = RunTraining(c);
        ASSERT_TRUE(run.ok()) << run.status();
        ASSERT_FALSE(run->refusal.has_value()) << run->refusal_message;
        EXPECT_EQ(run->state_sha256, host->state_sha256);
        EXPECT_EQ(run->losses, host->losses);
        EXPECT_EQ(run->state, host->state);
      }
      c.options.memory.device_bytes = least - 1;
      run = RunTraining(c);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_TRUE(run->refusal.has_value());
    }
  }
}

// Activations leave while operators run and come back while others do, each to
// its planned address, where others were meanwhile.
TEST(FakeGpu, ActivationsComeBackToPlannedAddresses) {
  int64_t in_place = 0;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    TrainingCase c = Small(FindPolicy("auto"), dtype);
    c.model.n_layer = 3;
    const auto host = RunTraining(c);
    ASSERT_TRUE(host.ok()) << host.status();
    c.options.activation_checkpointing = ActivationCheckpointing::kAuto;
    c.options.planning.offloaded_blocks = {true, true, true};
    TrainingCase admission_only = c;
    admission_only.steps = 0;
    cuda::FakeApi nowhere;
    const auto needs = RunTraining(OnFake(admission_only, &nowhere));
    ASSERT_TRUE(needs.ok()) << needs.status();
    const int64_t least = needs->admission.smallest_device_budget_bytes;
    const int64_t all = needs->admission.unmanaged_device_bytes;
    // From a sixth of the way on nothing leaves; at the least nothing is
    // packed.
    for (const int64_t part : {0, 3, 5, 6}) {
      SCOPED_TRACE(::testing::Message() << part << " / 64 of the way");
      c.options.memory.device_bytes = least + (all - least) * part / 64;
      cuda::FakeApi api({.clock_drift = 1e-4, .jitter_ns = 200'000});
      const auto run = RunTraining(OnFake(c, &api), [&](Trainer& trainer) {
        in_place += trainer.activation_bytes_back() > 0 &&
                    trainer.training_plan()->addresses.has_value();
        return absl::OkStatus();
      });
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_FALSE(run->refusal.has_value()) << run->refusal_message;
      EXPECT_EQ(run->state_sha256, host->state_sha256);
      EXPECT_EQ(run->losses, host->losses);
      EXPECT_EQ(run->misplaced, 0);
    }
  }
  EXPECT_GT(in_place, 0);
}

// A profiler sees each operator and update under its own name, and as often as
// it runs.
TEST(FakeGpu, ShowsEachOperatorToAProfiler) {
  cuda::FakeApi api;
  TrainingCase c = OnFake(Small(FindPolicy("cuda"), DType::kFloat32), &api);
  std::map<std::string, int64_t> expected;
  const auto run = RunTraining(c, [&](Trainer& trainer) -> absl::Status {
    for (const OpRecord& op : trainer.training_trace()->ops) {
      // Copies are the profiler's own to show.
      if (absl::StartsWith(op.name, "input/") ||
          absl::EndsWith(op.name, "/input")) {
        continue;
      }
      const std::string name =
          op.kind == OpKind::kCompute
              ? op.name
              : absl::StrCat(op.kind == OpKind::kUpdate ? "update" : "reduce",
                             " of chunk ", op.chunks[0].chunk.value);
      expected[name] += c.steps;
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(run.ok()) << run.status();
  std::map<std::string, int64_t> seen = api.ranges();
  for (const auto& [name, count] : expected) {
    EXPECT_EQ(seen[name], count) << name;
  }
  for (const auto& [name, count] : seen) {
    EXPECT_EQ(expected[name], count) << name;
  }
}

// The same on several ranks, each with a GPU.
TEST(FakeGpu, RanksTrainToTheBitsOfOne) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16}) {
    for (const PlacementPolicy& policy : Policies()) {
      TrainingCase c = Small(&policy, dtype);
      c.options.shape.micro_batches = 6;
      const auto host = RunTraining(c);
      ASSERT_TRUE(host.ok()) << host.status();
      ExpectSkips(dtype, *host);
      const int world_size = dtype == DType::kFloat32 ? 2 : 3;
      SCOPED_TRACE(::testing::Message() << world_size << " ranks");
      c.world_size = world_size;
      const auto ranks = RunTraining(c);
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      cuda::FakeApi api({.clock_drift = 1e-4, .jitter_ns = 100'000});
      nccl::FakeNccl nccl;
      const std::string id = *nccl.NewId();
      TrainingCase on_gpus = OnFake(c, &api);
      on_gpus.gpu_parts = [&](int rank) {
        return nccl::NcclParts::Join(&nccl, &api,
                                     {.rank = rank,
                                      .world_size = world_size,
                                      .id = id,
                                      .add = kernels::AddToSum},
                                     [] { return absl::OkStatus(); });
      };
      const auto run = RunTraining(on_gpus);
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_FALSE(run->refusal.has_value()) << run->refusal_message;
      EXPECT_EQ(run->state_sha256, host->state_sha256);
      EXPECT_EQ(run->losses, host->losses);
      EXPECT_EQ(run->state, host->state);
      // The bytes that ranks gather under `auto` depend on measured durations.
      if (policy.name != "auto") {
        EXPECT_EQ(run->reports.back().network_bytes,
                  ranks->reports.back().network_bytes);
      }
      // Under `cpu` only the gathers go over NCCL; all else goes over the
      // host's network.
      EXPECT_GT(nccl.moved_bytes(), 0);
    }
  }
}

// A driver whose queues are short makes launching threads stand still, and
// others that call it meanwhile; one that takes 256 launches or more never
// does.
TEST(FakeGpu, TheLengthOfTheDriversQueuesDoesNotShow) {
  for (const PlacementPolicy& policy : Policies()) {
    const auto host = RunTraining(Small(&policy, DType::kFloat32));
    ASSERT_TRUE(host.ok()) << host.status();
    for (const int64_t limit : {64, 256, 1024}) {
      SCOPED_TRACE(::testing::Message() << "queues of " << limit);
      cuda::FakeApi api({.jitter_ns = 500'000, .queue_limit = limit});
      const auto run =
          RunTraining(OnFake(Small(&policy, DType::kFloat32), &api));
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_FALSE(run->refusal.has_value()) << run->refusal_message;
      EXPECT_EQ(run->state_sha256, host->state_sha256);
      EXPECT_EQ(run->losses, host->losses);
      if (limit > 64) {
        EXPECT_FALSE(api.stood_still());
      }
    }
  }
}

TEST(FakeGpu, CopiesThroughRingsWhereNothingCanBeLocked) {
  const auto host = RunTraining(Small(FindPolicy("cpu"), DType::kBFloat16));
  ASSERT_TRUE(host.ok()) << host.status();
  // Room for the rings and the faults, none for the pool.
  cuda::FakeApi api(
      {.pinned_bytes = (8 << 20) + (648 << 10), .jitter_ns = 200'000});
  std::string note;
  const auto run =
      RunTraining(OnFake(Small(FindPolicy("cpu"), DType::kBFloat16), &api),
                  [&](Trainer& trainer) {
                    note = trainer.pinned_note();
                    return absl::OkStatus();
                  });
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->state_sha256, host->state_sha256);
  EXPECT_TRUE(absl::StrContains(note, "small pinned ring")) << note;
}

TEST(FakeGpu, SetsAsideTheWorkspaceThatTheGpusKernelsWant) {
  const auto host = RunTraining(Small(FindPolicy("cuda"), DType::kFloat32));
  ASSERT_TRUE(host.ok()) << host.status();
  cuda::FakeApi api;
  const auto run =
      RunTraining(OnFake(Small(FindPolicy("cuda"), DType::kFloat32), &api));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->admission.device.workspace,
            host->admission.device.workspace + kFakeGpuWorkspaceBytes);
}

TEST(FakeGpu, FailureOfAnOperatorNamesItAndEndsTheRun) {
  cuda::FakeApi api;
  TrainingCase c = OnFake(Small(FindPolicy("auto"), DType::kFloat32), &api);
  c.data = [&](int64_t index) {
    MicroBatch batch =
        RandomMicroBatch(1, index, c.options.shape, c.model.vocab_size);
    if (index == 4) batch.tokens[3] = 64;  // not in the vocabulary
    return batch;
  };
  const auto run = RunTraining(c);
  ASSERT_FALSE(run.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(run.status())) << run.status();
  EXPECT_TRUE(absl::StrContains(run.status().message(), "wte")) << run.status();
}

}  // namespace
}  // namespace castor::testing
