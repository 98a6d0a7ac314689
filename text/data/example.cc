#include "text/data/example.h"

#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "runtime/data/data_set.h"
#include "text/chat/conversation.h"
#include "text/data/json_record.h"
#include "text/data/record_format.h"
#include "text/data/token_places.h"

namespace castor {
namespace {

// Another number where a record means something else than it did, so that what
// was kept of records before is not taken for it.
constexpr uint64_t kExampleRules = 3;

// Conversations have few values, and tools are nested a little. Keys in their
// order are found one by one, so that an object of very many takes long.
constexpr JsonLimits kLimits = {.max_depth = 64, .max_values = 50'000};

constexpr char kWeight[] = "weight";
constexpr auto kReplace = OrderedJson::error_handler_t::replace;

// Returns how many tokens `a` and `b` have in common at the begin.
size_t CommonBegin(const std::vector<int32_t>& a,
                   const std::vector<int32_t>& b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most),
                    b.begin())
          .first -
      a.begin());
}

absl::Status Wrong(absl::string_view key, absl::string_view expected,
                   const OrderedJson& found) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": expected ", expected,
                                                 ", found a value of type ",
                                                 found.type_name()));
}

// A record that is being read.
class Record {
 public:
  Record(const ExampleRules& rules, JsonLine* out)
      : rules_(rules), out_(*out), record_(rules.keys) {}

  absl::Status Read(absl::string_view line) {
    CASTOR_RETURN_IF_ERROR(
        record_.Parse(line, kLimits, KeysOf(rules_.format), &out_.unused));
    switch (rules_.format) {
      case RecordFormat::kText:
        return ReadText();
      case RecordFormat::kPrompt:
        return ReadPrompt();
      case RecordFormat::kInstruction:
        return ReadInstruction();
      default:
        return ReadConversation(RecordFormatName(rules_.format));
    }
  }

 private:
  const OrderedJson* Find(absl::string_view known) const {
    return record_.Find(known);
  }
  std::string NameOf(absl::string_view known) const {
    return record_.NameOf(known);
  }

