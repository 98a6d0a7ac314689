// Turns conversations into text: the part of a chat template that data sets
// need.
#ifndef CASTOR_TEXT_DATA_CHAT_ENCODING_H_
#define CASTOR_TEXT_DATA_CHAT_ENCODING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/chat/chat_templates.h"
#include "text/chat/conversation.h"

namespace castor {

// A conversation as text.
struct RenderedChat {
  std::string text;
  // True if the template marks the assistant's text; then also the bytes of
  // `text` that are marked, in their order.
  bool marks_generation = false;
  std::vector<text::jinja::TextSpan> generated;
};

// Immutable; its functions may be called by any number of threads.
struct ChatEncoding {
  // InvalidArgument: the template refuses the conversation, or fails.
  std::function<absl::StatusOr<RenderedChat>(
      const text::Conversation& conversation, bool add_generation_prompt)>
      render;
  // Returns true if a template reads this key of records or of messages, as far
  // as its source tells.
  std::function<bool(absl::string_view key)> reads;
  // True if a content may be a list of parts: one of a text makes the same text
  // as that itself.
  bool reads_parts = false;
  // The checksum of all that the template was made from.
  uint64_t checksum = 0;
};

// Loads the chat template of `directory`, whose tokenizer has the
// `named_tokens`. A template that asks for the date is given the same one each
// time, 26 July 2024, which is Llama 3.2's own, so that the same data have the
// same tokens on every day. NotFound: there is none. Others:
// ChatTemplates::Load's, and a file that cannot be read.
absl::StatusOr<ChatEncoding> LoadChatEncoding(
    const std::string& directory,
    const std::map<std::string, std::string>& named_tokens);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_CHAT_ENCODING_H_
