#include "tests/training_harness.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/name_pattern.h"
#include "base/philox.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "device/comm/thread_ranks.h"
#include "models/families.h"
#include "runtime/nn/zero_init.h"
#include "tests/byte_accountant.h"

namespace castor::testing {

MicroBatch RandomMicroBatch(uint64_t seed, int64_t index,
                            const StepShape& shape, int64_t vocabulary,
                            int64_t labels) {
  if (labels == 0) labels = vocabulary;
  MicroBatch batch;
  batch.other_targets.resize(shape.terms - 1);
  const int64_t size = shape.batch * shape.length;
  for (int64_t i = 0; i < size; ++i) {
    const auto words = Philox4x32({seed, static_cast<uint64_t>(index)},
                                  static_cast<uint64_t>(i));
    batch.tokens.push_back(static_cast<int32_t>(words[0] % vocabulary));
    batch.targets.push_back(static_cast<int32_t>(words[1] % labels));
    if (shape.segments) batch.segments.push_back(0);
    for (std::vector<int32_t>& others : batch.other_targets) {
      others.push_back(static_cast<int32_t>(words[3] % 2));
    }
    if (!shape.documents || i < static_cast<int64_t>(batch.documents.size())) {
      continue;
    }
    // A document begins here.
    const auto begin = static_cast<int32_t>(i % shape.length);
    const auto left = static_cast<uint32_t>(shape.length) - begin;
    const auto length = static_cast<int32_t>(words[2] % left + 1);
    batch.documents.insert(batch.documents.end(), length,
                           {begin, begin + length});
  }
  return batch;
}

void MaskLabels(uint64_t seed, int64_t index, bool keeps_one,
                MicroBatch* batch) {
  const RandomKey key = {MixKey(seed, HashName("mask", 4)),
                         static_cast<uint64_t>(index)};
  constexpr double kShares[] = {1, 0.7, 0.2, 0};  // that stays labelled
  const auto size = static_cast<uint32_t>(batch->targets.size());
  const auto words = Philox4x32(key, size);
  const double share = kShares[words[0] % 4];
  const uint32_t kept = words[1] % size;
  for (uint32_t i = 0; i < size; ++i) {
    const double at = static_cast<double>(Philox4x32(key, i)[0]) * 0x1p-32;
    if (at >= share && !(keeps_one && i == kept)) batch->targets[i] = -100;
    // Other places than those have a label of another term.
    for (std::vector<int32_t>& others : batch->other_targets) {
      if (at < 1 - share) others[i] = -100;
    }
  }
}

void FitTargets(const TrainingCase& c, int64_t length, MicroBatch* batch) {
  if (ModelConfigOf(c).architecture->task() != ModelTask::kSpan) return;
  const auto size = static_cast<int64_t>(batch->targets.size());
  const auto fit = [&](std::vector<int32_t>* targets) {
    for (int64_t begin = 0; begin < size;) {
      int64_t tokens = length;
      if (!batch->documents.empty()) {
        const DocumentRange range = batch->documents[begin];
        tokens = range.end - range.begin;
      }
      int32_t first = -100;
      for (int64_t i = begin; i < begin + tokens; ++i) {
        int32_t& target = (*targets)[i];
        if (first == -100 && target != -100) first = target % tokens;
        target = -100;
      }
      (*targets)[begin] = first;
      begin += tokens;
    }
  };
  fit(&batch->targets);
  for (std::vector<int32_t>& others : batch->other_targets) fit(&others);
}

namespace {

template <class Numbers>
bool Same(const Numbers& a, const Numbers& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) {
                      return x == y || (std::isnan(x) && std::isnan(y));
                    });
}

// Reads the prompt, then token after token, each the likeliest unless the case
// says which.
absl::Status Generate(const TrainingCase& c, Trainer& trainer,
                      TrainingResult* result) {
  std::vector<int32_t> next =
      RandomMicroBatch(c.seed, 0, c.options.shape, VocabularyOf(c)).tokens;
  for (int64_t pass = 0; pass < c.steps; ++pass) {
    if (c.data) next = c.data(pass).tokens;
    CASTOR_ASSIGN_OR_RETURN(std::vector<float> logits,
                            trainer.ReadOn(std::move(next)));
    const auto likeliest = std::max_element(logits.begin(), logits.end());
    next = {static_cast<int32_t>(likeliest - logits.begin())};
    result->logits.push_back(std::move(logits));
  }
  return absl::OkStatus();
}

}  // namespace

