// The data of a session: how they are opened, and what is told of them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/run/look_at_data.h"
#include "cli/run/micro_batches.h"
#include "cli/run/session.h"
#include "models/families.h"
#include "text/data/chat_encoding.h"
#include "text/data/open_data.h"
#include "text/data/tokenizer_encoding.h"

namespace castor::cli {
namespace {

constexpr char kTrainingData[] = "data.train";
constexpr char kValidationData[] = "data.validation";

absl::StatusOr<DataSplits> OpenDataOf(const Config& config,
                                      const Session::Options& options) {
  DataConfig data = config.data;
  // An evaluation goes over its data once, and is told how much there is.
  data.streaming &= !options.evaluate_only;
  return OpenData(
      data,
      {.vocabulary = config.model.architecture->vocabulary(),
       .task = config.model.architecture->task(),
       .labels = config.model.architecture->labels(),
       .segments = config.model.architecture->segments(),
       .sequence_labels = config.model.architecture->sequence_labels(),
       .seed = static_cast<uint64_t>(config.data_seed()),
       .batch_samples = options.evaluate_only ? 0 : config.train_batch_size,
       .threads = ThreadsOf(config.device),
       .model_directory = config.model.directory(),
       .sizes_only = config.model.pretrained.empty(),
       .load_tokenizer = LoadTextEncoding,
       .load_template = LoadChatEncoding,
       .say =
           [&](absl::string_view line) {
             if (options.say) options.say(line);
           },
       .look_only = options.admit_only});
}

}  // namespace

absl::Status Session::OpenDataSets(const Options& options, bool* evaluates) {
  if (options.without_data) {
    eval_length_ = config_.data.sequence_length;
    tokens_per_step_ =
        static_cast<double>(config_.train_batch_size * eval_length_);
    return absl::OkStatus();
  }
  CASTOR_ASSIGN_OR_RETURN(data_, OpenDataOf(config_, options));
  CASTOR_RETURN_IF_ERROR(
      LookAtTokens(kTrainingData, data_.train.get(), &inputs_));
  CASTOR_RETURN_IF_ERROR(
      LookAtTokens(kValidationData, data_.validation.get(), &inputs_));
  const int64_t length = config_.data.sequence_length;
  eval_length_ = length;
  if (options.evaluate_only) {
    return LookAtEvaluated(
        evaluated_key(),
        *(data_.validation != nullptr ? data_.validation : data_.train),
        options);
  }
  tokens_per_step_ = static_cast<double>(config_.train_batch_size * length);
  if (data_.stream != nullptr) {
    CASTOR_RETURN_IF_ERROR(LookAtStream(options));
  } else if (data_.train != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(
        const SampleLengths lengths,
        LookAtLengths(kTrainingData, *data_.train, length, options.say));
    tokens_per_step_ =
        static_cast<double>(config_.train_batch_size) * lengths.average();
    epoch_ = {
        .samples = lengths.samples,
        .tokens = lengths.tokens,
        .records = lengths.records,
        .steps = StepsPerEpoch(lengths.samples, config_.train_batch_size)};
    if (config_.steps == 0) {
      CASTOR_RETURN_IF_ERROR(SetSteps(
          StepsOfEpochs(config_.num_train_epochs, epoch_.steps), &config_));
    }
    CASTOR_ASSIGN_OR_RETURN(
        const LabelCount labels,
        LookAtLabels(kTrainingData, *data_.train, length, options.say));
    if (!labels.is_part) epoch_.learned = labels.labels;
  }
  if (data_.train != nullptr && data_.text_of != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(
        first_sample_,
        ShowSample(*data_.train, data_.text_of, *config_.model.architecture));
  }
  const DataConfig& data = config_.data;
  const bool splits_off =
      !data.validation.empty() || data.validation_fraction > 0;
  *evaluates = config_.evaluates() && splits_off;
  if (!*evaluates) {
    if (splits_off && options.say != nullptr) {
      options.say(absl::StrCat("note: ",
                               data.validation.empty()
                                   ? "data.validation_fraction: that part of "
                                     "the data is not trained "
                                     "on, and never evaluated"
                                   : "data.validation: is never evaluated",
                               ": eval_interval or eval_strategy says when"));
    }
    data_.validation = nullptr;
  }
  if (data_.validation == nullptr) return absl::OkStatus();
  const int64_t samples = data_.validation->num_samples();
  const int64_t evaluated = config_.eval_batches * ShapeOf(config_).batch;
  if (evaluated < samples && options.say != nullptr) {
    options.say(absl::StrCat(kValidationData,
                             ": each evaluation is of the first ", evaluated,
                             " of ", samples, " samples (eval_batches, ",
                             config_.eval_batches, " micro batches)"));
  }
  return LookAtEvaluated(kValidationData, *data_.validation, options);
}

absl::Status Session::LookAtEvaluated(absl::string_view key,
                                      const DataSet& data,
                                      const Options& options) {
  // In multiples of what kernels take at once.
  constexpr int64_t kUnit = 8;
  const int64_t length = config_.data.sequence_length;
  const auto all = data.CountTokens();
  CASTOR_RETURN_IF_ERROR(Annotate(key, all.status()));
  if (config_.data.packing != Packing::kRows) {
    eval_length_ = std::min(length, RoundUp(all->longest, kUnit));
  }
  CASTOR_RETURN_IF_ERROR(
      LookAtLengths(key, data, length, options.say, eval_length_).status());
  return LookAtLabels(key, data, length, options.say).status();
}

// Looks at the first samples of a stream. The stream tells how many samples it
// has when it knows.
absl::Status Session::LookAtStream(const Options& options) {
  const int64_t length = config_.data.sequence_length;
  CASTOR_ASSIGN_OR_RETURN(const SampleLengths first,
                          data_.stream->CountTokens());
  const std::string key =
      absl::StrCat(kTrainingData, ", its first ", first.samples, " samples");
  tokens_per_step_ =
      static_cast<double>(config_.train_batch_size) * first.average();
  CASTOR_RETURN_IF_ERROR(
      LookAtLengths(key, *data_.stream, length, options.say).status());
  return LookAtLabels(key, *data_.stream, length, options.say).status();
}

std::string Session::TrainingData() const {
  for (const InputIdentity& input : inputs_) {
    if (input.key == kTrainingData) return input.identity;
  }
  return "";
}

absl::Status Session::AwaitData() {
  data_wait_ = {};
  if (data_.stream == nullptr) return absl::OkStatus();
  // All that the step's ranks want, so that what is wrong with it is met by all
  // of them before the step begins.
  const int64_t begin_ns = trainer_->NowNs();
  const absl::Status there =
      data_.stream->Await(samples_ + config_.train_batch_size);
  if (data_.stream->TakeWaitedNs() > 0) {
    data_wait_ = {begin_ns, trainer_->NowNs()};
  }
  return there;
}

std::vector<std::string> Session::TakeDataNotes() {
  return data_.stream != nullptr ? data_.stream->TakeNotes()
                                 : std::vector<std::string>();
}

}  // namespace castor::cli
