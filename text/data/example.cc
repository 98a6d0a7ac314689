#include "text/data/example.h"

#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "runtime/data/data_set.h"
#include "text/data/record_format.h"

namespace castor {
namespace {

// Another number where a record means something else than it did, so that what
// was kept of records before is not taken for it.
constexpr uint64_t kExampleRules = 1;

// Conversations have few values, and tools are nested a little.
constexpr JsonLimits kLimits = {
    .max_depth = 64, .max_values = 1'000'000, .max_keys = 4096};

// How many tokens `a` and `b` begin with that are the same.
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
      : rules_(rules), out_(*out) {}

  absl::Status Read(absl::string_view line) {
    CASTOR_ASSIGN_OR_RETURN(json_, ParseOrderedJson(line, kLimits));
    if (!json_.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected an object, found a value of type ", json_.type_name()));
    }
    CASTOR_RETURN_IF_ERROR(CheckKeys());
    switch (rules_.format) {
      case RecordFormat::kText:
        return ReadText();
      case RecordFormat::kPrompt:
        return ReadPrompt();
      case RecordFormat::kInstruction:
        return ReadInstruction();
      default:
        return ReadConversation(KeysOf(rules_.format)[0]);
    }
  }

 private:
  // Null: the record has no such key, or null there.
  const OrderedJson* Find(absl::string_view known) const {
    const auto found = json_.find(std::string(rules_.keys.NameOf(known)));
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  std::string NameOf(absl::string_view known) const {
    return std::string(rules_.keys.NameOf(known));
  }

  absl::Status CheckKeys() {
    const std::vector<absl::string_view> known = KeysOf(rules_.format);
    std::vector<absl::string_view> absent;
    for (const absl::string_view key : known) {
      if (Find(key) == nullptr) absent.push_back(key);
    }
    std::vector<std::string> others;
    for (const auto& [name, _] : json_.items()) {
      const absl::string_view key = rules_.keys.KnownOf(name);
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        others.push_back(name);
      }
    }
    const NearKey near = FindNearKey(others, absent);
    if (!near.name.empty()) {
      return absl::InvalidArgumentError(
          UnknownKeyMessage(near.name, near.known));
    }
    constexpr size_t kMost = 8;
    others.resize(std::min(others.size(), kMost));
    out_.unused = std::move(others);
    return absl::OkStatus();
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
      CASTOR_ASSIGN_OR_RETURN(std::string answer, Text("completion"));
      return SetCompletion(asked, Ended(asked + answer), /*is_chat=*/false);
    }
    if (completion == nullptr || !completion->is_array()) {
      return absl::InvalidArgumentError(
          absl::StrCat(NameOf("completion"),
                       ": expected a list of messages, "
                       "as ",
                       NameOf("prompt"), " is one"));
    }
    CASTOR_ASSIGN_OR_RETURN(OrderedJson messages, Messages("prompt"));
    CASTOR_ASSIGN_OR_RETURN(const OrderedJson answers, Messages("completion"));
    CASTOR_ASSIGN_OR_RETURN(const OrderedJson tools, Tools());
    CASTOR_ASSIGN_OR_RETURN(const RenderedChat asked,
                            Render(messages, tools, true));
    for (const OrderedJson& answer : answers) messages.push_back(answer);
    if (rules_.loss_on != LossOn::kCompletion) {
      return SetConversation(messages, tools);
    }
    CASTOR_ASSIGN_OR_RETURN(const RenderedChat whole,
                            Render(messages, tools, false));
    return SetCompletion(asked.text, whole.text, /*is_chat=*/true);
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
    return SetCompletion(prompt, Ended(prompt + output), /*is_chat=*/false);
  }

