// castor generate DIR_OR_CHECKPOINT --prompt TEXT: lets a model go on with a
// text.
//
// The prompt is read in one pass, each further token in another, through a
// key-value cache in the device's memory. Policies and budgets are those of
// training, and so is the promise: it is admitted or refused before the first
// pass, and every budget gives the same text.
#ifndef CASTOR_CLI_GENERATE_GENERATE_COMMAND_H_
#define CASTOR_CLI_GENERATE_GENERATE_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

namespace castor::cli {

struct GenerateArguments {
  // A Hugging Face directory, a checkpoint or a directory of checkpoints.
  std::string source;
  std::string prompt;
  // A directory with a tokenizer; "": the model's own, or bytes where it has
  // none.
  std::string tokenizer;
  int64_t max_new_tokens = 64;
  double temperature = 0;
  double top_p = 1;
  int64_t seed = 0;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string summary_path;
};
// Gives the exit code (cli/output/exit_code.h).
int Generate(const GenerateArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_GENERATE_GENERATE_COMMAND_H_
