#include "cli/generate/generate_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/annotate.h"
#include "base/first_not_finite.h"
#include "base/status_macros.h"
#include "cli/generate/generate_source.h"
#include "cli/generate/sampler.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/output_file.h"
#include "cli/output/standard_output.h"
#include "cli/run/session.h"
#include "text/tokenizer/tokenizer.h"

namespace castor::cli {
namespace {

using text::Tokenizer;

// What the text is made of: a tokenizer's tokens, or bytes.
class Alphabet {
 public:
  // Encodes by the tokenizer in the directory `place`, or bytes for "bytes";
  // "": the model has none. InvalidArgument: there is no tokenizer, and the
  // model's tokens cannot be bytes: those of a directory's model are if there
  // are 256, and those of any other if there are not more.
  static absl::StatusOr<Alphabet> Load(const std::string& place,
                                       bool must_have_one, int64_t vocabulary) {
    constexpr int64_t kBytes = 256;
    Alphabet alphabet;
    alphabet.vocabulary_ = vocabulary;
    if (place == kBytesTokenizer) return alphabet;
    std::string missing;
    if (!place.empty()) {
      auto loaded = Tokenizer::Load(place);
      if (loaded.ok()) {
        alphabet.tokenizer_ = *std::move(loaded);
        return alphabet;
      }
      if (must_have_one || !absl::IsNotFound(loaded.status())) {
        return loaded.status();
      }
      missing = absl::StrCat(" (", loaded.status().message(), ")");
    }
    if (place.empty() ? vocabulary <= kBytes : vocabulary == kBytes) {
      return alphabet;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the model knows ", vocabulary,
        " tokens, and there is no tokenizer that says which", missing,
        ": give its directory by --tokenizer, or say --tokenizer bytes"));
  }

  // What ends a text by the tokenizer's own files.
  std::optional<int32_t> end_token() const {
    return tokenizer_ == nullptr ? std::nullopt : tokenizer_->end_token();
  }

  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const {
    std::vector<int32_t> ids;
    if (tokenizer_ == nullptr) {
      for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    } else {
      CASTOR_RETURN_IF_ERROR(tokenizer_->Encode(text, {}, &ids));
    }
    if (ids.empty()) return absl::InvalidArgumentError("it has no token");
    for (const int32_t id : ids) {
      if (id < vocabulary_) continue;
      return absl::InvalidArgumentError(
          tokenizer_ == nullptr
              ? absl::StrCat("without a tokenizer bytes are tokens, and the "
                             "model knows only ",
                             vocabulary_, ", not ", id,
                             ": give its tokenizer's directory by --tokenizer")
              : absl::StrCat("the tokenizer gives the token ", id,
                             ", and the model knows only ", vocabulary_,
                             ": it is another model's tokenizer"));
    }
    return ids;
  }

  absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids) const {
    if (tokenizer_ != nullptr) {
      return tokenizer_->Decode(ids, /*skip_special_tokens=*/true);
    }
    return std::string(ids.begin(), ids.end());
  }

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;  // null: bytes
  int64_t vocabulary_ = 0;
};

// Prints a text that grows, as far as it is whole: a character may be made of
// several tokens.
class Printer {
 public:
  void Show(const std::string& text) {
    constexpr absl::string_view kReplacement = "\xef\xbf\xbd";
    if (absl::EndsWith(text, kReplacement)) return;
    Finish(text);
  }
  void Finish(const std::string& text) {
    if (text.size() <= shown_) return;
    std::fwrite(text.data() + shown_, 1, text.size() - shown_, stdout);
    shown_ = text.size();
    FlushOutput();
  }
  // Ends the line, if one has begun.
  void Break() {
    if (shown_ > 0) std::printf("\n");
  }

 private:
  size_t shown_ = 0;
};

absl::Status GenerateText(GenerateArguments arguments) {
  if (!arguments.summary_path.empty()) {
    arguments.summary_path = LinkTarget(arguments.summary_path);
    CASTOR_RETURN_IF_ERROR(
        Annotate("--summary", CheckWritable(arguments.summary_path)));
  }
  CASTOR_ASSIGN_OR_RETURN(
      GenerateSource source,
      FindGenerateSource(arguments.source, arguments.overrides));
  if (!arguments.summary_path.empty()) {
    CASTOR_RETURN_IF_ERROR(
        Annotate("--summary",
                 CheckReplacesNone(arguments.summary_path,
                                   {{"the checkpoint", source.checkpoint}})));
  }
  const Config& config = source.config;
  const Architecture& architecture = *config.model.architecture;
  const bool named = !arguments.tokenizer.empty();
  CASTOR_ASSIGN_OR_RETURN(
      const Alphabet alphabet,
      Alphabet::Load(named ? arguments.tokenizer : source.tokenizer,
                     named || source.has_tokenizer, architecture.vocabulary()));
  source.unpacked = nullptr;
  std::vector<int32_t> ends = source.end_tokens;
  if (alphabet.end_token().has_value()) ends.push_back(*alphabet.end_token());
  absl::StatusOr<std::vector<int32_t>> ids = alphabet.Encode(arguments.prompt);
  CASTOR_RETURN_IF_ERROR(Annotate("--prompt", ids.status()));
  const int64_t prompt = static_cast<int64_t>(ids->size());
  // The last token is printed, and never read.
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
  Session::Options options;
  options.generation = {.prompt = prompt, .capacity = capacity};
  options.from_checkpoint = !source.checkpoint.empty();
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::Create(config, std::move(options), nullptr));
  CASTOR_RETURN_IF_ERROR(source.checkpoint.empty()
                             ? session->Initialize()
                             : session->InitializeFrom(source.checkpoint));

  const Sampler sampler({.temperature = arguments.temperature,
                         .top_p = arguments.top_p,
                         .seed = static_cast<uint64_t>(arguments.seed)});
  Printer printer;
  std::vector<int32_t> next = *ids;
  std::string text;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < arguments.max_new_tokens; ++i) {
    CASTOR_ASSIGN_OR_RETURN(const std::vector<float> logits,
                            session->trainer().ReadOn(std::move(next)));
    if (const int64_t bad = FirstNotFinite(logits); bad >= 0) {
      printer.Break();
      return absl::FailedPreconditionError(absl::StrCat(
          "the logit of token ", bad, " after ", ids->size(), " tokens is ",
          logits[bad],
          ", no number: the model's weights overflow in this type, or are "
          "damaged"));
    }
    const int32_t token = sampler.Next(logits, prompt + i);
    ids->push_back(token);
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) break;
    CASTOR_ASSIGN_OR_RETURN(text, alphabet.Decode(*ids));
    printer.Show(text);
    next = {token};
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
  const absl::Status status = GenerateText(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