  // The list of messages at a key, each with "role" and "content".
  absl::StatusOr<OrderedJson> Messages(absl::string_view known) const {
    const std::string key = NameOf(known);
    const OrderedJson* value = Find(known);
    if (value == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": is missing"));
    }
    if (!value->is_array()) return Wrong(key, "a list of messages", *value);
    if (value->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": has no message"));
    }
    OrderedJson messages = *value;
    for (size_t i = 0; i < messages.size(); ++i) {
      CASTOR_RETURN_IF_ERROR(
          ReadMessage(absl::StrCat(key, "[", i, "]"), &messages[i]));
    }
    return messages;
  }

  // Makes a message of ShareGPT's, with "from" and "value", one of OpenAI's.
  static absl::Status ReadMessage(const std::string& place,
                                  OrderedJson* message) {
    if (!message->is_object()) {
      return Wrong(place, "an object with \"role\" and \"content\"", *message);
    }
    constexpr std::pair<const char*, const char*> kNames[] = {
        {"from", "role"}, {"value", "content"}};
    for (const auto& [theirs, ours] : kNames) {
      if (!message->contains(theirs) || message->contains(ours)) continue;
      OrderedJson value = std::move((*message)[theirs]);
      message->erase(theirs);
      (*message)[ours] = std::move(value);
    }
    if (!message->contains("role") || !(*message)["role"].is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(
          place, ": has no \"role\" (nor \"from\") that is a string"));
    }
    constexpr std::pair<const char*, const char*> kRoles[] = {
        {"human", "user"}, {"gpt", "assistant"}};
    for (const auto& [theirs, ours] : kRoles) {
      if ((*message)["role"] == theirs) (*message)["role"] = ours;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<OrderedJson> Tools() const {
    const OrderedJson* value = Find("tools");
    if (value == nullptr) return OrderedJson();
    OrderedJson tools = *value;
    // Tables of other programs can only hold them as text.
    if (value->is_string()) {
      const std::string text = value->get<std::string>();
      if (text.empty()) return OrderedJson();
      auto parsed = ParseOrderedJson(text, kLimits);
      CASTOR_RETURN_IF_ERROR(Annotate(NameOf("tools"), parsed.status()));
      tools = *std::move(parsed);
    }
    if (!tools.is_array()) return Wrong(NameOf("tools"), "a list", tools);
    // Some templates speak of tools where there is a list of none.
    return tools.empty() ? OrderedJson() : tools;
  }

  absl::StatusOr<RenderedChat> Render(const OrderedJson& messages,
                                      const OrderedJson& tools,
                                      bool add_generation_prompt) const {
    if (rules_.chat == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is a conversation, and there is no chat template for it: ",
          rules_.no_chat));
    }
    return rules_.chat->render(messages, tools, add_generation_prompt);
  }

  absl::Status ReadConversation(absl::string_view known) {
    CASTOR_ASSIGN_OR_RETURN(const OrderedJson messages, Messages(known));
    CASTOR_ASSIGN_OR_RETURN(const OrderedJson tools, Tools());
    return SetConversation(messages, tools);
  }

  absl::Status SetConversation(const OrderedJson& messages,
                               const OrderedJson& tools) {
    CASTOR_ASSIGN_OR_RETURN(RenderedChat whole, Render(messages, tools, false));
    CASTOR_RETURN_IF_ERROR(Encode(whole.text, /*is_chat=*/true, &out_.ids));
    if (rules_.loss_on == LossOn::kAll) return absl::OkStatus();
    if (!rules_.chat->marks_generation) {
      CASTOR_RETURN_IF_ERROR(FindTurns(messages, tools, &whole));
    }
    StartLabels();
    for (const auto& [begin, end] : whole.generated) {
      CASTOR_RETURN_IF_ERROR(LearnBytes(whole.text, begin, end));
    }
    return absl::OkStatus();
  }

  // Finds, by the begins of the conversation, what the assistant says in it.
  absl::Status FindTurns(const OrderedJson& messages, const OrderedJson& tools,
                         RenderedChat* whole) const {
    OrderedJson begin = OrderedJson::array();
    for (size_t i = 0; i < messages.size(); ++i) {
      const OrderedJson& message = messages[i];
      if (message["role"] != "assistant") {
        begin.push_back(message);
        continue;
      }
      CASTOR_ASSIGN_OR_RETURN(const RenderedChat before,
                              Render(begin, tools, true));
      begin.push_back(message);
      CASTOR_ASSIGN_OR_RETURN(const RenderedChat with,
                              Render(begin, tools, false));
      if (!absl::StartsWith(with.text, before.text) ||
          !absl::StartsWith(whole->text, with.text)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "what the assistant says cannot be told from the rest: the chat "
            "template makes another text of the messages up to ",
            i,
            " than it has for them in the whole conversation, and it has no "
            "{% generation %} blocks. Give it these, or say \"data\": "
            "{\"loss_on\": \"all\"}"));
      }
      whole->generated.emplace_back(static_cast<int64_t>(before.text.size()),
                                    static_cast<int64_t>(with.text.size()));
    }
    return absl::OkStatus();
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

  // Learns the tokens that the bytes [begin, end) of `text` are in, which
  // follow from the tokens of what is before them.
  absl::Status LearnBytes(absl::string_view text, int64_t begin, int64_t end) {
    if (begin == end) return absl::OkStatus();
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
  OrderedJson json_;
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