  absl::StatusOr<std::string> Text(absl::string_view known) const {
    const OrderedJson* value = Find(known);
    if (value == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(NameOf(known), ": is missing"));
    }
    if (!value->is_string()) return Wrong(NameOf(known), "a string", *value);
    return value->get<std::string>();
  }

  // The text, ended by the end token.
  std::string Ended(std::string text) const {
    const std::string& end = rules_.encoding->end_text;
    if (!end.empty() && !absl::EndsWith(text, end)) text += end;
    return text;
  }

  // The ids of `text`, with what the tokenizer puts around a text unless a
  // template has made it.
  absl::Status Encode(absl::string_view text, bool is_chat,
                      std::vector<int32_t>* ids) const {
    const TextEncoding& encoding = *rules_.encoding;
    ids->clear();
    if (!is_chat) *ids = encoding.before;
    CASTOR_RETURN_IF_ERROR(encoding.encode(text, ids));
    if (!is_chat) {
      ids->insert(ids->end(), encoding.after.begin(), encoding.after.end());
    }
    return absl::OkStatus();
  }

  absl::Status ReadText() {
    CASTOR_ASSIGN_OR_RETURN(std::string text, Text("text"));
    return Encode(Ended(std::move(text)), /*is_chat=*/false, &out_.ids);
  }

  absl::Status ReadPrompt() {
    const OrderedJson* prompt = Find("prompt");
    const OrderedJson* completion = Find("completion");
    if (prompt == nullptr || !prompt->is_array()) {
      if (rules_.loss_on == LossOn::kAssistant) {
        return absl::InvalidArgumentError(absl::StrCat(
            NameOf("prompt"),
            ": is no list of messages, of which data.loss_on \"assistant\" "
            "could be learned: say \"completion\""));
      }
      CASTOR_ASSIGN_OR_RETURN(const std::string asked, Text("prompt"));
      CASTOR_ASSIGN_OR_RETURN(const std::string answer, Text("completion"));
      return SetCompletion(asked, asked + Ended(answer), /*is_chat=*/false);
    }
    if (completion == nullptr || !completion->is_array()) {
      return absl::InvalidArgumentError(absl::StrCat(
          NameOf("completion"), ": expected a list of messages, as ",
          NameOf("prompt"), " is one"));
    }
    CASTOR_ASSIGN_OR_RETURN(text::Conversation chat, ChatOf(*prompt, "prompt"));
    CASTOR_ASSIGN_OR_RETURN(const text::Conversation answer,
                            ChatOf(*completion, "completion"));
    std::string asked;
    if (rules_.loss_on == LossOn::kCompletion) {
      CASTOR_ASSIGN_OR_RETURN(RenderedChat rendered, Render(chat, true));
      asked = std::move(rendered.text);
    }
    for (const OrderedJson& message : answer.messages) {
      chat.messages.push_back(message);
    }
    if (rules_.loss_on != LossOn::kCompletion) return SetConversation(chat);
    CASTOR_ASSIGN_OR_RETURN(const RenderedChat whole, Render(chat, false));
    return SetCompletion(asked, whole.text, /*is_chat=*/true);
  }

  absl::Status SetCompletion(const std::string& prompt,
                             const std::string& whole, bool is_chat) {
    CASTOR_RETURN_IF_ERROR(Encode(whole, is_chat, &out_.ids));
    if (rules_.loss_on == LossOn::kAll) return absl::OkStatus();
    std::vector<int32_t> asked;
    CASTOR_RETURN_IF_ERROR(Encode(prompt, is_chat, &asked));
    StartLabels();
    Learn(CommonBegin(asked, out_.ids), out_.ids.size());
    return absl::OkStatus();
  }

  absl::Status ReadInstruction() {
    CASTOR_ASSIGN_OR_RETURN(const std::string instruction, Text("instruction"));
    CASTOR_ASSIGN_OR_RETURN(const std::string output, Text("output"));
    std::string input;
    if (Find("input") != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(input, Text("input"));
    }
    const std::string prompt =
        input.empty()
            ? absl::StrCat(
                  "Below is an instruction that describes a task. Write a "
                  "response that appropriately completes the request.\n\n"
                  "### Instruction:\n",
                  instruction, "\n\n### Response:")
            : absl::StrCat(
                  "Below is an instruction that describes a task, paired with "
                  "an input that provides further context. Write a response "
                  "that appropriately completes the request.\n\n"
                  "### Instruction:\n",
                  instruction, "\n\n### Input:\n", input, "\n\n### Response:");
    return SetCompletion(prompt, prompt + Ended(output), /*is_chat=*/false);
  }

  // The conversation of a list of messages, with what else the record has for a
  // template.
  absl::StatusOr<text::Conversation> ChatOf(const OrderedJson& messages,
                                            absl::string_view known) {
    // Some files have OpenAI's messages under ShareGPT's key, or the reverse.
    const bool from = messages.is_array() && !messages.empty() &&
                      messages[0].is_object() && messages[0].contains("from");
    OrderedJson record = {{from ? "conversations" : "messages", messages}};
    for (const char* key : {"tools", "documents", "chat_template_kwargs"}) {
      const OrderedJson* value = Find(key);
      if (value != nullptr) record[key] = *value;
    }
    CASTOR_ASSIGN_OR_RETURN(text::Conversation chat,
                            text::ReadConversation(record));
    if (rules_.chat == nullptr) return chat;
    const std::string name = NameOf(known);
    for (size_t i = 0; i < chat.messages.size(); ++i) {
      CASTOR_RETURN_IF_ERROR(
          CheckMessage(absl::StrCat(name, "[", i, "]"), &chat.messages[i]));
      // What ShareGPT's form has besides is in no message.
      for (const auto& [key, value] : messages[i].items()) {
        const bool is_known =
            from ? key == "from" || key == "value"
                 : key == "role" || key == "content" || rules_.chat->reads(key);
        if (!is_known && !IsNothing(value) && !IsWeight(key)) {
          TellUnused(absl::StrCat(name, ".", key));
        }
      }
    }
    for (const char* key : {"tools", "documents"}) {
      const bool is_there = record.contains(key) && !IsNothing(record[key]);
      if (is_there && !rules_.chat->reads(key)) TellUnused(key);
    }
    return chat;
  }

  // Returns true of a null and of an empty list or object.
  static bool IsNothing(const OrderedJson& value) {
    return !value.is_primitive() || value.is_null() ? value.empty() : false;
  }

  // Returns true if the key says by 0 that a turn is not learned, as OpenAI has
  // it, and turns are what is learned.
  bool IsWeight(absl::string_view key) const {
    return key == kWeight && rules_.loss_on == LossOn::kAssistant;
  }

  void TellUnused(std::string name) {
    std::vector<std::string>& names = out_.unused;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }

  // Refuses what the template would take for something else, and makes a text
  // of a content that is a list of one.
  absl::Status CheckMessage(absl::string_view place,
                            OrderedJson* message) const {
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
    };
    const auto found = message->find("content");
    OrderedJson none;
    OrderedJson& content = found != message->end() ? *found : none;
    const OrderedJson role = message->value("role", OrderedJson());
    // Llama's templates and Mistral's write such an answer of a tool as JSON.
    const bool is_told = role != "user" && role != "system" &&
                         role != "assistant" &&
                         (rules_.chat->reads("mapping") ||
                          rules_.chat->reads("content.content"));
    if (is_told && content.is_structured()) return absl::OkStatus();
    if (content.is_object()) {
      return wrong("its content is an object: give it as a text");
    }
    if (content.is_array() && !rules_.chat->reads_parts) {
      const bool is_text = content.size() == 1 && content[0].is_object() &&
                           content[0].value("type", OrderedJson()) == "text" &&
                           content[0].value("text", OrderedJson()).is_string();
      if (!is_text) {
        return wrong(
            "its content is a list of parts, and the chat template takes a "
            "text: make one of them, or leave the record out");
      }
      content = OrderedJson(content[0]["text"]);
    }
    const bool is_empty =
        content.is_null() || content == "" || content == OrderedJson::array();
    const auto calls = message->find("tool_calls");
    if (is_empty && calls != message->end() && calls->is_array() &&
        !calls->empty() && !rules_.chat->reads("tool_calls")) {
      return wrong(
          "it has tool_calls and no content, and the chat template reads no "
          "tool_calls, so that an empty answer would be learned: give a "
          "template that does, or leave the record out");
    }
    const auto weight = message->find(kWeight);
    if (weight != message->end() && *weight != 0 && *weight != 1 &&
        !weight->is_null() && IsWeight(kWeight)) {
      return wrong(absl::StrCat("weight: expected 0 or 1, found ",
                                weight->dump(-1, ' ', false, kReplace)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<RenderedChat> Render(const text::Conversation& chat,
                                      bool add_generation_prompt) const {
    if (rules_.chat == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is a conversation, and there is no chat template for it: ",
          rules_.no_chat));
    }
    return rules_.chat->render(chat, add_generation_prompt);
  }

  absl::Status ReadConversation(absl::string_view known) {
    const OrderedJson* messages = Find(known);
    if (messages == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(NameOf(known), ": is missing"));
    }
    CASTOR_ASSIGN_OR_RETURN(const text::Conversation chat,
                            ChatOf(*messages, known));
    return SetConversation(chat);
  }

  absl::Status SetConversation(const text::Conversation& chat) {
    CASTOR_ASSIGN_OR_RETURN(RenderedChat whole, Render(chat, false));
    CASTOR_RETURN_IF_ERROR(Encode(whole.text, /*is_chat=*/true, &out_.ids));
    if (rules_.loss_on == LossOn::kAll) return absl::OkStatus();
    if (!whole.marks_generation) {
      CASTOR_ASSIGN_OR_RETURN(whole.generated,
                              TurnsOf(chat, whole, /*learned=*/true));
    } else {
      CASTOR_ASSIGN_OR_RETURN(const std::vector<text::jinja::TextSpan> left_out,
                              TurnsOf(chat, whole, /*learned=*/false));
      std::erase_if(whole.generated, [&](const text::jinja::TextSpan& span) {
        return std::any_of(left_out.begin(), left_out.end(),
                           [&](const text::jinja::TextSpan& turn) {
                             return turn.begin <= span.begin &&
                                    span.end <= turn.end;
                           });
      });
    }
    StartLabels();
    const std::vector<TokenPlace> places =
        PlacesOfTokens(*rules_.encoding, whole.text, out_.ids);
    for (const text::jinja::TextSpan& span : whole.generated) {
      if (span.begin == span.end) continue;
      if (places.empty()) {
        CASTOR_RETURN_IF_ERROR(LearnBytes(whole.text, span.begin, span.end));
      } else {
        LearnPlaces(places, span.begin, span.end);
      }
    }
    return absl::OkStatus();
  }

  // Finds, by the begins of the conversation, what the assistant says in it, in
  // the turns that are learned, or in the others.
  absl::StatusOr<std::vector<text::jinja::TextSpan>> TurnsOf(
      const text::Conversation& chat, const RenderedChat& whole,
      bool learned) const {
    std::vector<text::jinja::TextSpan> turns;
    text::Conversation begin = chat;
    begin.messages = OrderedJson::array();
    for (const OrderedJson& message : chat.messages) {
      const bool is_learned = message.value(kWeight, OrderedJson()) != 0;
      if (message.value("role", OrderedJson()) != "assistant" ||
          is_learned != learned) {
        begin.messages.push_back(message);
        continue;
      }
      CASTOR_ASSIGN_OR_RETURN(const RenderedChat before, Render(begin, true));
      begin.messages.push_back(message);
      CASTOR_ASSIGN_OR_RETURN(const RenderedChat with, Render(begin, false));
      if (!absl::StartsWith(with.text, before.text) ||
          !absl::StartsWith(whole.text, with.text)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "what the assistant says in message ", begin.messages.size(),
            " cannot be told from the rest: the chat template makes another "
            "text of the messages up to there than it has for them in the "
            "whole conversation",
            whole.marks_generation
                ? ". Leave out the message's weight, or the record"
                : ", and it has no {% generation %} blocks. Give it these, or "
                  "say \"data\": {\"loss_on\": \"all\"}"));
      }
      turns.push_back({static_cast<int64_t>(before.text.size()),
                       static_cast<int64_t>(with.text.size())});
    }
    return turns;
  }

  void StartLabels() {
    out_.has_labels = true;
    out_.labels.assign(out_.ids.size(), kNoTarget);
  }

  void Learn(size_t begin, size_t end) {
    std::copy(out_.ids.begin() + static_cast<ptrdiff_t>(begin),
              out_.ids.begin() + static_cast<ptrdiff_t>(end),
              out_.labels.begin() + static_cast<ptrdiff_t>(begin));
  }

  // Learns the tokens that the bytes [begin, end) of the text are in.
  void LearnPlaces(const std::vector<TokenPlace>& places, int64_t begin,
                   int64_t end) {
    const auto first = std::partition_point(
        places.begin(), places.end(),
        [&](const TokenPlace& place) { return place.end <= begin; });
    const auto last = std::partition_point(
        first, places.end(),
        [&](const TokenPlace& place) { return place.begin < end; });
    Learn(static_cast<size_t>(first - places.begin()),
          static_cast<size_t>(last - places.begin()));
  }

  // Learns the same tokens of a text in which they have no places: which ones
  // they are follows from the tokens of the text before the bytes.
  absl::Status LearnBytes(absl::string_view text, int64_t begin, int64_t end) {
    CASTOR_RETURN_IF_ERROR(Encode(text.substr(0, static_cast<size_t>(begin)),
                                  /*is_chat=*/true, &begin_ids_));
    const size_t first = CommonBegin(begin_ids_, out_.ids);
    CASTOR_RETURN_IF_ERROR(Encode(text.substr(0, static_cast<size_t>(end)),
                                  /*is_chat=*/true, &begin_ids_));
    size_t last = CommonBegin(begin_ids_, out_.ids);
    // The end is within a token.
    if (last < begin_ids_.size()) last = std::min(last + 1, out_.ids.size());
    Learn(std::min(first, last), last);
    return absl::OkStatus();
  }

  const ExampleRules& rules_;
  JsonLine& out_;
  JsonRecord record_;
  std::vector<int32_t> begin_ids_;
};

}  // namespace

