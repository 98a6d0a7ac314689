#include "cli/generate/generate_command.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "cli/generate/alphabet.h"
#include "cli/generate/chat.h"
#include "cli/generate/continuation.h"
#include "cli/generate/generate_source.h"
#include "cli/generate/sampler.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/output_file.h"
#include "cli/output/standard_output.h"
#include "cli/run/session.h"

namespace castor::cli {
namespace {

absl::Status GenerateText(GenerateArguments arguments) {
  if (!arguments.prompt.has_value()) {
    return absl::InvalidArgumentError(
        "--prompt is required: what the text begins with; or --chat, for a "
        "conversation");
  }
  if (!arguments.summary_path.empty()) {
    arguments.summary_path = LinkTarget(arguments.summary_path);
    CASTOR_RETURN_IF_ERROR(
        Annotate("--summary", CheckWritable(arguments.summary_path)));
  }
  CASTOR_ASSIGN_OR_RETURN(
      GenerateSource source,
      FindGenerateSource(arguments.source, arguments.overrides));
  if (!arguments.summary_path.empty()) {
    std::vector<OtherFile> others =
        FilesOfModel("a file of the model", arguments.source);
    for (OtherFile& file :
         FilesOfModel("a file of --tokenizer", arguments.tokenizer)) {
      others.push_back(std::move(file));
    }
    others.push_back({"the checkpoint", source.checkpoint});
    CASTOR_RETURN_IF_ERROR(Annotate(
        "--summary", CheckReplacesNone(arguments.summary_path, others)));
  }
  const Architecture& architecture = *source.config.model.architecture;
  const bool named = !arguments.tokenizer.empty();
  CASTOR_ASSIGN_OR_RETURN(
      const Alphabet alphabet,
      Alphabet::Load(named ? arguments.tokenizer : source.tokenizer,
                     named || source.has_tokenizer, architecture.vocabulary()));
  source.unpacked = nullptr;
  std::vector<int32_t> ends = source.end_tokens;
  if (alphabet.end_token().has_value()) ends.push_back(*alphabet.end_token());
  absl::StatusOr<std::vector<int32_t>> ids =
      alphabet.Encode(*arguments.prompt, /*add_special_tokens=*/true);
  CASTOR_RETURN_IF_ERROR(Annotate("--prompt", ids.status()));
  const int64_t prompt = static_cast<int64_t>(ids->size());
  // The last token is printed, and never read.
  if (arguments.max_new_tokens == 0) arguments.max_new_tokens = 64;
  const int64_t capacity = prompt + arguments.max_new_tokens - 1;
  if (capacity > architecture.positions()) {
    const int64_t room = architecture.positions() - prompt + 1;
    const std::string positions =
        absl::StrCat("the model's ", architecture.positions(), " positions (",
                     architecture.positions_key(), ")");
    return absl::InvalidArgumentError(
        room < 1
            ? absl::StrCat("--prompt: its ", prompt, " tokens are more than ",
                           positions)
            : absl::StrCat("--max-new-tokens: ", prompt,
                           " tokens of the prompt and ",
                           arguments.max_new_tokens, " more are longer than ",
                           positions, ": at most ", room, " fit"));
  }
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          LoadSession(source, prompt, capacity));

  const Sampler sampler({.temperature = arguments.temperature,
                         .top_p = arguments.top_p,
                         .seed = static_cast<uint64_t>(arguments.seed)});
  Printer printer;
  std::string text;
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status done =
      Continue({.session = *session,
                .sampler = sampler,
                .ends = ends,
                .max_new_tokens = arguments.max_new_tokens},
               /*begin=*/0, &*ids,
               [&](const std::vector<int32_t>& so_far) -> absl::Status {
                 CASTOR_ASSIGN_OR_RETURN(text, alphabet.Decode(so_far));
                 printer.Show(text);
                 return absl::OkStatus();
               })
          .status();
  if (!done.ok()) {
    printer.Break();
    return done;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  CASTOR_ASSIGN_OR_RETURN(text, alphabet.Decode(*ids));
  printer.Finish(text);
  std::printf("\n");
  if (arguments.summary_path.empty()) return absl::OkStatus();
  const AdmissionReport& admission = session->trainer().admission();
  const nlohmann::json summary = {
      {"prompt_ids", std::vector<int32_t>(ids->begin(), ids->begin() + prompt)},
      {"ids", std::vector<int32_t>(ids->begin() + prompt, ids->end())},
      {"text", text},
      {"seconds", seconds},
      {"device_budget_bytes", admission.device_arena_bytes},
      {"smallest_device_budget_bytes", admission.smallest_device_budget_bytes},
      {"device_peak_bytes", session->trainer().arena_stats().peak_bytes},
      {"host_peak_bytes", session->trainer().host_stats().peak_bytes}};
  return WriteWhole(
      arguments.summary_path,
      summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

}  // namespace

int Generate(const GenerateArguments& arguments) {
  const absl::Status status =
      arguments.chat ? Chat(arguments) : GenerateText(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
