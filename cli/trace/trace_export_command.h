// castor trace export TRACE: writes a trace in another format.
#ifndef CASTOR_CLI_TRACE_TRACE_EXPORT_COMMAND_H_
#define CASTOR_CLI_TRACE_TRACE_EXPORT_COMMAND_H_

#include <string>

namespace castor::cli {

struct TraceExportArguments {
  std::string trace_path;
  std::string out_path;
  std::string format;        // "": as out_path tells
  std::string compare_path;  // "": none
};
// Gives the exit code (cli/output/exit_code.h).
int ExportTrace(const TraceExportArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRACE_TRACE_EXPORT_COMMAND_H_
