#include "cli/evaluate/evaluate_command.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "cli/figures/figures.h"
#include "cli/figures/loss_terms.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/output_file.h"
#include "cli/output/standard_output.h"
#include "cli/run/find_checkpoint.h"
#include "cli/run/look_at_data.h"
#include "cli/run/session.h"
#include "models/families.h"

namespace castor::cli {
namespace {

// Returns where the values come from: a checkpoint's path, or "" for the
// beginning.
absl::StatusOr<std::string> ValuesOf(const EvaluateArguments& arguments,
                                     const Config& config) {
  if (arguments.checkpoint.empty()) return std::string();
  std::string path = arguments.checkpoint;
  const bool latest = path == "latest";
  if (latest) {
    path = config.checkpoint.dir;
    if (path.empty()) {
      return absl::InvalidArgumentError(
          "--checkpoint latest: the configuration says \"checkpoint\": false; "
          "name the checkpoint");
    }
  }
  absl::StatusOr<std::string> found = FindCheckpoint(
      path, latest ? WhichCheckpoint::kNewest : WhichCheckpoint::kBest);
  CASTOR_RETURN_IF_ERROR(Annotate("--checkpoint", found.status()));
  return found;
}

// Tells how far it is, every few seconds.
class Progress {
 public:
  void Tell(const Session::Evaluation& so_far, int64_t of_samples) {
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < std::chrono::seconds(5)) return;
    told_ = now;
    std::printf("%ld of %ld samples  loss %.4f\n",
                static_cast<long>(so_far.num_samples),
                static_cast<long>(of_samples), so_far.loss);
    FlushOutput();
  }

 private:
  std::chrono::steady_clock::time_point told_ =
      std::chrono::steady_clock::now();
};

// " (masked_lm 6.1000, next_sentence 0.6931; accuracy of next_sentence
// 0.5000)"; "" where the loss has one term. The first one's accuracy is told
// with it.
std::string EvaluatedTerms(const Session::Evaluation& evaluation) {
  std::string text = LossTermsText(evaluation.terms);
  if (text.empty()) return text;
  text.pop_back();
  for (size_t k = 1; k < evaluation.terms.size(); ++k) {
    const LossTerm& term = evaluation.terms[k];
    absl::StrAppendFormat(&text, "; accuracy of %s %.4f", term.name,
                          term.accuracy);
  }
  return text + ")";
}

absl::Status EvaluateModel(EvaluateArguments arguments) {
  if (!arguments.summary_path.empty()) {
    arguments.summary_path = LinkTarget(arguments.summary_path);
    CASTOR_RETURN_IF_ERROR(
        Annotate("--summary", CheckWritable(arguments.summary_path)));
  }
  CASTOR_ASSIGN_OR_RETURN(
      const Config config,
      LoadConfig(models::Reader(), arguments.config_path, arguments.overrides));
  CASTOR_ASSIGN_OR_RETURN(const std::string checkpoint,
                          ValuesOf(arguments, config));
  if (!arguments.summary_path.empty()) {
    std::vector<OtherFile> others = FilesRead(config.model, config.data);
    others.push_back({"the configuration", arguments.config_path});
    others.push_back({"the checkpoint", checkpoint});
    CASTOR_RETURN_IF_ERROR(Annotate(
        "--summary", CheckReplacesNone(arguments.summary_path, others)));
  }
  Session::Options options;
  options.evaluate_only = true;
  if (!arguments.json) options.say = PrintLine;
  options.from_checkpoint = !checkpoint.empty();
  std::optional<RefusedRun> refused;
  absl::StatusOr<std::unique_ptr<Session>> created =
      Session::Create(config, std::move(options), &refused);
  if (refused.has_value() && arguments.json) {
    PrintRefusal(refused->refusal, created.status());
  }
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          std::move(created));
  if (!arguments.json) {
    std::fputs(FormatAdmission(session->trainer().admission()).c_str(), stdout);
    FlushOutput();
  }
  CASTOR_RETURN_IF_ERROR(checkpoint.empty()
                             ? session->Initialize()
                             : session->InitializeFrom(checkpoint));
  Progress progress;
  CASTOR_ASSIGN_OR_RETURN(
      const Session::Evaluation evaluation,
      session->EvaluateAll(
          arguments.samples,
          [&](const Session::Evaluation& so_far, int64_t of_samples) {
            if (!arguments.json) progress.Tell(so_far, of_samples);
          }));
  if (!std::isfinite(evaluation.loss)) {
    return absl::FailedPreconditionError(absl::StrCat(
        session->evaluated_key(),
        ": the loss is not finite: the model's weights overflow in this type, "
        "or are damaged"));
  }
  if (!arguments.json) {
    std::printf(
        "%s: loss %.6f%s, perplexity %.4f, token accuracy %.4f, over %ld "
        "labelled "
        "tokens in %ld "
        "samples\n",
        std::string(session->evaluated_key()).c_str(), evaluation.loss,
        EvaluatedTerms(evaluation).c_str(), evaluation.perplexity(),
        evaluation.accuracy(), static_cast<long>(evaluation.num_labels),
        static_cast<long>(evaluation.num_samples));
  }
  nlohmann::json summary = {
      {"fits", true},
      {"loss", evaluation.loss},
      {"perplexity", evaluation.perplexity()},
      {"token_accuracy", evaluation.accuracy()},
      {"labels", evaluation.num_labels},
      {"samples", evaluation.num_samples},
      {"data", std::string(session->evaluated_key())},
      {"checkpoint",
       checkpoint.empty() ? nlohmann::json() : nlohmann::json(checkpoint)},
      {"device_peak_bytes", session->trainer().arena_stats().peak_bytes},
      {"predicted_device_peak_bytes",
       session->trainer().predicted_device_peak_bytes()},
      {"host_peak_bytes", session->trainer().host_stats().peak_bytes}};
  if (!evaluation.terms.empty()) {
    summary["loss_terms"] = LossTermsJson(evaluation.terms);
    summary["accuracies"] = AccuraciesJson(evaluation.terms);
  }
  if (arguments.json) PrintJson(summary);
  if (arguments.summary_path.empty()) return absl::OkStatus();
  return WriteWhole(arguments.summary_path, JsonText(summary));
}

}  // namespace

int Evaluate(const EvaluateArguments& arguments) {
  const absl::Status status = EvaluateModel(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
