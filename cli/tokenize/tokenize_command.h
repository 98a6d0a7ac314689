// castor tokenize: standard input to token ids, or ids to text; or a file of
// conversations to text or ids.
#ifndef CASTOR_CLI_TOKENIZE_TOKENIZE_COMMAND_H_
#define CASTOR_CLI_TOKENIZE_TOKENIZE_COMMAND_H_

#include <string>

namespace castor::cli {

struct TokenizeArguments {
  std::string directory;  // which has a tokenizer; or "bytes"
  bool add_special_tokens = false;
  bool decode = false;
  bool chat = false;
  // These count only with `chat`.
  std::string chat_file;  // conversations, a line of JSON each
  bool as_text = false;
  bool add_generation_prompt = false;
  std::string chat_template;  // its name; "": as ChatOptions has it
};

// Gives the exit code (cli/output/exit_code.h).
int Tokenize(const TokenizeArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TOKENIZE_TOKENIZE_COMMAND_H_
