// Promise P4's second half: a run that is resumed from a checkpoint, under
// whatever policy, budget and chunk size and on whatever number of ranks, gives
// the bits of one that was never stopped. That files are atomic and checked is
// run/checkpoint's to show; how several ranks fail together is
// shared_checkpoint_test's.
#include "run/checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/philox.h"
#include "base/test_files.h"
#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/layout/margins.h"
#include "models/families.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/checkpoint/checkpoint_size.h"
#include "run/checkpoint/checkpoint_writer.h"
#include "run/checkpoint/run_identity.h"
#include "run/optim/adam/adam.h"
#include "tests/case_generator.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr uint64_t kSeed = 20240301;
constexpr int kModels = 48;  // three times each pair of 1 to 4 ranks

Config ConfigOf(const TrainingCase& c) {
  Config config;
  config.model = ModelConfigOf(c);
  config.data.train = {{.path = "text.txt"}};
  config.steps = c.steps;
  config.train_micro_batch_size_per_gpu = c.options.shape.batch;
  config.gradient_accumulation_steps =
      c.options.shape.micro_batches / c.world_size;
  config.train_batch_size =
      c.options.shape.batch * c.options.shape.micro_batches;
  config.data.sequence_length = c.options.shape.length;
  config.bf16.enabled = c.dtype == DType::kBFloat16;
  config.fp16.enabled = c.dtype == DType::kFloat16;
  config.device.threads = c.options.threads;
  return config;
}

// Expects that this rank's file is as large as was known before.
void ExpectSizesAsForetold(const std::string& path, Trainer& trainer) {
  const ChunkLayout& layout = trainer.store().layout();
  const std::string own =
      layout.world_size == 1
          ? path
          : path + "/" + PartName(layout.rank, layout.world_size);
  const auto file = CheckpointFile::Open(own);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(
      (*file)->size_bytes(),
      CheckpointFileBytes(trainer.parameters(), layout, layout.rank,
                          static_cast<int64_t>((*file)->metadata().size())));
  int64_t all = (*file)->size_bytes();
  if (layout.world_size > 1) {
    all = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      all += static_cast<int64_t>(entry.file_size());
    }
  }
  EXPECT_LE(all, CheckpointBytes(trainer.parameters(), layout));
}

absl::Status Save(const std::string& path, const TrainingCase& c,
                  Trainer& trainer) {
  absl::Status drained = trainer.Drain();
  if (!drained.ok()) return drained;
  const int64_t samples =
      trainer.step() * c.options.shape.batch * c.options.shape.micro_batches;
  const absl::Status saved =
      SaveCheckpoint(path, trainer.parameters(), trainer.store(),
                     {.state = {.trainer = trainer.state(),
                                .samples = samples,
                                .seed = static_cast<int64_t>(c.seed >> 1)},
                      .config = ConfigOf(c)},
                     trainer.communicator());
  if (saved.ok()) ExpectSizesAsForetold(path, trainer);
  return saved;
}

absl::StatusOr<CheckpointMetadata> MetadataOf(const std::string& path) {
  auto reader = CheckpointReader::Open(path);
  if (!reader.ok()) return reader.status();
  return ReadMetadata(**reader, models::Reader());
}

// Returns the case, going on after the steps that the file holds.
TrainingCase ResumedFrom(const std::string& path, int64_t step,
                         TrainingCase c) {
  const auto metadata = MetadataOf(path);
  EXPECT_TRUE(metadata.ok()) << metadata.status();
  if (metadata.ok()) c.start = metadata->state.trainer;
  EXPECT_EQ(c.start.step, step);
  c.source = [path, states = c.options.optimizer.rule->states()](
                 const Parameters& parameters)
      -> absl::StatusOr<std::unique_ptr<ParameterSource>> {
    auto reader = CheckpointReader::Open(path);
    if (!reader.ok()) return reader.status();
    ChunkLayout layout;
    layout.states = states;
    for (const auto& parameter : parameters) {
      layout.parameters.push_back(
          {.name = parameter->name,
           .elements = parameter->elements(),
           .trainable = parameter->trainable,
           .margins = MarginsOf(parameter->shape.dims())});
    }
    return CheckpointSource::Create(*std::move(reader), parameters, layout);
  };
  return c;
}