bool SameNumbers(const std::vector<double>& a, const std::vector<double>& b) {
  return Same(a, b);
}

bool SameLogits(const TrainingResult& a, const TrainingResult& b) {
  return std::equal(a.logits.begin(), a.logits.end(), b.logits.begin(),
                    b.logits.end(),
                    [](const std::vector<float>& x,
                       const std::vector<float>& y) { return Same(x, y); });
}

std::vector<std::string> Overflows(const TrainingResult& result) {
  std::vector<std::string> all;
  for (const StepReport& report : result.reports) {
    all.push_back(report.overflow);
  }
  return all;
}

ModelConfig ModelConfigOf(const TrainingCase& c) {
  ModelConfig config;
  config.architecture = c.architecture != nullptr
                            ? c.architecture
                            : std::make_shared<models::Gpt2Config>(c.model);
  config.type = std::string(config.architecture->family());
  config.frozen = c.frozen;
  return config;
}

int64_t LabelsOf(const TrainingCase& c) {
  return c.architecture != nullptr ? c.architecture->labels()
                                   : c.model.vocab_size;
}

int64_t TermsOf(const TrainingCase& c) {
  if (c.architecture == nullptr) return 1;
  return static_cast<int64_t>(c.architecture->loss_terms().size());
}

int64_t VocabularyOf(const TrainingCase& c) {
  return c.architecture != nullptr ? c.architecture->vocabulary()
                                   : c.model.vocab_size;
}

absl::StatusOr<models::Gpt2Config> ReadGpt2(const std::string& directory) {
  ModelConfig config;
  config.type = "gpt2";
  config.pretrained = directory;
  std::vector<std::string> notes;
  CASTOR_RETURN_IF_ERROR(models::LoadPretrained(&config, &notes));
  return dynamic_cast<const models::Gpt2Config&>(*config.architecture);
}

