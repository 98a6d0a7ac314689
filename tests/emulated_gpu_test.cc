// Whole training runs on the CUDA device and the GPU's own kernels, over a GPU
// made of threads (device/cuda/fake_api.h) on which the kernels' programs run
// thread after thread (kernels/cuda/block.h): the bits are the same under every
// policy, at the least budget and with other chunks (promise P1), and the
// losses are the host's but for rounding. (Random cases: promises_test.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "base/with_type.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/sizes.h"
#include "kernels/testing/guarded_buffer.h"
#include "models/families.h"
#include "tests/random.h"
#include "tests/random_architecture.h"
#include "tests/test_machine.h"
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
  c.model.attn_pdrop = 0.1;
  c.dtype = dtype;
  c.steps = 3;
  c.options.shape = {.batch = 2, .length = 15, .micro_batches = 2};
  c.options.optimizer.gradient_clipping = 0.5;
  // In fp16 some steps, but not all, overflow and are skipped.
  c.options.loss_scale = {.initial = 0x1p19, .hysteresis = 1};
  c.options.memory.policy = policy;
  c.options.memory.chunk_bytes = 16384;
  c.options.scribble_freed_memory = true;
  return c;
}

TEST(EmulatedGpu, GivesOneSetOfBitsWhateverThePlacement) {
  for (DType dtype : kAllTypes) {
    const auto host = RunTraining(Small(FindPolicy("cuda"), dtype));
    ASSERT_TRUE(host.ok()) << host.status();
    const auto first =
        RunTraining(OnTestMachine(Small(FindPolicy("cuda"), dtype)));
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_FALSE(first->refusal.has_value()) << first->refusal_message;
    ASSERT_EQ(first->losses.size(), host->losses.size());
    EXPECT_EQ(first->state.skipped_steps, host->state.skipped_steps);
    if (dtype == DType::kFloat16) {
      EXPECT_GT(host->state.skipped_steps, 0);
      EXPECT_LT(host->state.skipped_steps, host->state.step);
    }
    for (size_t i = 0; i < host->losses.size(); ++i) {
      EXPECT_NEAR(first->losses[i], host->losses[i],
                  dtype == DType::kFloat32   ? 1e-5
                  : dtype == DType::kFloat16 ? 2e-3
                                             : 2e-2)
          << i;
    }
    for (const PlacementPolicy* policy :
         {FindPolicy("cpu"), FindPolicy("auto")}) {
      TrainingCase c = OnTestMachine(Small(policy, dtype));
      c.options.memory.chunk_bytes = 24576;
      auto run = RunTraining(c);
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_FALSE(run->refusal.has_value()) << run->refusal_message;
      EXPECT_EQ(run->state_sha256, first->state_sha256);
      EXPECT_EQ(run->losses, first->losses);
      c.options.memory.device_bytes =
          run->admission.smallest_device_budget_bytes;
      run = RunTraining(c);
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_FALSE(run->refusal.has_value()) << run->refusal_message;
      EXPECT_EQ(run->state_sha256, first->state_sha256);
      EXPECT_EQ(run->losses, first->losses);
    }
  }
}

// A plan made where there is no nvcc has the sizes alone: all kernels' sizes
// are those of the table that launches them, and a run that was planned with
// them needs the same bytes.
TEST(EmulatedGpu, TakesTheBytesThatAnyBuildPlans) {
  const kernels::KernelSizes& planned = kernels::cuda::kSizes;
  const kernels::KernelSizes& launched = *kernels::cuda::Kernels();
  const auto expect_equal = [&]<class Args>(
                                const kernels::KernelSize<Args>& size) {
    EXPECT_EQ(size.workspace_bytes, launched.SizeOf<Args>().workspace_bytes);
  };
  std::apply([&](const auto&... sizes) { (expect_equal(sizes), ...); },
             planned.sizes);
  for (DType dtype : kAllTypes) {
    TrainingCase c = OnTestMachine(Small(FindPolicy("auto"), dtype));
    c.steps = 2;
    auto run = RunTraining(c);
    ASSERT_TRUE(run.ok()) << run.status();
    const AdmissionReport of_table = run->admission;
    c.options.gpu_sizes = &planned;
    c.options.memory.device_bytes = of_table.smallest_device_budget_bytes;
    run = RunTraining(c);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_FALSE(run->refusal.has_value()) << run->refusal_message;
    EXPECT_EQ(run->admission.smallest_device_budget_bytes,
              of_table.smallest_device_budget_bytes);
    EXPECT_EQ(run->admission.unmanaged_device_bytes,
              of_table.unmanaged_device_bytes);
    // The host's kernels take other bytes, so that the two are told apart.
    const auto host = RunTraining(Small(FindPolicy("auto"), dtype));
    ASSERT_TRUE(host.ok()) << host.status();
    EXPECT_NE(host->admission.unmanaged_device_bytes,
              of_table.unmanaged_device_bytes);
  }
}

