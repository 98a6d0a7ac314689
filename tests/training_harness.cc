#include "tests/training_harness.h"

#include <utility>

#include "base/philox.h"
#include "base/status_macros.h"
#include "models/gpt2.h"
#include "runtime/config/name_pattern.h"
#include "runtime/io/sha256.h"
#include "runtime/nn/zero_init.h"
#include "tests/byte_accountant.h"

namespace castor::testing {

MicroBatch RandomMicroBatch(uint64_t seed, int64_t index,
                            const StepShape& shape, int64_t vocabulary) {
  MicroBatch batch;
  const int64_t size = shape.batch * shape.length;
  for (int64_t i = 0; i < size; ++i) {
    const auto words =
        Philox4x32({seed, static_cast<uint64_t>(index)},
                   static_cast<uint64_t>(i));
    batch.tokens.push_back(static_cast<int32_t>(words[0] % vocabulary));
    batch.targets.push_back(static_cast<int32_t>(words[1] % vocabulary));
  }
  return batch;
}

absl::StatusOr<std::string> StateSha256(Trainer& trainer) {
  Sha256 sum;
  CASTOR_RETURN_IF_ERROR(VisitModelState(
      trainer.parameters(), trainer.store(), /*with_states=*/true,
      [&](const Parameter& parameter, OptimizerPart, int64_t,
          absl::Span<const float> values) {
        sum.Update(parameter.name);
        sum.Update(values.data(),
                   static_cast<int64_t>(values.size() * sizeof(float)));
        return absl::OkStatus();
      }));
  return sum.HexDigest();
}

absl::StatusOr<TrainingResult> RunTraining(
    const TrainingCase& c,
    const std::function<absl::Status(Trainer&)>& inspect) {
  Engine engine(c.dtype, c.seed);
  ZeroInit scope(engine);
  models::Gpt2 model(c.model);
  for (const auto& parameter : engine.parameters()) {
    parameter->trainable = !MatchesAnyPattern(c.model.frozen, parameter->name);
  }
  TrainingResult result;
  TrainerOptions options = c.options;
  if (c.evaluate_after > 0 && options.eval_batch == 0) {
    options.eval_batch = options.shape.batch;
  }
  std::optional<RefusedRun> refused;
  auto created = Trainer::Create(&engine, &model, options, &refused);
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
    CASTOR_RETURN_IF_ERROR(trainer.Initialize(*source, c.first_step));
  } else {
    InitialValues source(c.seed);
    CASTOR_RETURN_IF_ERROR(trainer.Initialize(source));
  }
  int64_t next_index = c.first_step * options.shape.micro_batches;
  StepShape shape = options.shape;
  auto next = [&]() -> absl::StatusOr<MicroBatch> {
    const int64_t index = next_index++;
    return c.data
               ? c.data(index)
               : RandomMicroBatch(c.seed, index, shape, c.model.vocab_size);
  };
  for (int64_t step = c.first_step + 1; step <= c.steps; ++step) {
    const bool other = c.other_batch > 0 && step % 2 == 0;
    shape.batch = other ? c.other_batch : options.shape.batch;
    shape.length = other ? c.other_length : options.shape.length;
    CASTOR_ASSIGN_OR_RETURN(const double loss,
                            trainer.Step(shape.batch, shape.length, next));
    result.losses.push_back(loss);
    if (step == c.evaluate_after) {
      CASTOR_ASSIGN_OR_RETURN(
          result.evaluation_loss,
          trainer.Evaluate(1, [&]() -> absl::StatusOr<MicroBatch> {
            StepShape evaluated = options.shape;
            evaluated.batch = options.eval_batch;
            return RandomMicroBatch(c.seed + 1, 0, evaluated,
                                    c.model.vocab_size);
          }));
    }
    if (c.after_step) CASTOR_RETURN_IF_ERROR(c.after_step(trainer, step));
  }
  CASTOR_RETURN_IF_ERROR(trainer.Drain());
  if (c.watched) {
    trainer.SetObserver(nullptr);
    CASTOR_RETURN_IF_ERROR(accountant.status());
    result.operators_watched = accountant.operators();
  }
  CASTOR_RETURN_IF_ERROR(trainer.store().CheckConsistency());
  CASTOR_ASSIGN_OR_RETURN(
      result.parameters_sha256,
      ParametersSha256(engine.parameters(), trainer.store()));
  CASTOR_ASSIGN_OR_RETURN(result.state_sha256, StateSha256(trainer));
  result.gradient_norm = trainer.gradient_norm();
  result.reports = trainer.TakeReports();
  result.admission = trainer.admission();
  result.device_peak_bytes = trainer.arena_stats().peak_bytes;
  result.compactions = trainer.arena_stats().compactions;
  if (inspect) CASTOR_RETURN_IF_ERROR(inspect(trainer));
  return result;
}

}  // namespace castor::testing
