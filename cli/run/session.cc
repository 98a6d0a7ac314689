#include "cli/run/session.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/name_pattern.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/machine/gpu.h"
#include "cli/machine/host_card.h"
#include "cli/run/kept_files.h"
#include "cli/run/micro_batches.h"
#include "models/families.h"
#include "nlohmann/json.hpp"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/run_identity.h"
#include "run/config/parameter_groups.h"
#include "run/optim/lr_schedule.h"
#include "runtime/nn/zero_init.h"

namespace castor::cli {
namespace {

// Returns the identity of the sizes in the config.json of a model's directory.
InputIdentity SizesOf(const ModelConfig& model) {
  Sha256 sum;
  sum.Update(model.architecture->ToJson().dump());
  return {
      absl::StrCat("model.", model.directory_key()),
      absl::StrCat(model.type, ", ", model.architecture->Describe(),
                   ", checksum of all sizes ", sum.HexDigest().substr(0, 16))};
}

// A checkpoint's parameters may have the sizes of another architecture.
absl::Status CheckArchitecture(const std::string& path, const ModelConfig& was,
                               const ModelConfig& is) {
  if (was.type != is.type) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is of another model: its model.type is ", was.type,
                     ", the config's is ", is.type));
  }
  const OrderedJson then = was.architecture->Identity();
  const OrderedJson now = is.architecture->Identity();
  for (const auto& [key, value] : then.items()) {
    if (now[key] == value) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is of another model: its model.", key, " is ",
                     value.dump(), ", the config's is ", now[key].dump()));
  }
  return absl::OkStatus();
}

// A client does not say what its model is, but its parameters are there.
absl::Status CheckModel(const std::string& path,
                        const CheckpointMetadata& metadata,
                        const Config& config) {
  if (metadata.client.has_value()) return absl::OkStatus();
  return CheckArchitecture(path, metadata.config.model, config.model);
}

// Returns the settings in which a client's run differs. That it is another run
// is said in any case.
std::vector<std::string> DifferencesFromClient(
    const CheckpointMetadata& metadata, const Config& config) {
  std::vector<std::string> differences = {
      "model, data: of a program with a model of its own then, the config's "
      "now"};
  for (std::string& each : Differences(CommonSettingsOf(metadata.config),
                                       CommonSettingsOf(config))) {
    differences.push_back(std::move(each));
  }
  return differences;
}

// Makes the checks that were possible before checkpoints had their run's
// identity.
absl::Status CheckWithoutIdentity(const std::string& path,
                                  const CheckpointMetadata& metadata,
                                  const Config& config) {
  const RunState& state = metadata.state;
  if (state.seed != config.seed) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is of a run with seed ", state.seed, ", the config has ",
        config.seed, ": dropout and data order would change; set seed to ",
        state.seed, ", or say --resume-changed"));
  }
  if (state.samples != state.trainer.step * config.train_batch_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has used ", state.samples, " samples in ", state.trainer.step,
        " steps, which train_batch_size ", config.train_batch_size,
        " does not give: resume with train_batch_size ",
        metadata.config.train_batch_size, ", or say --resume-changed"));
  }
  return absl::OkStatus();
}

std::vector<std::string> NamesOf(const Parameters& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter->name);
  return names;
}

std::vector<std::string> TrainedNames(const Parameters& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) {
    if (parameter->trainable) names.push_back(parameter->name);
  }
  return names;
}

absl::Status CheckTrainsSomething(const ModelConfig& model,
                                  const Parameters& parameters) {
  const bool some =
      std::any_of(parameters.begin(), parameters.end(),
                  [](const auto& parameter) { return parameter->trainable; });
  if (some) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.frozen: \"", absl::StrJoin(model.frozen, "\", \""),
                   "\" match all parameters of the model, which leaves nothing "
                   "to train"));
}