// A placement of the model on so many ranks that is admitted.
TrainingCase AdmittedPlacement(TrainingCase model, int world_size,
                               Random& random) {
  model.world_size = world_size;
  for (int i = 0; i < 100; ++i) {
    auto c = RandomPlacement(model, random);
    EXPECT_TRUE(c.ok()) << c.status();
    TrainingCase admission_only = *c;
    admission_only.steps = 0;
    auto result = RunTraining(admission_only);
    EXPECT_TRUE(result.ok()) << result.status() << Describe(*c);
    if (result.ok() && !result->refusal.has_value()) return *c;
  }
  ADD_FAILURE() << "a hundred placements were refused: " << Describe(model);
  return model;
}

TEST(Checkpoint, ResumesToTheSameBitsUnderAnyPlacement) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  TemporaryDirectory directory;
  for (int i = 0; i < kModels; ++i) {
    const uint64_t seed = MixKey(kSeed, i);
    TrainingCase model = RandomModel(seed);
    Random random(seed, HashName("checkpoint", 10));
    model.steps = random.Uniform(2, 6);
    const int from_ranks = 1 + i % 4;
    const int to_ranks = 1 + i / 4 % 4;
    const int64_t shared = std::lcm(from_ranks, to_ranks);
    int64_t& micro_batches = model.options.shape.micro_batches;
    if (micro_batches % shared != 0) micro_batches = shared;
    const int64_t saved_after = random.Uniform(1, model.steps - 1);
    auto undisturbed = RunTraining(model);
    ASSERT_TRUE(undisturbed.ok()) << undisturbed.status() << Describe(model);

    // Saving does not disturb the run that saves.
    const std::string path = directory.path() + "/" + std::to_string(i);
    TrainingCase saving = AdmittedPlacement(model, from_ranks, random);
    saving.after_step = [&](Trainer& trainer, int64_t step) {
      return step == saved_after ? Save(path, saving, trainer)
                                 : absl::OkStatus();
    };
    auto saved = RunTraining(saving);
    ASSERT_TRUE(saved.ok()) << saved.status() << Describe(saving);
    EXPECT_EQ(saved->state_sha256, undisturbed->state_sha256)
        << "seed " << seed << "\n"
        << Describe(saving);

    const TrainingCase resumed = ResumedFrom(
        path, saved_after, AdmittedPlacement(model, to_ranks, random));
    auto result = RunTraining(resumed);
    ASSERT_TRUE(result.ok()) << result.status() << Describe(resumed);
    EXPECT_EQ(result->state_sha256, undisturbed->state_sha256)
        << "seed " << seed << ", saved after step " << saved_after << "\n"
        << Describe(saving) << Describe(resumed);
    EXPECT_EQ(result->state, undisturbed->state) << Describe(resumed);
    EXPECT_EQ(result->losses,
              std::vector<double>(undisturbed->losses.begin() + saved_after,
                                  undisturbed->losses.end()));
  }
}

// A run whose host updates every chunk ahead of the norm, which clips some of
// the steps. The bus is slow, so that updates are outstanding when Step
// returns.
class UpdatesAhead : public ::testing::Test {
 protected:
  UpdatesAhead() {
    model_.model.n_layer = 2;
    model_.model.n_head = 2;
    model_.model.n_embd = 16;
    model_.model.n_positions = 8;
    model_.model.vocab_size = 32;
    model_.options.shape = {.batch = 1, .length = 8, .micro_batches = 2};
    model_.options.eval_batch = 1;
    model_.options.learning_rate = [](int64_t) { return 1e-2; };
    model_.options.optimizer.gradient_clipping = 1e9;
    model_.steps = 8;
    const auto unclipped = RunTraining(ReferenceOf(model_));
    EXPECT_TRUE(unclipped.ok()) << unclipped.status();
    model_.options.optimizer.gradient_clipping = unclipped->gradient_norm;
    ahead_ = model_;
    ahead_.options.memory = {.policy = FindPolicy("cpu"), .chunk_bytes = 4096};
    ahead_.options.bus_bytes_per_s = 5e7;
    ahead_.options.planning.speculation = {
        .first_wait = 0, .longest_wait = 0, .least_gain = -1};
  }

