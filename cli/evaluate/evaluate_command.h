// castor evaluate CONFIG: the loss and the perplexity of a model on the
// validation data of a run's configuration, each sample once. Without
// validation data it reads the training data.
//
// Nothing is trained, so the budgets hold parameters and activations alone: a
// model that trains in them evaluates in less.
#ifndef CASTOR_CLI_EVALUATE_EVALUATE_COMMAND_H_
#define CASTOR_CLI_EVALUATE_EVALUATE_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

namespace castor::cli {

struct EvaluateArguments {
  std::string config_path;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string checkpoint;              // "", "latest" or a path
  int64_t samples = 0;                 // at most; 0: all
  std::string summary_path;
  bool json = false;  // the same on standard output: docs/json.md
};
// Gives the exit code (cli/output/exit_code.h).
int Evaluate(const EvaluateArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_EVALUATE_EVALUATE_COMMAND_H_
