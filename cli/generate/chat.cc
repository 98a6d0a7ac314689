#include "cli/generate/chat.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/generate/alphabet.h"
#include "cli/generate/continuation.h"
#include "cli/generate/generate_source.h"
#include "cli/generate/sampler.h"
#include "cli/output/standard_output.h"
#include "cli/run/session.h"
#include "text/chat/chat_templates.h"
#include "text/chat/conversation.h"

namespace castor::cli {
namespace {

constexpr int64_t kDefaultContext = 4096;
constexpr int64_t kDefaultNewTokens = 512;

class Dialogue {
 public:
  Dialogue(const GenerateArguments& arguments, GenerateSource source,
           Alphabet alphabet, text::ChatTemplates templates, int64_t context)
      : arguments_(arguments),
        source_(std::move(source)),
        alphabet_(std::move(alphabet)),
        templates_(std::move(templates)),
        sampler_({.temperature = arguments.temperature,
                  .top_p = arguments.top_p,
                  .seed = static_cast<uint64_t>(arguments.seed)}),
        context_(context),
        ends_(source_.end_tokens) {
    if (alphabet_.end_token().has_value()) {
      ends_.push_back(*alphabet_.end_token());
    }
  }

  void Add(const char* role, const std::string& content) {
    OrderedJson message;
    message["role"] = role;
    message["content"] = content;
    conversation_.messages.push_back(std::move(message));
  }
  // Prints what the model answers, and remembers it.
  absl::Status Answer();

 private:
  const GenerateArguments& arguments_;
  const GenerateSource source_;
  const Alphabet alphabet_;
  const text::ChatTemplates templates_;
  const Sampler sampler_;
  const int64_t context_;
  std::vector<int32_t> ends_;
  text::Conversation conversation_;
  std::unique_ptr<Session> session_;
  std::vector<int32_t> read_;  // what the session's model has read
};

absl::Status Dialogue::Answer() {
  CASTOR_ASSIGN_OR_RETURN(
      const text::jinja::Rendered rendered,
      templates_.Render(conversation_, {.name = arguments_.chat_template,
                                        .add_generation_prompt = true}));
  CASTOR_ASSIGN_OR_RETURN(
      std::vector<int32_t> ids,
      alphabet_.Encode(rendered.text, /*add_special_tokens=*/false));
  const int64_t prompt = static_cast<int64_t>(ids.size());
  if (prompt > context_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--context: the conversation has ", prompt,
        " tokens by now, more than ", context_, ": begin a new one"));
  }
  const bool goes_on = session_ != nullptr && read_.size() < ids.size() &&
                       std::equal(read_.begin(), read_.end(), ids.begin());
  if (!goes_on) {
    session_ = nullptr;  // gives back its memory before the next takes it
    read_.clear();
    CASTOR_ASSIGN_OR_RETURN(session_, LoadSession(source_, prompt, context_));
  }
  const int64_t wanted = arguments_.max_new_tokens > 0
                             ? arguments_.max_new_tokens
                             : kDefaultNewTokens;
  // The last token is printed, and need not be read.
  const int64_t most = std::min(wanted, context_ - prompt + 1);
  Printer printer;
  const auto answer = [&](bool is_over) {
    return alphabet_.Decode({ids.begin() + prompt, ids.end() - is_over});
  };
  const absl::StatusOr<bool> is_over = Continue(
      {.session = *session_,
       .sampler = sampler_,
       .ends = ends_,
       .max_new_tokens = most},
      read_.size(), &ids, [&](const std::vector<int32_t>&) -> absl::Status {
        CASTOR_ASSIGN_OR_RETURN(const std::string text, answer(false));
        printer.Show(text);
        return absl::OkStatus();
      });
  if (!is_over.ok()) {
    printer.Break();
    return is_over.status();
  }
  CASTOR_ASSIGN_OR_RETURN(const std::string text, answer(*is_over));
  printer.Finish(text);
  std::printf("\n");
  FlushOutput();
  read_.assign(ids.begin(), ids.end() - 1);
  Add("assistant", text);
  return absl::OkStatus();
}

}  // namespace

absl::Status Chat(const GenerateArguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(
      GenerateSource source,
      FindGenerateSource(arguments.source, arguments.overrides));
  const Architecture& architecture = *source.config.model.architecture;
  const bool named = !arguments.tokenizer.empty();
  const std::string place = named ? arguments.tokenizer : source.tokenizer;
  CASTOR_ASSIGN_OR_RETURN(Alphabet alphabet,
                          Alphabet::Load(place, named || source.has_tokenizer,
                                         architecture.vocabulary()));
  if (alphabet.tokenizer() == nullptr) {
    return absl::InvalidArgumentError(
        "--chat: a model of bytes has no chat template: give the directory of "
        "a tokenizer that has one by --tokenizer");
  }
  CASTOR_ASSIGN_OR_RETURN(
      text::ChatTemplates templates,
      text::ChatTemplates::Load(place, alphabet.tokenizer()->named_tokens()));
  // Refused before the model is read.
  CASTOR_RETURN_IF_ERROR(
      templates.Find({.name = arguments.chat_template}, false).status());
  source.unpacked = nullptr;
  const int64_t positions = architecture.positions();
  if (arguments.context > positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--context: ", arguments.context, " is more than the model's ",
        positions, " positions (", architecture.positions_key(), ")"));
  }
  const int64_t context = arguments.context > 0
                              ? arguments.context
                              : std::min(positions, kDefaultContext);
  Dialogue dialogue(arguments, std::move(source), std::move(alphabet),
                    std::move(templates), context);
  if (!arguments.system.empty()) dialogue.Add("system", arguments.system);
  const bool is_terminal = isatty(STDIN_FILENO) != 0;
  std::string line;
  while (true) {
    if (is_terminal) {
      std::printf("> ");
      FlushOutput();
    }
    if (!std::getline(std::cin, line)) break;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    dialogue.Add("user", line);
    CASTOR_RETURN_IF_ERROR(dialogue.Answer());
  }
  if (is_terminal) std::printf("\n");
  return absl::OkStatus();
}

}  // namespace castor::cli
