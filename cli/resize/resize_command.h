// castor resize: another budget for a run that goes on.
#ifndef CASTOR_CLI_RESIZE_RESIZE_COMMAND_H_
#define CASTOR_CLI_RESIZE_RESIZE_COMMAND_H_

#include <string>

namespace castor::cli {

struct ResizeArguments {
  int pid = 0;
  std::string device_memory;
};
// Gives the exit code (cli/output/exit_code.h).
int Resize(const ResizeArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RESIZE_RESIZE_COMMAND_H_
