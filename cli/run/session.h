// A training session put together from a configuration: engine, model, data,
// trainer.
#ifndef CASTOR_CLI_RUN_SESSION_H_
#define CASTOR_CLI_RUN_SESSION_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/figures/loss_terms.h"
#include "cli/machine/planned_machine.h"
#include "cli/run/input_identity.h"
#include "run/checkpoint/best_state.h"
#include "run/config/config.h"
#include "run/config/run_length.h"
#include "runtime/autograd/engine.h"
#include "runtime/data/data_splits.h"
#include "runtime/nn/model.h"
#include "runtime/train/trainer.h"
#include "runtime/weights/copied_files.h"
#include "runtime/weights/pretrained.h"

namespace castor::cli {

// Makes the model of a config in `engine`'s ZeroInit scope, without bytes, with
// its frozen parameters marked. InvalidArgument: a pattern that matches none.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(Engine& engine,
                                                 const ModelConfig& config);

class Session {
 public:
  // The options of a session beside its configuration, by default as one rank.
  struct Options {
    RankOptions ranks;
    int local_rank = 0;  // among those of this machine: which GPU is its own
    // See MemoryOptions::machine_share_bytes.
    int64_t machine_share_bytes = 0;
    // See TrainerOptions. Data are not tokenised then, only looked for.
    bool admit_only = false;
    // See TrainerOptions.
    AdmitDepth admit_depth = AdmitDepth::kPlan;
    // With admit_only: the machine that the plan is for, on which the
    // configuration was put (PutOn).
    std::optional<PlannedMachine> machine = {};
    // With admit_only: no data are looked for; each sample has as many tokens
    // as data.sequence_length says.
    bool without_data = false;
    // Takes lines for the user while data are tokenised; may be null.
    std::function<void(absl::string_view line)> say = {};
    // Nothing is trained: there are no gradients and no optimizer states, and
    // EvaluateAll goes over the validation data or, without any, the training
    // data. One rank.
    bool evaluate_only = false;
    // For a session that generates: the tokens of the first pass, and how many
    // positions there will be in all. No data are opened. One rank.
    struct Generation {
      int64_t prompt = 0;
      int64_t capacity = 0;
    };
    std::optional<Generation> generation = {};
    // Values come from a checkpoint (Restore, InitializeFrom), so that those of
    // model.pretrained need not be there.
    bool from_checkpoint = false;
    // See TrainerOptions::stop.
    const std::atomic<int>* stop = nullptr;
    // See TrainerOptions::device_memory_request.
    const std::atomic<int64_t>* device_memory_request = nullptr;
    // Called when the model's parameters are known, before data are read, which
    // may take long. May refuse the run for further reasons. May be null.
    std::function<absl::Status(const Parameters& parameters)> check = {};
  };

  // Reads, checks and admits; no parameter has a value yet. The sizes of a
  // model's directory are read unless `config` has them already, and the names,
  // shapes and types of its weights are checked before data are read. On a
  // refusal the status is ResourceExhausted and `refused` (may be null) says
  // why.
  static absl::StatusOr<std::unique_ptr<Session>> Create(
      Config config, Options options, std::optional<RefusedRun>* refused);

  // The configuration, with the sizes of a pretrained model filled in.
  const Config& config() const { return config_; }
  Trainer& trainer() { return *trainer_; }
  // Describes the GPU and the room on it; empty on the host.
  const std::string& device_note() const { return device_note_; }

  // How many tokens a step of all ranks trains on, padding left out: the mean
  // over the data. Where no data were opened, as if none were padded.
  double tokens_per_step() const { return tokens_per_step_; }

  // The identities of the data read so far that ranks must have in common. (A
  // single rank does not look at everything.)
  const std::vector<InputIdentity>& inputs() const { return inputs_; }

  // Gives the parameters initial or pretrained values, for a run from step 0.
  absl::Status Initialize();
  // Takes the values of a checkpoint, without its step and its optimizer's
  // states, for an evaluation. InvalidArgument: of another model.
  absl::Status InitializeFrom(const std::string& path);
  // Takes values and step of a checkpoint. With `changed`, its run may have had
  // other settings that determine bits (run_identity.h); *differences then
  // lists them. InvalidArgument: of another model, or without `changed` of
  // another run.
  absl::Status Restore(const std::string& path, bool changed,
                       std::vector<std::string>* differences);
  // Drains the trainer. `run_id` goes into the checkpoint. As SaveCheckpoint.
  absl::Status Save(const std::string& path, const std::string& run_id);

  // The bytes of the files that go with the model into each checkpoint.
  int64_t kept_bytes() const;

  // The id of the run whose checkpoint was restored, if it is still that run;
  // else "".
  const std::string& restored_run() const { return restored_run_; }