// Padded and packed sequences that see whole documents, segments, and a head
// with a bias: for words, for a sequence's label, for labels of tokens and for
// spans; and two of them at once.
TEST(EmulatedGpu, TrainsEncodersAsTheHostDoes) {
  uint64_t seed = 0;
  const std::string kBert = "bert";
  for (const char* family : {"bert", "roberta"}) {
    for (const char* head :
         {"masked_lm", "sequence_classification", "token_classification",
          "question_answering", "pretraining"}) {
      // Only BERT learns next sentences.
      if (family != kBert && head == std::string("pretraining")) continue;
      Random random(++seed);
      TrainingCase c = Small(FindPolicy("auto"), DType::kFloat32);
      c.architecture = WithKey(
          WithKey(RandomArchitecture(*models::FindFamily(family), random),
                  "num_labels", 2),
          "head", head);
      c.options.shape = {
          .batch = 2,
          .length = std::min<int64_t>(15, c.architecture->positions()),
          .micro_batches = 2,
          .documents = true,
          .terms = TermsOf(c)};
      const auto host = RunTraining(c);
      ASSERT_TRUE(host.ok()) << host.status();
      c = OnTestMachine(std::move(c));
      const auto gpu = RunTraining(c);
      ASSERT_TRUE(gpu.ok()) << gpu.status();
      ASSERT_EQ(gpu->losses.size(), host->losses.size());
      for (size_t i = 0; i < host->losses.size(); ++i) {
        EXPECT_NEAR(gpu->losses[i], host->losses[i], 2e-5) << family << head;
      }
      c.options.memory.device_bytes =
          gpu->admission.smallest_device_budget_bytes;
      const auto least = RunTraining(c);
      ASSERT_TRUE(least.ok()) << least.status();
      ASSERT_FALSE(least->refusal.has_value()) << least->refusal_message;
      EXPECT_EQ(least->state_sha256, gpu->state_sha256);
    }
  }
}

// Through a key-value cache that has room for several ranges of keys
// (kernels/attention/ranges_program.h), from within the first to the second.
TEST(EmulatedGpu, GeneratesFromManyKeysAsTheHostDoes) {
  for (DType dtype : kAllTypes) {
    TrainingCase c = Small(FindPolicy("auto"), dtype);
    c.model.n_layer = 1;
    c.model.n_positions = 280;
    c.model.initializer_range = 0.2;
    c.options.shape = {
        .batch = 1, .length = 254, .training = false, .cache = 280};
    c.steps = 5;
    // The same tokens on both, whatever they make of them.
    c.data = [&](int64_t pass) {
      return RandomMicroBatch(3, pass, {.length = pass == 0 ? 254 : 1},
                              c.model.vocab_size);
    };
    c.watched = true;
    const auto host = RunTraining(c);
    ASSERT_TRUE(host.ok()) << host.status();
    c = OnTestMachine(std::move(c));
    const auto gpu = RunTraining(c);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    ASSERT_EQ(gpu->logits.size(), host->logits.size());
    for (size_t pass = 0; pass < host->logits.size(); ++pass) {
      for (size_t i = 0; i < host->logits[pass].size(); ++i) {
        // Logits are about 1; some tens of roundings lie on the way.
        EXPECT_NEAR(gpu->logits[pass][i], host->logits[pass][i],
                    32 * kernels::UnitRoundoff(dtype))
            << DTypeName(dtype) << " pass " << pass << " token " << i;
      }
    }
    c.options.memory.device_bytes = gpu->admission.smallest_device_budget_bytes;
    const auto least = RunTraining(c);
    ASSERT_TRUE(least.ok()) << least.status();
    ASSERT_FALSE(least->refusal.has_value()) << least->refusal_message;
    EXPECT_TRUE(SameLogits(*least, *gpu));
  }
}

TEST(EmulatedGpu, ATokenOutsideTheVocabularyEndsTheRunInTheHostsWords) {
  TrainingCase c = OnTestMachine(Small(FindPolicy("auto"), DType::kFloat32));
  c.data = [&](int64_t index) {
    MicroBatch batch =
        RandomMicroBatch(1, index, c.options.shape, c.model.vocab_size);
    if (index == 2) batch.tokens[3] = 64;
    return batch;
  };
  const auto run = RunTraining(c);
  ASSERT_FALSE(run.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(run.status())) << run.status();
  EXPECT_TRUE(absl::StrContains(run.status().message(),
                                "index 64 at position 3 is outside"))
      << run.status();
}

}  // namespace
}  // namespace castor::testing
