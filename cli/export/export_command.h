// castor export: a checkpoint as a model directory of Hugging Face.
#ifndef CASTOR_CLI_EXPORT_EXPORT_COMMAND_H_
#define CASTOR_CLI_EXPORT_EXPORT_COMMAND_H_

#include <string>

namespace castor::cli {

// checkpoint: a file, or a directory of which the newest valid one is taken.
// Gives the exit code (cli/output/exit_code.h).
int Export(const std::string& checkpoint, const std::string& directory);

}  // namespace castor::cli

#endif  // CASTOR_CLI_EXPORT_EXPORT_COMMAND_H_
