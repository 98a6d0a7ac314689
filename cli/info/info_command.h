// castor info: what this machine offers.
#ifndef CASTOR_CLI_INFO_INFO_COMMAND_H_
#define CASTOR_CLI_INFO_INFO_COMMAND_H_

namespace castor::cli {

struct InfoArguments {
  bool json = false;     // docs/json.md
  bool measure = false;  // print rows for castor plan --machine instead
};
// Gives the exit code (cli/output/exit_code.h).
int Info(const InfoArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_INFO_INFO_COMMAND_H_
