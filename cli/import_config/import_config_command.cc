#include "cli/import_config/import_config_command.h"

#include <cstdio>
#include <utility>

#include "base/annotate.h"
#include "base/error_list.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "cli/import_config/imported_config.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/output_file.h"

namespace castor::cli {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

absl::Status Import(const ImportConfigArguments& arguments) {
  std::vector<SourceFile> files;
  std::vector<OtherFile> inputs;
  for (const std::string& name : arguments.files) {
    absl::StatusOr<std::string> text = ReadSmallFile(name, kMaxBytes);
    CASTOR_RETURN_IF_ERROR(text.status());
    files.push_back({.name = name, .text = *std::move(text)});
    inputs.push_back({.name = name, .path = name});
  }
  if (!arguments.out.empty()) {
    CASTOR_RETURN_IF_ERROR(
        Annotate("--out", CheckReplacesNone(arguments.out, inputs)));
  }
  CASTOR_ASSIGN_OR_RETURN(const ImportedConfig config,
                          ImportConfigs(files, arguments.from));
  std::vector<std::string> errors;
  if (!arguments.partial) errors = config.lacking;
  if (!config.valid.ok()) {
    for (std::string& error : ErrorsOf(config.valid)) {
      errors.push_back(std::move(error));
    }
  }
  if (!errors.empty()) {
    return ErrorList(absl::StatusCode::kInvalidArgument, errors);
  }
  if (arguments.out.empty()) {
    std::fputs(config.text.c_str(), stdout);
    return absl::OkStatus();
  }
  return Annotate("--out", WriteWhole(arguments.out, config.text));
}

}  // namespace

int ImportConfig(const ImportConfigArguments& arguments) {
  const absl::Status status = Import(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
