// castor generate DIR_OR_CHECKPOINT --chat: a conversation with a model.
//
// Each line of standard input is a message of the user, and the model's answer
// goes to standard output, with a line's end behind it. The model reads the
// text that its chat template makes of the conversation so far. A turn's text
// mostly begins with that of the turn before, whose keys and values are in the
// cache: then only the new part is read. Where a template rewrites earlier
// turns (such as one that leaves out their reasoning), all is read again.
#ifndef CASTOR_CLI_GENERATE_CHAT_H_
#define CASTOR_CLI_GENERATE_CHAT_H_

#include "absl/status/status.h"
#include "cli/generate/generate_command.h"

namespace castor::cli {

// Holds the conversation until standard input ends. InvalidArgument: there is
// no chat template, it refuses the conversation, or that is longer than
// `context` tokens.
absl::Status Chat(const GenerateArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_GENERATE_CHAT_H_
