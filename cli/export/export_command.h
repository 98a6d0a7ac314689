// castor export: a checkpoint as a model directory of Hugging Face.
#ifndef CASTOR_CLI_EXPORT_EXPORT_COMMAND_H_
#define CASTOR_CLI_EXPORT_EXPORT_COMMAND_H_

#include <string>

namespace castor::cli {

struct ExportArguments {
  std::string checkpoint;  // a file, or a directory: its newest valid one
  std::string directory;
  std::string dtype = "fp32";  // or "bf16", "fp16"
  std::string max_shard_size;  // as units.h reads it; empty: transformers' own
};

// Gives the exit code (cli/output/exit_code.h).
int Export(const ExportArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_EXPORT_EXPORT_COMMAND_H_