LossOn DefaultLossOn(RecordFormat format) {
  switch (format) {
    case RecordFormat::kMessages:
    case RecordFormat::kConversations:
      return LossOn::kAssistant;
    case RecordFormat::kPrompt:
    case RecordFormat::kInstruction:
      return LossOn::kCompletion;
    default:
      return LossOn::kAll;
  }
}

absl::Status CheckLossOn(RecordFormat format, LossOn loss_on) {
  // A prompt may be a list of messages, of which some are the assistant's.
  if (loss_on == LossOn::kAll || loss_on == DefaultLossOn(format) ||
      (format == RecordFormat::kPrompt && loss_on == LossOn::kAssistant)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data.loss_on: records with \"", RecordFormatName(format), "\" have no ",
      loss_on == LossOn::kAssistant ? "assistant" : "completion",
      format == RecordFormat::kTokens
          ? ": their labels and masks say what is learned"
          : ""));
}

uint64_t KeyOf(const ExampleRules& rules) {
  std::string all =
      absl::StrCat(kExampleRules, " ", static_cast<int>(rules.format), " ",
                   static_cast<int>(rules.loss_on), " ",
                   rules.chat != nullptr ? rules.chat->checksum : 0);
  for (const auto& [known, name] : rules.keys.names()) {
    absl::StrAppend(&all, " ", known.size(), " ", known, name.size(), " ",
                    name);
  }
  return XXH3_64bits(all.data(), all.size());
}

absl::Status ReadExample(absl::string_view line, const ExampleRules& rules,
                         JsonLine* out) {
  out->text.clear();
  out->ids.clear();
  out->labels.clear();
  out->unused.clear();
  out->has_text = out->has_labels = false;
  out->has_ids = true;
  CASTOR_RETURN_IF_ERROR(Record(rules, out).Read(line));
  if (out->ids.empty()) {
    return absl::InvalidArgumentError("its text has no token");
  }
  return absl::OkStatus();
}

}  // namespace castor
