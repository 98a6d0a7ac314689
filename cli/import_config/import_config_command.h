// castor import-config: the configuration of another system as Castor's.
#ifndef CASTOR_CLI_IMPORT_CONFIG_IMPORT_CONFIG_COMMAND_H_
#define CASTOR_CLI_IMPORT_CONFIG_IMPORT_CONFIG_COMMAND_H_

#include <string>
#include <vector>

namespace castor::cli {

struct ImportConfigArguments {
  std::vector<std::string> files;
  std::string from;  // a system's name; "": the keys tell
  std::string out;   // "": standard output
  bool partial = false;
};

// Gives the exit code (cli/output/exit_code.h).
int ImportConfig(const ImportConfigArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_IMPORT_CONFIG_IMPORT_CONFIG_COMMAND_H_
