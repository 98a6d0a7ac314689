// A program's commands and options, as its help lists them, in the forms that
// shells and man read.
#ifndef CASTOR_CLI_DESCRIBE_COMMANDS_H_
#define CASTOR_CLI_DESCRIBE_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace castor::cli {

struct OptionInfo {
  std::vector<std::string> names;  // with their dashes; none: an operand
  // The word that stands for the value in the help; of an operand, its name;
  // "": a flag.
  std::string value;
  // The possible values, where these are few words.
  std::vector<std::string> choices;
  std::string help;
  bool required = false;
};

struct CommandInfo {
  std::vector<std::string> path;  // "trace", "view"; of the program itself none
  std::string help;
  std::vector<OptionInfo> options;  // operands are among them
  std::vector<std::string> commands;
};

// Returns the program itself, and each command after the one that it belongs
// to.
std::vector<CommandInfo> CommandsOf(const CLI::App& app);

// Return scripts that complete the words of the command line of `program`.
std::string BashCompletion(absl::string_view program,
                           const std::vector<CommandInfo>& commands);
std::string ZshCompletion(absl::string_view program,
                          const std::vector<CommandInfo>& commands);
std::string FishCompletion(absl::string_view program,
                           const std::vector<CommandInfo>& commands);

// Returns the page of the manual's section 1, in the language of man(7).
std::string ManualPage(absl::string_view program, absl::string_view version,
                       const std::vector<CommandInfo>& commands);

}  // namespace castor::cli

#endif  // CASTOR_CLI_DESCRIBE_COMMANDS_H_