  // Trains on from `start`, to the bits of `undisturbed`.
  void ExpectResumes(const std::string& path, int64_t step) {
    const auto undisturbed = RunTraining(ReferenceOf(model_));
    const auto resumed = RunTraining(ResumedFrom(path, step, ahead_));
    ASSERT_TRUE(undisturbed.ok() && resumed.ok()) << resumed.status();
    EXPECT_EQ(resumed->state_sha256, undisturbed->state_sha256);
    EXPECT_EQ(resumed->gradient_norm, undisturbed->gradient_norm);
  }

  TrainingCase model_, ahead_;
  TemporaryDirectory directory_;
};

TEST_F(UpdatesAhead, AreNotSeenByEvaluationNorBySaving) {
  struct Seen {
    std::vector<double> evaluations;
    std::vector<std::string> parameters;
  };
  const auto run = [&](TrainingCase c, Seen* seen,
                       SpeculationCounts* counts) -> absl::Status {
    c.after_step = [&](Trainer& trainer, int64_t step) -> absl::Status {
      const auto loss = trainer.Evaluate(
          1, [&] { return RandomMicroBatch(9, step, c.options.shape, 32); });
      if (!loss.ok()) return loss.status();
      seen->evaluations.push_back(*loss);
      const auto sha =
          ParametersSha256(trainer.parameters(), trainer.store(), nullptr);
      if (!sha.ok()) return sha.status();
      seen->parameters.push_back(*sha);
      const std::string path = directory_.path() + "/" + std::to_string(step);
      return Save(path, c, trainer);
    };
    return RunTraining(c,
                       [&](Trainer& trainer) {
                         *counts = trainer.speculation();
                         return absl::OkStatus();
                       })
        .status();
  };
  Seen expected, seen;
  SpeculationCounts none, counts;
  ASSERT_TRUE(run(ReferenceOf(model_), &expected, &none).ok());
  EXPECT_EQ(none, SpeculationCounts());
  const absl::Status status = run(ahead_, &seen, &counts);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_GT(counts.committed, 0);
  EXPECT_GT(counts.repeated, 0);
  EXPECT_EQ(seen.evaluations, expected.evaluations);
  EXPECT_EQ(seen.parameters, expected.parameters);
  for (const int64_t step : {1, 4, 7}) {
    ExpectResumes(directory_.path() + "/" + std::to_string(step), step);
  }
}

std::atomic<int> asked_to_stop = 0;

// The signal comes while a step is queued, the one before under way.
TEST_F(UpdatesAhead, ASignalEndsTheRunAfterItsStepAndItResumes) {
  const std::string path = directory_.path() + "/stopped";
  TrainingCase c = ahead_;
  asked_to_stop = 0;
  const auto handler = [](int signal) { asked_to_stop = signal; };
  const auto before = std::signal(SIGTERM, handler);
  c.options.stop = &asked_to_stop;
  c.data = [&](int64_t index) {
    if (index == 9) std::raise(SIGTERM);  // of step 5
    return RandomMicroBatch(c.seed, index, c.options.shape, 32);
  };
  c.after_step = [&](Trainer& trainer, int64_t step) -> absl::Status {
    EXPECT_EQ(trainer.stop_reason(), step == 5 ? SIGTERM : 0);
    if (!trainer.stopping()) return absl::OkStatus();
    EXPECT_TRUE(Save(path, c, trainer).ok());
    return absl::CancelledError("stopped");
  };
  EXPECT_TRUE(absl::IsCancelled(RunTraining(c).status()));
  std::signal(SIGTERM, before);
  ExpectResumes(path, 5);
}

