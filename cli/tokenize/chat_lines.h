// Turns lines of conversations into the text, or the ids, that a model reads.
#ifndef CASTOR_CLI_TOKENIZE_CHAT_LINES_H_
#define CASTOR_CLI_TOKENIZE_CHAT_LINES_H_

#include <string>

#include "absl/status/status.h"
#include "cli/tokenize/tokenize_lines.h"
#include "text/chat/chat_templates.h"
#include "text/tokenizer/tokenizer.h"

namespace castor::cli {

// Writes each line of the file at `path`, a record with a conversation
// (text/chat/conversation.h), as a JSON string of its text if `as_text`, else
// as a JSON array of ids, [1,2,3]; the template's text alone says what is put
// around it. Blank lines are passed over. InvalidArgument: the line with this
// number is no such record, the template refuses it, or it cannot be tokenized;
// those before it were written.
absl::Status WriteChatLines(const text::ChatTemplates& templates,
                            const text::Tokenizer& tokenizer,
                            const text::ChatOptions& options, bool as_text,
                            const std::string& path, const WriteLine& write);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TOKENIZE_CHAT_LINES_H_