// Null on the host device. A plan for a budget that is given is the same on
// every GPU, and needs none.
absl::StatusOr<std::optional<Gpu>> GpuOf(const Config& config,
                                         const Session::Options& options) {
  if (config.device.type != DeviceType::kCuda) return std::nullopt;
  if (options.machine.has_value() && options.machine->gpu.has_value()) {
    return std::nullopt;  // PlanFor has it
  }
  const bool budget = config.memory.device_memory < kUnlimitedBytes;
  if (options.admit_only && budget) return GpuElsewhere();
  absl::StatusOr<Gpu> gpu = FindGpu(options.local_rank);
  if (gpu.ok()) return *std::move(gpu);
  return Annotate(options.admit_only
                      ? "device.type: \"cuda\" (to plan for a GPU that is not "
                        "here, give --gpu or memory.device_memory)"
                      : "device.type: \"cuda\" ({\"type\": \"host\"} needs "
                        "none)",
                  gpu.status());
}

double AccuracyOf(int64_t correct, int64_t labels) {
  if (correct < 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(correct) / static_cast<double>(labels);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeModel(Engine& engine,
                                                 const ModelConfig& config) {
  const ZeroInit scope(engine);
  std::unique_ptr<Model> model =
      models::FamilyOf(config).Make(*config.architecture);
  CASTOR_RETURN_IF_ERROR(CheckPatterns("model.frozen", config.frozen,
                                       NamesOf(engine.parameters())));
  for (const auto& parameter : engine.parameters()) {
    parameter->trainable = !MatchesAnyPattern(config.frozen, parameter->name);
  }
  return model;
}

TrainerOptions MakeTrainerOptions(const Config& config, bool evaluates) {
  TrainerOptions options;
  options.shape = ShapeOf(config);
  options.eval_batch = evaluates ? options.shape.batch : 0;
  const OptimizerConfig& optimizer = config.optimizer;
  options.optimizer = {.rule = optimizer.rule,
                       .gradient_clipping = config.gradient_clipping,
                       .micro_batches = config.gradient_accumulation_steps,
                       .skips_not_finite = config.undoes_nonfinite(),
                       .weight_decay = {}};
  options.max_skipped_steps = config.nonfinite_steps_to_end();
  options.weight_decay = [optimizer](const Parameter& parameter) {
    return NumbersOf(optimizer, parameter.name).weight_decay;
  };
  options.lr_factor = [optimizer](const Parameter& parameter) {
    return NumbersOf(optimizer, parameter.name).lr_factor;
  };
  options.learning_rate = [scheduler = config.scheduler,
                           lr = optimizer.lr](int64_t step) {
    return LearningRate(scheduler, lr, step);
  };
  options.loss_scale = config.fp16.LossScale();
  const MemoryConfig& memory = config.memory;
  options.memory = {.policy = memory.placement_policy,
                    .device_bytes = memory.device_memory,
                    .follows_device = memory.follows_device,
                    .device_floor_bytes = memory.device_memory_floor,
                    .host_bytes = memory.host_memory,
                    .pinned_bytes = memory.pinned_memory,
                    .chunk_bytes = memory.chunk_size,
                    .gpu_margin_mem_ratio = memory.gpu_margin_mem_ratio,
                    .warmup_steps = memory.warmup_steps,
                    .prefetch = memory.prefetch};
  options.threads = ThreadsOf(config.device);
  options.bus_bytes_per_s = config.device.bus_gbps * 1e9;
  options.activation_checkpointing = memory.activation_checkpointing;
  return options;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(
    Config config, Options options, std::optional<RefusedRun>* refused) {
  if (config.world_size() != options.ranks.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the configuration was read for ", config.world_size(),
                     " ranks, not for ", options.ranks.world_size));
  }
  CASTOR_ASSIGN_OR_RETURN(const std::optional<Gpu> gpu, GpuOf(config, options));
  if (config.model.architecture == nullptr) {
    std::vector<std::string> notes;
    CASTOR_RETURN_IF_ERROR(
        Annotate(absl::StrCat("model.", config.model.directory_key()),
                 models::LoadPretrained(&config.model, &notes)));
    for (const std::string& note : notes) {
      if (options.say) options.say(absl::StrCat("note: ", note));
    }
  }
  if (options.generation.has_value() &&
      config.model.architecture->task() != ModelTask::kNextToken) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model: one of type \"", config.model.type,
        "\" says labels of whole sequences, and generates no text"));
  }
  if (!config.model.directory().empty()) {
    CASTOR_RETURN_IF_ERROR(FitToModel(&config));
  }
  std::unique_ptr<Session> session(new Session());
  session->config_ = config;
  session->engine_ = std::make_unique<Engine>(
      config.dtype(), static_cast<uint64_t>(config.seed));
  CASTOR_ASSIGN_OR_RETURN(session->model_,
                          MakeModel(*session->engine_, config.model));
  CASTOR_RETURN_IF_ERROR(
      CheckPatterns("optimizer.no_decay", config.optimizer.no_decay,
                    NamesOf(session->engine_->parameters())));
  CASTOR_RETURN_IF_ERROR(CheckParameterGroups(
      config.optimizer, TrainedNames(session->engine_->parameters())));
  if (!options.evaluate_only && !options.generation.has_value()) {
    CASTOR_RETURN_IF_ERROR(
        CheckTrainsSomething(config.model, session->engine_->parameters()));
  }
  if (!config.model.pretrained.empty() && !options.from_checkpoint) {
    CASTOR_RETURN_IF_ERROR(session->OpenPretrained());
    session->TellOfNewHead(options);
  }
  if (!options.evaluate_only && !options.generation.has_value() &&
      options.ranks.rank == 0) {
    CASTOR_RETURN_IF_ERROR(session->KeepFiles(options));
  }
  if (options.check) {
    CASTOR_RETURN_IF_ERROR(options.check(session->engine_->parameters()));
  }
  bool evaluates = options.evaluate_only;
  if (!options.generation.has_value()) {
    CASTOR_RETURN_IF_ERROR(session->OpenDataSets(options, &evaluates));
  }
  session->ranks_ = options.ranks;
  if (!config.model.directory().empty()) {
    session->inputs_.push_back(SizesOf(config.model));
  }
  TrainerOptions trainer = MakeTrainerOptions(session->config_, evaluates);
  trainer.eval_length = evaluates ? session->eval_length_ : 0;
  if (options.evaluate_only || options.generation.has_value()) {
    for (const auto& parameter : session->engine_->parameters()) {
      parameter->trainable = false;
    }
    trainer.shape.training = false;
    trainer.shape.micro_batches = 1;
    trainer.shape.length = session->eval_length_;
  }
  if (const LengthBatches* const batches = session->data_.batches;
      batches != nullptr) {
    trainer.other_lengths = batches->lengths();
    trainer.shape.length = trainer.other_lengths.back();
    trainer.other_lengths.pop_back();
  }
  if (options.generation.has_value()) {
    trainer.shape.batch = 1;
    trainer.shape.length = options.generation->prompt;
    trainer.shape.cache = options.generation->capacity;
    trainer.shape.documents = false;
  }
  trainer.ranks = std::move(options.ranks);
  trainer.memory.machine_share_bytes = options.machine_share_bytes;
  trainer.admit_only = options.admit_only;
  trainer.admit_depth = options.admit_depth;
  trainer.stop = options.stop;
  trainer.device_memory_request = options.device_memory_request;
  if (gpu.has_value()) {
    session->device_note_ = Describe(*gpu);
    RunOn(*gpu, session->config_.dtype(), &trainer);
  }
  if (session->config_.device.memory > 0) {
    CASTOR_RETURN_IF_ERROR(
        RunOnCard(session->config_, options.local_rank, &trainer));
  }
  if (options.machine.has_value()) {
    CASTOR_RETURN_IF_ERROR(
        PlanFor(*options.machine, session->config_, &trainer));
  }
  CASTOR_ASSIGN_OR_RETURN(
      session->trainer_,
      Trainer::Create(session->engine_.get(), session->model_.get(),
                      std::move(trainer), refused));
  return session;
}

