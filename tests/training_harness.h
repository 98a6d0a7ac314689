// Whole small training runs, and generations, in one call, for tests.
#ifndef CASTOR_TESTS_TRAINING_HARNESS_H_
#define CASTOR_TESTS_TRAINING_HARNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/comm/device_parts.h"
#include "models/gpt2/gpt2.h"
#include "runtime/train/trainer.h"

namespace castor::testing {

struct TrainingCase {
  // A GPT-2 of these sizes, unless there is an `architecture` of any family.
  models::Gpt2Config model;
  std::shared_ptr<const Architecture> architecture;
  // Patterns of names of parameters that are not trained.
  std::vector<std::string> frozen;
  DType dtype = DType::kFloat32;
  uint64_t seed = 1;
  // With a key-value cache (options.shape.cache) the model trains nothing: it
  // generates, and a step is a pass.
  TrainerOptions options;
  int64_t steps = 3;
  // A resumed run's: `source` has the outcome of the steps that are over.
  TrainerState start = {};
  // Every second step has this shape instead, [batch, length] a micro batch; 0:
  // all have that of the options. No larger than that, so that both fit.
  int64_t other_batch = 0;
  int64_t other_length = 0;
  // If true, a ByteAccountant watches the run, and a check of it that fails is
  // an error of the run.
  bool watched = false;
  // Evaluate after this step (0: never), batches of options.eval_batch samples,
  // or as many as training has if that is 0.
  int64_t evaluate_after = 0;
  int64_t evaluate_batches = 1;
  // Ranks, each a thread with a device of its own; with more than one,
  // `source`, `data` and `after_step` are called by all of them.
  int world_size = 1;
  // Makes the object that moves a rank's parts where its device is a GPU; null
  // where it is not.
  std::function<absl::StatusOr<std::unique_ptr<DeviceParts>>(int rank)>
      gpu_parts;
  // Values instead of initial ones; may be null.
  std::function<absl::StatusOr<std::unique_ptr<ParameterSource>>(
      const Parameters&)>
      source;
  // If true, random tokens' labels are masked (MaskLabels), in training and
  // evaluation.
  bool masked = false;
  // Micro batch `index` of the run, of the options' shape; random tokens if
  // null. A pass takes its tokens alone; if null, the passes after the first
  // take the likeliest token.
  std::function<MicroBatch(int64_t index)> data;
  // Called between steps, and after the last one; may be null.
  std::function<absl::Status(Trainer&, int64_t step)> after_step;
  // Waits after every second step for what is planned beside the steps, so that
  // short runs take such plans, too.
  bool awaits_plans = true;
};

// The model as a configuration names it.
ModelConfig ModelConfigOf(const TrainingCase& c);

// Returns the number of tokens that the model knows, which is also the number
// of values that a target may have.
int64_t VocabularyOf(const TrainingCase& c);
int64_t LabelsOf(const TrainingCase& c);
// The terms of its loss, for the options' shape.
int64_t TermsOf(const TrainingCase& c);

// The sizes of the GPT-2 in a Hugging Face directory.
absl::StatusOr<models::Gpt2Config> ReadGpt2(const std::string& directory);

struct TrainingResult {
  std::optional<Refusal> refusal;  // then nothing below but its message
  std::string refusal_message;
  std::string parameters_sha256;
  std::string state_sha256;  // parameters and optimizer states
  std::vector<double> losses;
  std::vector<std::vector<float>> logits;  // after each pass of a generation
  double gradient_norm = 0;                // Trainer::gradient_norm, at the end
  TrainerState state;
  double evaluation_loss = 0;
  int64_t evaluation_correct = 0;
  std::vector<StepReport> reports;
  AdmissionReport admission;
  int64_t device_peak_bytes = 0;
  int64_t compactions = 0;
  int64_t placed_as_planned = 0;  // blocks
  int64_t misplaced = 0;          // blocks
  int64_t operators_watched = 0;
};

// Compares bit by bit, except that all NaNs are equal.
bool SameNumbers(const std::vector<double>& a, const std::vector<double>& b);
bool SameLogits(const TrainingResult& a, const TrainingResult& b);
// Returns each step's StepReport::overflow.
std::vector<std::string> Overflows(const TrainingResult& result);

// Values of one part of one parameter, for VisitModelState's order.
struct StatePiece {
  std::string parameter;
  StatePart part;
  int64_t begin;
  std::vector<float> values;
};

// Random tokens below `vocabulary`, targets below `labels` (0: `vocabulary`),
// targets below 2 of other terms, and documents and segments 0 where the shape
// has some, a function of (seed, index).
MicroBatch RandomMicroBatch(uint64_t seed, int64_t index,
                            const StepShape& shape, int64_t vocabulary,
                            int64_t labels = 0);

// Replaces the batch's targets by ones that the case's model takes. A model
// that predicts spans takes positions: of each document's first token, in each
// term, the first target that the document has, and of its other tokens none.
// Rows have `length` tokens.
void FitTargets(const TrainingCase& c, int64_t length, MicroBatch* batch);

// Makes tokens unlabelled, a function of (seed, index): none of them, some, or
// all; with `keeps_one` all but one. Terms after the first have labels at other
// places.
void MaskLabels(uint64_t seed, int64_t index, bool keeps_one,
                MicroBatch* batch);

// Trains from first to last step. A refusal is a result; any other failure is
// an error. `inspect` (may be null) sees the trainer, drained, at the end; of
// several ranks one at a time. Results on which several ranks agree must be
// equal; the rest is summed up: the state of all, the greatest peak, the
// reports of rank 0.
absl::StatusOr<TrainingResult> RunTraining(
    const TrainingCase& c,
    const std::function<absl::Status(Trainer&)>& inspect = nullptr);

// Runs one rank of it. `join` as in RankOptions. `pieces` gets its part of the
// state.
absl::StatusOr<TrainingResult> RunRank(
    const TrainingCase& c, const RankOptions& ranks,
    const std::function<absl::Status(Trainer&)>& inspect,
    std::vector<StatePiece>* pieces);

}  // namespace castor::testing

#endif  // CASTOR_TESTS_TRAINING_HARNESS_H_
