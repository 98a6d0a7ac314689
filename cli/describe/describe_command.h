// castor describe.
#ifndef CASTOR_CLI_DESCRIBE_DESCRIBE_COMMAND_H_
#define CASTOR_CLI_DESCRIBE_DESCRIBE_COMMAND_H_

#include <CLI/CLI.hpp>
#include <string>

namespace castor::cli {

struct DescribeArguments {
  std::string format;  // "bash", "zsh", "fish" or "man"
};

void AddDescribe(CLI::App* command, DescribeArguments* arguments);

// Prints the commands and options of `app`, the program. Returns the exit code.
int Describe(const CLI::App& app, const DescribeArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_DESCRIBE_DESCRIBE_COMMAND_H_
