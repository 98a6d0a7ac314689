// castor trace view TRACE: serves the page of a trace.
#ifndef CASTOR_CLI_TRACE_TRACE_VIEW_COMMAND_H_
#define CASTOR_CLI_TRACE_TRACE_VIEW_COMMAND_H_

#include <optional>
#include <string>

namespace castor::cli {

struct TraceViewArguments {
  std::string trace_path;
  std::string compare_path;  // "": none
  std::optional<int> port;   // 0: any free one
};
// Gives the exit code (cli/output/exit_code.h).
int ViewTrace(const TraceViewArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRACE_TRACE_VIEW_COMMAND_H_