absl::Status Session::KeepFiles(const Options& options) {
  auto files = FilesOfRun(config_);
  CASTOR_RETURN_IF_ERROR(
      Annotate("files that go with the model", files.status()));
  kept_files_ = *std::move(files);
  if (kept_bytes() <= kMaxKeptFilesBytes) return absl::OkStatus();
  kept_files_.clear();
  if (options.say) {
    options.say(absl::StrCat(
        "note: the tokenizer's files are more than ",
        FormatBytes(kMaxKeptFilesBytes),
        ", which checkpoints do not keep: leave them where they are until the "
        "model is exported"));
  }
  return absl::OkStatus();
}

int64_t Session::kept_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, text] : kept_files_) {
    bytes += static_cast<int64_t>(name.size() + text.size());
  }
  return bytes;
}

absl::Status Session::OpenPretrained() {
  HfNames names = models::FamilyOf(config_.model).hf_names();
  names.other_head = config_.model.GetOverrides().contains("head");
  auto source =
      PretrainedSource::Open(config_.model.pretrained, engine_->parameters(),
                             names, static_cast<uint64_t>(config_.seed));
  CASTOR_RETURN_IF_ERROR(Annotate("model.pretrained", source.status()));
  pretrained_ = *std::move(source);
  return absl::OkStatus();
}