absl::StatusOr<TrainingResult> RunRank(
    const TrainingCase& c, const RankOptions& ranks,
    const std::function<absl::Status(Trainer&)>& inspect,
    std::vector<StatePiece>* pieces) {
  Engine engine(c.dtype, c.seed);
  ZeroInit scope(engine);
  const ModelConfig config = ModelConfigOf(c);
  const std::unique_ptr<Model> model =
      models::FamilyOf(config).Make(*config.architecture);
  const bool generates = c.options.shape.cache > 0;
  for (const auto& parameter : engine.parameters()) {
    parameter->trainable =
        !generates && !MatchesAnyPattern(c.frozen, parameter->name);
  }
  TrainingResult result;
  TrainerOptions options = c.options;
  options.ranks = ranks;
  options.threads += ranks.rank % 2;  // need not be alike
  if (c.evaluate_after > 0 && options.eval_batch == 0) {
    options.eval_batch = options.shape.batch;
  }
  // A length that alone tells other steps apart is known before the first step.
  if (c.other_batch == options.shape.batch) {
    options.other_lengths = {c.other_length};
  }
  std::optional<RefusedRun> refused;
  auto created = Trainer::Create(&engine, model.get(), options, &refused);
  if (refused.has_value()) {
    result.refusal = refused->refusal;
    result.refusal_message = std::string(created.status().message());
    return result;
  }
  CASTOR_RETURN_IF_ERROR(created.status());
  Trainer& trainer = **created;
  ByteAccountant accountant;
  if (c.watched) trainer.SetObserver(&accountant);
  if (c.source) {
    CASTOR_ASSIGN_OR_RETURN(const auto source, c.source(engine.parameters()));
    CASTOR_RETURN_IF_ERROR(trainer.Initialize(*source, c.start));
  } else {
    InitialValues source(c.seed);
    CASTOR_RETURN_IF_ERROR(trainer.Initialize(source));
  }
  int64_t next_index = c.start.step * options.shape.micro_batches + ranks.rank;
  StepShape shape = options.shape;
  auto next = [&]() -> absl::StatusOr<MicroBatch> {
    const int64_t index = next_index;
    next_index += ranks.world_size;
    if (c.data) return c.data(index);
    MicroBatch batch =
        RandomMicroBatch(c.seed, index, shape, VocabularyOf(c), LabelsOf(c));
    if (c.masked) {
      // Each step has a label, not always in the same micro batch.
      const int64_t in_step = c.options.shape.micro_batches;
      const int64_t of_step = index / in_step;
      MaskLabels(c.seed, index, index % in_step == of_step % in_step, &batch);
    }
    FitTargets(c, shape.length, &batch);
    return batch;
  };
  if (generates) CASTOR_RETURN_IF_ERROR(Generate(c, trainer, &result));
  for (int64_t step = c.start.step + 1; !generates && step <= c.steps; ++step) {
    const bool other = c.other_batch > 0 && step % 2 == 0;
    shape.batch = other ? c.other_batch : options.shape.batch;
    shape.length = other ? c.other_length : options.shape.length;
    CASTOR_ASSIGN_OR_RETURN(const double loss,
                            trainer.Step(shape.batch, shape.length, next));
    result.losses.push_back(loss);
    if (step == c.evaluate_after) {
      CASTOR_ASSIGN_OR_RETURN(
          const Trainer::LossSum sum,
          trainer.EvaluateSum(
              c.evaluate_batches,
              [&, index = int64_t{
                      ranks.rank}]() mutable -> absl::StatusOr<MicroBatch> {
                StepShape evaluated = options.shape;
                evaluated.batch = options.eval_batch;
                MicroBatch batch = RandomMicroBatch(
                    c.seed + 1, index, evaluated, VocabularyOf(c), LabelsOf(c));
                if (c.masked) {
                  MaskLabels(c.seed + 1, index,
                             /*keeps_one=*/index == 0, &batch);
                }
                FitTargets(c, evaluated.length, &batch);
                index += ranks.world_size;
                return batch;
              }));
      result.evaluation_loss = sum.loss();
      result.evaluation_correct = sum.correct;
    }
    if (c.awaits_plans && step % 2 == 0) trainer.AwaitPlanning();
    if (c.after_step) CASTOR_RETURN_IF_ERROR(c.after_step(trainer, step));
  }
  CASTOR_RETURN_IF_ERROR(trainer.Drain());
  if (c.watched) {
    trainer.SetObserver(nullptr);
    CASTOR_RETURN_IF_ERROR(accountant.status());
    result.operators_watched = accountant.operators();
  }
  CASTOR_RETURN_IF_ERROR(trainer.store().CheckConsistency());
  CASTOR_RETURN_IF_ERROR(VisitModelState(
      trainer.parameters(), trainer.store(), /*with_states=*/true,
      [&](const Parameter& parameter, StatePart part, int64_t begin,
          absl::Span<const float> values) {
        pieces->push_back(
            {parameter.name, part, begin, {values.begin(), values.end()}});
        return absl::OkStatus();
      }));
  result.gradient_norm = trainer.gradient_norm();
  result.state = trainer.state();
  result.reports = trainer.TakeReports();
  result.admission = trainer.admission();
  result.device_peak_bytes = trainer.arena_stats().peak_bytes;
  result.compactions = trainer.arena_stats().compactions;
  result.placed_as_planned = trainer.arena_stats().placed_as_planned;
  result.misplaced = trainer.arena_stats().misplaced;
  CASTOR_ASSIGN_OR_RETURN(
      result.parameters_sha256,
      ParametersSha256(trainer.parameters(), trainer.store(),
                       trainer.communicator()));
  if (inspect) CASTOR_RETURN_IF_ERROR(inspect(trainer));
  return result;
}

