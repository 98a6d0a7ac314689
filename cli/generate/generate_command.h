// castor generate DIR_OR_CHECKPOINT --prompt TEXT: lets a model go on with a
// text. With --chat it holds a conversation (chat.h).
//
// The prompt is read in one pass, each further token in another, through a
// key-value cache in the device's memory. Policies and budgets are those of
// training, and so is the promise: it is admitted or refused before the first
// pass, and every budget gives the same text.
#ifndef CASTOR_CLI_GENERATE_GENERATE_COMMAND_H_
#define CASTOR_CLI_GENERATE_GENERATE_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace castor::cli {

struct GenerateArguments {
  // A Hugging Face directory, a checkpoint or a directory of checkpoints.
  std::string source;
  std::optional<std::string> prompt;  // must be given, unless `chat` is
  // A directory with a tokenizer; "": the model's own, or bytes where it has
  // none.
  std::string tokenizer;
  int64_t max_new_tokens = 0;  // 0: 64, and 512 with `chat`
  double temperature = 0;
  double top_p = 1;
  int64_t seed = 0;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string summary_path;
  bool chat = false;  // a conversation (chat.h), instead of `prompt`
  // These three count only with `chat`.
  std::string system;         // its first message; "": there is none
  std::string chat_template;  // its name; "": as text::ChatOptions has it
  // The most tokens that a conversation may have; 0: the model's positions, and
  // at most 4096.
  int64_t context = 0;
};
// Gives the exit code (cli/output/exit_code.h).
int Generate(const GenerateArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_GENERATE_GENERATE_COMMAND_H_