void Session::TellOfNewHead(const Options& options) const {
  const std::vector<std::string>& names = pretrained_->new_parameters();
  if (names.empty() || !options.say) return;
  options.say(
      absl::StrCat("note: ", config_.model.pretrained, " has no ",
                   absl::StrJoin(names, ", "), " for model.head \"",
                   config_.model.architecture->ToJson().value("head", ""),
                   "\": they begin anew"));
}

absl::Status Session::Initialize() {
  if (config_.model.pretrained.empty()) {
    InitialValues values(static_cast<uint64_t>(config_.seed));
    return trainer_->Initialize(values);
  }
  if (pretrained_ == nullptr) CASTOR_RETURN_IF_ERROR(OpenPretrained());
  const std::unique_ptr<PretrainedSource> source = std::move(pretrained_);
  if (ranks_.world_size > 1) {
    const auto checksum = source->SampleChecksum();
    CASTOR_RETURN_IF_ERROR(Annotate("model.pretrained", checksum.status()));
    inputs_.push_back(
        {"model.pretrained",
         absl::StrCat("weights with checksum ", absl::Hex(*checksum))});
  }
  return Annotate("model.pretrained", trainer_->Initialize(*source));
}

absl::Status Session::InitializeFrom(const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(path));
  CASTOR_ASSIGN_OR_RETURN(const CheckpointMetadata metadata,
                          ReadMetadata(*reader, models::Reader()));
  CASTOR_RETURN_IF_ERROR(CheckModel(path, metadata, config_));
  CASTOR_ASSIGN_OR_RETURN(
      const auto source,
      CheckpointSource::Create(std::move(reader), engine_->parameters(),
                               trainer_->layout()));
  return trainer_->Initialize(*source);
}