namespace {

// Sums the state up as one rank that has all of it would, and holds
// ParametersSha256 to that.
absl::Status HashState(std::vector<StatePiece> pieces, TrainingResult* result) {
  std::sort(pieces.begin(), pieces.end(),
            [](const StatePiece& a, const StatePiece& b) {
              return std::tie(a.parameter, a.part, a.begin) <
                     std::tie(b.parameter, b.part, b.begin);
            });
  Sha256 parameters, state;
  const StatePiece* before = nullptr;
  for (const StatePiece& piece : pieces) {
    const bool begins = before == nullptr ||
                        before->parameter != piece.parameter ||
                        before->part != piece.part;
    const int64_t at =
        begins ? 0
               : before->begin + static_cast<int64_t>(before->values.size());
    if (piece.begin != at) {
      return absl::InternalError(absl::StrCat(
          "the ranks' shards of ", piece.parameter, " leave a gap at ", at));
    }
    const int64_t bytes =
        static_cast<int64_t>(piece.values.size() * sizeof(float));
    if (begins) state.Update(piece.parameter);
    state.Update(piece.values.data(), bytes);
    if (piece.part == StatePart::kMaster) {
      parameters.Update(piece.values.data(), bytes);
    }
    before = &piece;
  }
  if (const std::string whole = parameters.HexDigest();
      result->parameters_sha256 != whole) {
    return absl::InternalError(
        absl::StrCat("ParametersSha256 is ", result->parameters_sha256,
                     ", that of the ranks' shards together ", whole));
  }
  result->state_sha256 = state.HexDigest();
  return absl::OkStatus();
}

absl::Status CheckAgreement(const TrainingResult& a, const TrainingResult& b) {
  if (a.refusal.has_value() != b.refusal.has_value() ||
      a.refusal_message != b.refusal_message ||
      !SameNumbers(a.losses, b.losses) || a.gradient_norm != b.gradient_norm ||
      !(a.state == b.state) || Overflows(a) != Overflows(b) ||
      a.evaluation_loss != b.evaluation_loss ||
      a.evaluation_correct != b.evaluation_correct ||
      a.parameters_sha256 != b.parameters_sha256) {
    return absl::InternalError("ranks have different results");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingResult> RunTraining(
    const TrainingCase& c,
    const std::function<absl::Status(Trainer&)>& inspect) {
  std::vector<StatePiece> pieces;
  if (c.world_size == 1) {
    CASTOR_ASSIGN_OR_RETURN(TrainingResult result,
                            RunRank(c, {}, inspect, &pieces));
    if (!result.refusal.has_value()) {
      CASTOR_RETURN_IF_ERROR(HashState(std::move(pieces), &result));
    }
    return result;
  }
  const auto group = ThreadGroup::Create(c.world_size);
  std::mutex mutex;
  std::vector<absl::StatusOr<TrainingResult>> results(
      c.world_size, absl::UnknownError("not run"));
  const auto run = [&](int rank) {
    const RankOptions ranks = {
        .rank = rank,
        .world_size = c.world_size,
        .join = [&group, &c, rank](Device* device)
            -> absl::StatusOr<std::unique_ptr<Communicator>> {
          std::unique_ptr<DeviceParts> gpu_parts;
          if (c.gpu_parts) {
            CASTOR_ASSIGN_OR_RETURN(gpu_parts, c.gpu_parts(rank));
          }
          return MakeThreadRank(group, rank, device,
                                {.time_limit_ns = 120'000'000'000},
                                std::move(gpu_parts));
        }};
    std::vector<StatePiece> own;
    const auto inspect_one = [&](Trainer& trainer) {
      const std::lock_guard<std::mutex> lock(mutex);
      return inspect ? inspect(trainer) : absl::OkStatus();
    };
    results[rank] = RunRank(c, ranks, inspect_one, &own);
    // A rank that failed is gone for the others, as when its process ends; one
    // that is over already is let go.
    if (!results[rank].ok()) group->Kill(rank);
    const std::lock_guard<std::mutex> lock(mutex);
    pieces.insert(pieces.end(), own.begin(), own.end());
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < c.world_size; ++rank) {
    threads.emplace_back(run, rank);
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) CASTOR_RETURN_IF_ERROR(result.status());
  TrainingResult all = *results[0];
  for (const auto& result : results) {
    CASTOR_RETURN_IF_ERROR(CheckAgreement(all, *result));
    all.device_peak_bytes =
        std::max(all.device_peak_bytes, result->device_peak_bytes);
    all.compactions = std::max(all.compactions, result->compactions);
    all.misplaced += result->misplaced;
  }
  if (all.refusal.has_value()) return all;
  CASTOR_RETURN_IF_ERROR(HashState(std::move(pieces), &all));
  return all;
}

}  // namespace castor::testing
