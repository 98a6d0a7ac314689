// Makes tokens of a record that is a sample of its own, and labels that say
// which of them are learned, as TRL's SFTTrainer does (1.16):
//
//   text          {"text": "..."}: all is learned
//   prompt        {"prompt": "...", "completion": "..."}, both texts or both
//                 lists of messages
//   instruction   {"instruction": "...", "input": "...", "output": "..."}: the
//                 prompt of Stanford's Alpaca, and its output as completion
//   messages      {"messages": [{"role": "user", "content": "..."}, ...]}, with
//                 "tools" if there are any
//   conversations {"conversations": [{"from": "human", "value": "..."}, ...]}
//
// Texts and completions end with the tokenizer's end token, which is added
// where it is missing. A conversation becomes the text that the chat template
// makes of it.
//
// LossOn::kCompletion: the tokens are learned that follow those that the prompt
// alone has in common with prompt and completion together. Where a prompt ends
// within a token, that token is learned.
//
// LossOn::kAssistant: the text of the template's {% generation %} blocks is
// learned. A template without them is asked for the conversation up to each
// turn of the assistant, with the begin of that turn, and for the same with the
// turn: the text that the second has beyond the first is learned. Both must be
// begins of the whole. A token that is only partly within learned text is
// learned whole; the places of the tokens in the text tell (token_places.h).
// Where these cannot be told, learned text begins where the tokens of the whole
// text differ from those of the text before it. A turn with "weight": 0 is not
// learned, as in OpenAI's fine-tuning.
//
// A content that is a list of one text part is that text, for a template that
// takes texts alone; other lists are refused then. Keys of messages that the
// template never names are unused ones, "messages.KEY".
#ifndef CASTOR_TEXT_DATA_EXAMPLE_H_
#define CASTOR_TEXT_DATA_EXAMPLE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "run/config/data_config.h"
#include "text/data/chat_encoding.h"
#include "text/data/json_line.h"
#include "text/data/record_keys.h"
#include "text/data/text_encoding.h"

namespace castor {

struct ExampleRules {
  RecordFormat format = RecordFormat::kText;  // not kTokens
  LossOn loss_on = LossOn::kAll;
  RecordKeys keys;
  const TextEncoding* encoding = nullptr;
  // Null: there is no chat template, and a record that needs one is refused.
  const ChatEncoding* chat = nullptr;
  // Why there is none, for the user.
  std::string no_chat;
};

// Returns the part of such records that is learned by default.
LossOn DefaultLossOn(RecordFormat format);

// Checks `loss_on`. InvalidArgument: records of `format` have no such part.
absl::Status CheckLossOn(RecordFormat format, LossOn loss_on);

// Returns a key that differs for different rules, whatever the encoding is.
uint64_t KeyOf(const ExampleRules& rules);

// Reads the record on `line` into ids, labels and `unused` of *out.
// InvalidArgument: it is no such record, and says what is wrong; or its text
// cannot be encoded, or the template refuses it.
absl::Status ReadExample(absl::string_view line, const ExampleRules& rules,
                         JsonLine* out);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_EXAMPLE_H_