TEST_F(UpdatesAhead, AKilledRunResumesFromWhatItSaved) {
  const std::string path = directory_.path() + "/killed";
  TrainingCase c = ahead_;
  c.after_step = [&](Trainer& trainer, int64_t step) -> absl::Status {
    if (step == 6) std::raise(SIGKILL);  // the step is under way
    return step == 3 ? Save(path, c, trainer) : absl::OkStatus();
  };
  const pid_t child = fork();
  if (child == 0) {
    RunTraining(c).IgnoreError();
    _exit(1);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL) << ended;
  ExpectResumes(path, 3);
}

TEST(Checkpoint, TellsWhereTheRunWas) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run";
  TrainingCase c = RandomModel(kSeed);
  c.steps = 2;
  auto result =
      RunTraining(c, [&](Trainer& trainer) { return Save(path, c, trainer); });
  ASSERT_TRUE(result.ok()) << result.status();
  const auto metadata = MetadataOf(path);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->state.trainer, result->state);
  EXPECT_EQ(metadata->state.trainer.step, 2);
  EXPECT_EQ(metadata->state.samples,
            2 * c.options.shape.batch * c.options.shape.micro_batches);
  EXPECT_EQ(metadata->state.seed, static_cast<int64_t>(c.seed >> 1));
  EXPECT_EQ(metadata->config.model, ModelConfigOf(c));
}

// The file's checksums are right, its state of the run is not.
TEST(Checkpoint, WhoseStateMakesNoSenseIsRefused) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run";
  const TrainingCase c = RandomModel(kSeed);
  CheckpointMetadata good = {
      .state = {.trainer = {.step = 7}, .samples = 14, .seed = 1},
      .config = ConfigOf(c)};
  const auto read = [&](const CheckpointMetadata& metadata) {
    const auto writer = CheckpointWriter::Create(path);
    EXPECT_TRUE(writer.ok()) << writer.status();
    const absl::Status written = (*writer)->Commit(FormatMetadata(metadata));
    EXPECT_TRUE(written.ok()) << written;
    return MetadataOf(path);
  };
  const LossScaleState scale = {
      .scale = 8, .good_steps = 7, .hysteresis_left = 2};
  good.state.trainer.skipped_steps = 3;
  good.state.trainer.loss_scale = scale;
  const auto back = read(good);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->state.trainer, good.state.trainer);

  using Change = void (*)(RunState&);
  constexpr Change kChanges[] = {
      [](RunState& s) { s.trainer.step = -1; },
      [](RunState& s) { s.samples = -1; },
      [](RunState& s) { s.trainer.skipped_steps = -1; },
      [](RunState& s) { s.trainer.skipped_steps = 8; },
      [](RunState& s) { s.trainer.loss_scale->scale = 0; },
      [](RunState& s) { s.trainer.loss_scale->scale = -8; },
      [](RunState& s) { s.trainer.loss_scale->scale = std::nan(""); },
      [](RunState& s) { s.trainer.loss_scale->good_steps = -1; },
      [](RunState& s) { s.trainer.loss_scale->good_steps = 8; },
      [](RunState& s) { s.trainer.loss_scale->hysteresis_left = -1; },
  };
  for (const Change& change : kChanges) {
    CheckpointMetadata bad = good;
    change(bad.state);
    EXPECT_EQ(read(bad).status().code(), absl::StatusCode::kDataLoss)
        << FormatMetadata(bad);
  }
}

