#include "cli/describe/describe_command.h"

#include <cstdio>
#include <vector>

#include "cli/describe/commands.h"
#include "cli/output/exit_code.h"
#include "cli/output/version.h"

namespace castor::cli {

void AddDescribe(CLI::App* command, DescribeArguments* arguments) {
  command
      ->add_option("FORMAT", arguments->format,
                   "bash, zsh, fish: a script that completes castor's words; "
                   "man: the manual page")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish", "man"}));
}

int Describe(const CLI::App& app, const DescribeArguments& arguments) {
  const std::string& name = app.get_name();
  const std::vector<CommandInfo> commands = CommandsOf(app);
  const std::string text =
      arguments.format == "bash"   ? BashCompletion(name, commands)
      : arguments.format == "zsh"  ? ZshCompletion(name, commands)
      : arguments.format == "fish" ? FishCompletion(name, commands)
                                   : ManualPage(name, kVersion, commands);
  std::fputs(text.c_str(), stdout);
  return kSuccess;
}

}  // namespace castor::cli
