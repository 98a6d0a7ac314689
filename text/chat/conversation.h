// A conversation, as records of training data have it.
//
//   {"messages": [{"role": "user", "content": "Hi"}, ...], "tools": [...],
//    "documents": [...], "chat_template_kwargs": {"enable_thinking": false}}
//   {"conversations": [{"from": "human", "value": "Hi"}, ...]}
//
// The first is OpenAI's form, which TRL and transformers read; its messages go
// to the template as they are. The second is ShareGPT's: "from" becomes a role
// (human and user: user; gpt, chatgpt and assistant: assistant; system; tool
// and observation: tool), "value" the content; "weight" stays.
#ifndef CASTOR_TEXT_CHAT_CONVERSATION_H_
#define CASTOR_TEXT_CHAT_CONVERSATION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"

namespace castor::text {

struct Conversation {
  OrderedJson messages = OrderedJson::array();  // of objects
  OrderedJson tools;                            // a list, or null
  OrderedJson documents;                        // a list of objects, or null
  OrderedJson more = OrderedJson::object();     // further variables
};

// Returns the conversation of a record; other keys are not looked at. `tools`
// may be a string of JSON, as data sets with columns keep it. InvalidArgument:
// names the key, and what is wrong with it.
absl::StatusOr<Conversation> ReadConversation(const OrderedJson& record);
// Does the same for a line of JSON.
absl::StatusOr<Conversation> ParseConversation(absl::string_view line);

}  // namespace castor::text

#endif  // CASTOR_TEXT_CHAT_CONVERSATION_H_