TEST(Checkpoint, OfAnotherModelIsRefusedByTheNamesThatDiffer) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run";
  TrainingCase c = RandomModel(kSeed, models::FindFamily("gpt2"));
  c.model.tie_word_embeddings = true;
  c.frozen.clear();
  c.steps = 1;
  auto result =
      RunTraining(c, [&](Trainer& trainer) { return Save(path, c, trainer); });
  ASSERT_TRUE(result.ok()) << result.status();

  TrainingCase more_layers = ResumedFrom(path, 1, c);
  ++more_layers.model.n_layer;
  auto refused = RunTraining(more_layers);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(
      refused.status().message(),
      "transformer.h." + std::to_string(c.model.n_layer) + "."))
      << refused.status();

  TrainingCase wider = ResumedFrom(path, 1, c);
  ++wider.model.vocab_size;
  refused = RunTraining(wider);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "wte.weight"))
      << refused.status();
}

// A checkpoint that an older Castor wrote is resumed with all that is in it.
// Its hashes were taken from the file's own bytes.
TEST(Checkpoint, OfAnOlderCastorIsRead) {
  const std::string path = "tests/fixtures/checkpoint/run.castor";
  const auto metadata = MetadataOf(path);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  const auto now = ParseConfig(
      models::Reader(),
      R"({"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8,
                    "n_positions": 8, "vocab_size": 128},
          "data": {"train": "text.txt", "sequence_length": 8},
          "steps": 3, "seed": 7, "train_batch_size": 4,
          "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5,
          "optimizer": {"type": "AdamW", "no_decay": ["*.bias"],
                        "params": {"lr": 1e-2, "betas": [0.9, 0.95],
                                   "weight_decay": 0.1}}})",
      "");
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_EQ(metadata->config.optimizer, now->optimizer);
  const std::string& data = metadata->run.data;
  EXPECT_EQ(
      Differences(SettingsOf(metadata->config, data), SettingsOf(*now, data)),
      std::vector<std::string>());

  TrainingCase c;
  c.model = dynamic_cast<const models::Gpt2Config&>(*now->model.architecture);
  c.options.shape = {.batch = 2, .length = 8, .micro_batches = 2};
  c.steps = 3;  // nothing more
  const auto result = RunTraining(ResumedFrom(path, 3, c));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->parameters_sha256,
            "d857eacae70f9616cc0813aafd5c4a0850de635a9c02d9ae7e576574a935adc4");
  EXPECT_EQ(result->state_sha256,
            "30b52ab830f0a7a00b0c87d9e8e1099da3ac6c3c639ff7adc7b4ffc285c066d6");
}

// A frozen parameter has no optimizer states to save; thawed, it starts with
// none.
TEST(Checkpoint, ThawsParametersThatWereFrozen) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run";
  TrainingCase c = RandomModel(kSeed, models::FindFamily("gpt2"));
  SetType(DType::kFloat32, &c);
  c.model.tie_word_embeddings = false;
  c.frozen = {"*wpe*"};
  c.options.learning_rate = [](int64_t) { return 1e-2; };
  c.steps = 1;
  auto result =
      RunTraining(c, [&](Trainer& trainer) { return Save(path, c, trainer); });
  ASSERT_TRUE(result.ok()) << result.status();

  TrainingCase thawed = ResumedFrom(path, 1, c);
  thawed.frozen.clear();
  auto largest_m = [&]() {
    float largest = -1;
    auto again = RunTraining(thawed, [&](Trainer& trainer) -> absl::Status {
      for (const auto& parameter : trainer.parameters()) {
        if (parameter->name != "transformer.wpe.weight") continue;
        std::vector<float> m(parameter->elements());
        absl::Status status = trainer.store().ReadState(
            parameter->chunk, Adam::kM, parameter->offset,
            parameter->offset + parameter->elements(), m.data());
        if (!status.ok()) return status;
        for (float value : m) largest = std::max(largest, std::abs(value));
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(again.ok()) << again.status();
    return largest;
  };
  thawed.steps = 1;  // nothing more
  EXPECT_EQ(largest_m(), 0);
  thawed.steps = 2;
  EXPECT_GT(largest_m(), 0);
}

}  // namespace
}  // namespace castor::testing