absl::Status Session::Restore(const std::string& path, bool changed,
                              std::vector<std::string>* differences) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(path));
  CASTOR_ASSIGN_OR_RETURN(const CheckpointMetadata metadata,
                          ReadMetadata(*reader, models::Reader()));
  CASTOR_RETURN_IF_ERROR(CheckModel(path, metadata, config_));
  const RunState& state = metadata.state;
  const bool has_identity = !metadata.run.id.empty();
  const Settings now = SettingsOf(config_, TrainingData());
  if (metadata.client.has_value()) {
    *differences = DifferencesFromClient(metadata, config_);
  } else if (has_identity && metadata.digest == DigestOf(now)) {
    differences->clear();
  } else {
    *differences =
        Differences(SettingsOf(metadata.config, has_identity ? metadata.run.data
                                                             : TrainingData()),
                    now);
  }
  if (has_identity && !changed && !differences->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is of a run with other settings (",
                     absl::StrJoin(*differences, "; "),
                     "): set them to what they were, or say --resume-changed"));
  }
  CASTOR_RETURN_IF_ERROR(CheckSameStates(path, *metadata.config.optimizer.rule,
                                         *config_.optimizer.rule));
  const int64_t step = state.trainer.step;
  if (!has_identity && !changed) {
    CASTOR_RETURN_IF_ERROR(CheckWithoutIdentity(path, metadata, config_));
  }
  if (ranks_.world_size > 1) {
    CASTOR_ASSIGN_OR_RETURN(const uint64_t identity, reader->Identity());
    inputs_.push_back({"--resume", absl::StrCat("step ", step, ", checksum ",
                                                absl::Hex(identity))});
  }
  CASTOR_ASSIGN_OR_RETURN(
      const auto source,
      CheckpointSource::Create(std::move(reader), engine_->parameters(),
                               trainer_->layout()));
  CASTOR_RETURN_IF_ERROR(trainer_->Initialize(*source, state.trainer));
  samples_ = state.samples;
  // With another batch size it may be within a batch.
  if (data_.batches != nullptr) samples_ -= samples_ % config_.train_batch_size;
  if (data_.stream != nullptr) {
    const absl::Status goes_on =
        data_.stream->GoOn(state.stream, samples_, changed);
    CASTOR_RETURN_IF_ERROR(Annotate(path, goes_on));
  }
  // Values of another metric compare with none of this one's.
  if (metadata.config.checkpoint.best_metric ==
      config_.checkpoint.best_metric) {
    best_ = state.best;
  }
  best_.is_due = state.best.is_due;
  if (config_.model.origin == nullptr) {
    config_.model.origin = metadata.config.model.origin;
  }
  if (kept_files_.empty() && ranks_.rank == 0) kept_files_ = metadata.files;
  if (differences->empty()) restored_run_ = metadata.run.id;
  return absl::OkStatus();
}

absl::Status Session::Save(const std::string& path, const std::string& run_id) {
  CASTOR_RETURN_IF_ERROR(trainer_->Drain());
  CheckpointMetadata metadata = {.state = {.trainer = trainer_->state(),
                                           .samples = samples_,
                                           .seed = config_.seed,
                                           .best = best_,
                                           .stream = {}},
                                 .config = config_,
                                 .run = {run_id, TrainingData()},
                                 .files = kept_files_};
  if (data_.stream != nullptr) {
    metadata.state.stream = data_.stream->BookmarkAt(samples_);
  }
  // The checkpoint stands for itself: its values are not the directory's.
  metadata.config.model = config_.model.WithoutDirectory();
  return SaveCheckpoint(path, engine_->parameters(), trainer_->store(),
                        metadata, trainer_->communicator());
}

absl::StatusOr<double> Session::Step() {
  CASTOR_RETURN_IF_ERROR(AwaitData());
  StepShape shape = ShapeOf(config_);
  if (data_.batches != nullptr) {
    shape.length = data_.batches->BatchLength(samples_);
  }
  CASTOR_ASSIGN_OR_RETURN(
      const double loss,
      trainer_->Step(shape.batch, shape.length,
                     ShareOf(*data_.train, *config_.model.architecture,
                             samples_, shape, ranks_)));
  if (data_.batches != nullptr) {
    StepSize& size = step_sizes_[trainer_->step()];
    size.length = shape.length;
    for (int64_t i = 0; i < config_.train_batch_size; ++i) {
      size.tokens += data_.batches->LengthAt(samples_ + i);
    }
  }
  samples_ += config_.train_batch_size;
  return loss;
}