  absl::StatusOr<double> Step();
  // Does as Trainer::TakeReports, and adds the lengths and tokens of batches
  // that are formed by length.
  std::vector<StepReport> TakeReports();

  // When the last step waited for its data, on the trainer's clock; both 0
  // where it did not.
  struct DataWait {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };
  DataWait data_wait() const { return data_wait_; }
  bool streams() const { return data_.stream != nullptr; }
  // Returns notes on streamed data that are new since the last call.
  std::vector<std::string> TakeDataNotes();

  struct Evaluation {
    double loss = 0;          // mean over the labelled tokens
    int64_t num_labels = 0;   // of them
    int64_t num_samples = 0;  // in which they were
    // How many of them the model predicts correctly; -1: it does not tell.
    int64_t num_correct = 0;
    // Where the loss has several terms, these are all of them. Then `loss` is
    // their sum, and the numbers and figures here are the first one's.
    std::vector<LossTerm> terms = {};
    // The terms are parts of one mean, as the two ends of a span are.
    bool halves = false;

    // Returns e to the power of the loss or, where its terms are means of their
    // own, of the first one.
    double perplexity() const;
    // Returns the share of the labelled tokens that the model predicts
    // correctly, in [0, 1]; NaN where it is not known.
    double accuracy() const;
  };
  // Evaluates over the first eval_batches micro batches of the validation data
  // or, where it has fewer, over all of it: no sample counts twice. Over all of
  // it the bits are EvaluateAll's, on any number of ranks.
  absl::StatusOr<Evaluation> Evaluate();
  // Evaluates over the first `most_samples` samples, each once; 0: over all.
  // `progress` gets the result so far now and then.
  absl::StatusOr<Evaluation> EvaluateAll(
      int64_t most_samples,
      absl::FunctionRef<void(const Evaluation& so_far, int64_t of_samples)>
          progress);
  // The key of the data that EvaluateAll reads.
  absl::string_view evaluated_key() const {
    return data_.validation != nullptr ? "data.validation" : "data.train";
  }
  // Returns true if the run evaluates after that step.
  bool EvaluatesAfter(int64_t step) const;
  // Returns true if the evaluation after the step that the run is at was
  // interrupted, and the run still evaluates.
  bool LacksEvaluation() const {
    return best_.is_due && data_.validation != nullptr;
  }

  const EpochSize& epoch() const { return epoch_; }
  // The first sample of the training data (ShowSample); "" where its tokens
  // have no text.
  const std::string& first_sample() const { return first_sample_; }

  // The best evaluation so far, and how many later ones were no gain.
  BestState& best() { return best_; }

 private:
  Session() = default;
  // Reads the files that go with the model.
  absl::Status KeepFiles(const Options& options);
  // Opens the weights of model.pretrained and checks them by their headers.
  absl::Status OpenPretrained();
  // Returns the evaluation that the losses of so many samples give.
  Evaluation EvaluationOf(const Trainer::LossSum& sum, int64_t samples) const;
  // Says which parameters of another head begin anew.
  void TellOfNewHead(const Options& options) const;
  absl::Status LookAtStream(const Options& options);
  absl::Status AwaitData();
  // Looks at the data that the run is judged by, and sets eval_length_.
  absl::Status LookAtEvaluated(absl::string_view key, const DataSet& data,
                               const Options& options);
  // Returns the shape of a micro batch of evaluations.
  StepShape EvaluationShape() const;
  // Sets *evaluates if the run is to be judged by validation data now and then.
  absl::Status OpenDataSets(const Options& options, bool* evaluates);

  Config config_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Model> model_;
  // The values of model.pretrained, from Create until they have been read.
  std::unique_ptr<PretrainedSource> pretrained_;
  DataSplits data_;
  std::vector<InputIdentity> inputs_;
  // The kept files of a run that saves, on rank 0.
  CopiedFiles kept_files_;
  RankOptions ranks_;
  std::unique_ptr<Trainer> trainer_;
  std::string device_note_;
  // The identity of the data that was read at data.train.
  std::string TrainingData() const;

  EpochSize epoch_;
  std::string first_sample_;
  BestState best_;
  double tokens_per_step_ = 0;
  // The tokens that evaluated samples are padded to: no more than the longest
  // of them takes.
  int64_t eval_length_ = 0;
  int64_t samples_ = 0;  // of training data consumed
  // The sizes of the steps of which reports are still to come, where they
  // differ.
  struct StepSize {
    int64_t length = 0;
    int64_t tokens = 0;
  };
  std::map<int64_t, StepSize> step_sizes_;
  DataWait data_wait_;
  std::string restored_run_;
};

// Returns the trainer's options for a config.
TrainerOptions MakeTrainerOptions(const Config& config, bool evaluates);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_SESSION_H_
