#include "text/chat/conversation.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_ordered_json.h"

namespace castor::text {
namespace {

constexpr int kMaxDepth = 64;

absl::Status Wrong(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", what));
}

// Returns true if it is a list of objects.
bool AreObjects(const OrderedJson& value) {
  if (!value.is_array()) return false;
  for (const OrderedJson& item : value) {
    if (!item.is_object()) return false;
  }
  return true;
}

// The value; null where the key is missing or null.
const OrderedJson& At(const OrderedJson& record, const char* key) {
  static const OrderedJson* const kNull = new OrderedJson();
  const auto found = record.find(key);
  return found == record.end() ? *kNull : *found;
}

struct Speaker {
  absl::string_view from;
  const char* role;
};
constexpr Speaker kSpeakers[] = {
    {"human", "user"},        {"user", "user"},           {"gpt", "assistant"},
    {"chatgpt", "assistant"}, {"assistant", "assistant"}, {"system", "system"},
    {"tool", "tool"},         {"observation", "tool"}};

absl::StatusOr<OrderedJson> MessageOf(const OrderedJson& turn, size_t index) {
  const std::string place = absl::StrCat("conversations[", index, "]");
  const OrderedJson& from = At(turn, "from");
  const OrderedJson& value = At(turn, "value");
  if (!from.is_string()) return Wrong(place, "\"from\" is no text");
  if (!value.is_string()) return Wrong(place, "\"value\" is no text");
  const std::string& speaker = from.get_ref<const std::string&>();
  for (const Speaker& known : kSpeakers) {
    if (known.from != speaker) continue;
    OrderedJson message;
    message["role"] = known.role;
    message["content"] = value;
    if (turn.contains("weight")) message["weight"] = turn["weight"];
    return message;
  }
  return Wrong(place,
               absl::StrCat("\"from\" is ", QuotedForMessage(speaker),
                            ", and castor knows human, user, gpt, chatgpt, "
                            "assistant, system, tool and observation: write "
                            "such a record with \"messages\""));
}

absl::StatusOr<OrderedJson> ReadMessages(const OrderedJson& record) {
  const OrderedJson& messages = At(record, "messages");
  if (!messages.is_null()) {
    if (!AreObjects(messages)) {
      return Wrong("messages", "expected a list of objects");
    }
    if (messages.empty()) return Wrong("messages", "the list is empty");
    return messages;
  }
  const OrderedJson& turns = At(record, "conversations");
  if (turns.is_null()) {
    return absl::InvalidArgumentError(
        "there is neither \"messages\" nor \"conversations\" in it");
  }
  if (!AreObjects(turns)) {
    return Wrong("conversations", "expected a list of objects");
  }
  if (turns.empty()) return Wrong("conversations", "the list is empty");
  OrderedJson made = OrderedJson::array();
  for (size_t i = 0; i < turns.size(); ++i) {
    CASTOR_ASSIGN_OR_RETURN(OrderedJson message, MessageOf(turns[i], i));
    made.push_back(std::move(message));
  }
  return made;
}

}  // namespace

absl::StatusOr<Conversation> ReadConversation(const OrderedJson& record) {
  if (!record.is_object()) {
    return absl::InvalidArgumentError("expected an object");
  }
  Conversation conversation;
  CASTOR_ASSIGN_OR_RETURN(conversation.messages, ReadMessages(record));
  conversation.tools = At(record, "tools");
  if (conversation.tools.is_string()) {
    const std::string text = conversation.tools.get<std::string>();
    absl::StatusOr<OrderedJson> tools =
        ParseStrictOrderedJson(text, {.max_depth = kMaxDepth});
    if (!tools.ok()) return Wrong("tools", tools.status().message());
    conversation.tools = *std::move(tools);
  }
  if (!conversation.tools.is_null() && !AreObjects(conversation.tools)) {
    return Wrong("tools", "expected a list of objects");
  }
  conversation.documents = At(record, "documents");
  if (!conversation.documents.is_null() &&
      !AreObjects(conversation.documents)) {
    return Wrong("documents", "expected a list of objects");
  }
  if (const OrderedJson& more = At(record, "chat_template_kwargs");
      !more.is_null()) {
    if (!more.is_object()) {
      return Wrong("chat_template_kwargs", "expected an object");
    }
    for (const char* reserved :
         {"messages", "tools", "documents", "add_generation_prompt"}) {
      if (more.contains(reserved)) {
        return Wrong("chat_template_kwargs",
                     absl::StrCat("\"", reserved, "\" cannot be set there"));
      }
    }
    conversation.more = more;
  }
  return conversation;
}

absl::StatusOr<Conversation> ParseConversation(absl::string_view line) {
  CASTOR_ASSIGN_OR_RETURN(
      const OrderedJson record,
      ParseStrictOrderedJson(line, {.max_depth = kMaxDepth}));
  return ReadConversation(record);
}

}  // namespace castor::text