std::vector<StepReport> Session::TakeReports() {
  std::vector<StepReport> reports = trainer_->TakeReports();
  for (StepReport& report : reports) {
    const auto size = step_sizes_.find(report.step);
    if (size == step_sizes_.end()) continue;
    report.length = size->second.length;
    report.tokens = size->second.tokens;
    step_sizes_.erase(size);
  }
  return reports;
}

double Session::Evaluation::perplexity() const {
  return std::exp(terms.empty() || halves ? loss : terms[0].loss);
}

double Session::Evaluation::accuracy() const {
  return AccuracyOf(num_correct, num_labels);
}

Session::Evaluation Session::EvaluationOf(const Trainer::LossSum& sum,
                                          int64_t samples) const {
  Evaluation all = {.loss = sum.has_labels() ? sum.loss() : 0,
                    .num_labels = sum.labels,
                    .num_samples = samples,
                    .num_correct = sum.correct};
  if (sum.others.empty()) return all;
  std::vector<double> means, accuracies;
  for (size_t k = 0; k <= sum.others.size(); ++k) {
    const Trainer::LossSum& term = k == 0 ? sum : sum.others[k - 1];
    means.push_back(
        term.labels > 0 ? term.sum / static_cast<double>(term.labels) : 0);
    accuracies.push_back(AccuracyOf(term.correct, term.labels));
  }
  all.terms = NameTerms(config_.model, means);
  all.halves = config_.model.architecture->task() == ModelTask::kSpan;
  for (size_t k = 0; k < accuracies.size(); ++k) {
    all.terms[k].accuracy = accuracies[k];
  }
  return all;
}

bool Session::EvaluatesAfter(int64_t step) const {
  if (data_.validation == nullptr) return false;
  if (config_.eval_strategy == EvalStrategy::kSteps) {
    return step % config_.eval_interval == 0;
  }
  // The last epoch may end before its time, as Hugging Face's Trainer has it.
  return step % epoch_.steps == 0 || step == config_.steps;
}

StepShape Session::EvaluationShape() const {
  StepShape shape = ShapeOf(config_);
  shape.length = eval_length_;
  return shape;
}

absl::StatusOr<Session::Evaluation> Session::Evaluate() {
  const DataSet& data = *data_.validation;
  const StepShape shape = EvaluationShape();
  const int64_t samples = data.num_samples();
  const int64_t batches =
      std::min(config_.eval_batches, CeilDiv(samples, shape.batch));
  CASTOR_ASSIGN_OR_RETURN(
      const Trainer::LossSum sum,
      trainer_->EvaluateSum(batches, EachOnce(data, *config_.model.architecture,
                                              samples, shape, ranks_)));
  return EvaluationOf(sum, std::min(samples, batches * shape.batch));
}

absl::StatusOr<Session::Evaluation> Session::EvaluateAll(
    int64_t most_samples,
    absl::FunctionRef<void(const Evaluation&, int64_t)> progress) {
  // Progress is told between groups of batches.
  constexpr int64_t kBatchesAtOnce = 16;
  const DataSet& data =
      data_.validation != nullptr ? *data_.validation : *data_.train;
  const int64_t samples = most_samples == 0
                              ? data.num_samples()
                              : std::min(most_samples, data.num_samples());
  const StepShape shape = EvaluationShape();
  const Trainer::NextMicroBatch next =
      EachOnce(data, *config_.model.architecture, samples, shape, ranks_);
  Evaluation all = {};
  Trainer::LossSum total;
  while (all.num_samples < samples) {
    const int64_t batches = std::min(
        kBatchesAtOnce, CeilDiv(samples - all.num_samples, shape.batch));
    CASTOR_RETURN_IF_ERROR(trainer_->AddEvaluation(batches, next, &total));
    all = EvaluationOf(
        total, std::min(samples, all.num_samples + batches * shape.batch));
    progress(all, samples);
  }
  if (!total.has_labels()) {
    return absl::InvalidArgumentError(
        absl::StrCat(evaluated_key(), ": none of the first ", samples,
                     " samples has a labelled token"));
  }
  return all;
}

}  // namespace castor::cli
