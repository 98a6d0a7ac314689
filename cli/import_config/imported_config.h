// A configuration for Castor, made of other systems' configurations.
#ifndef CASTOR_CLI_IMPORT_CONFIG_IMPORTED_CONFIG_H_
#define CASTOR_CLI_IMPORT_CONFIG_IMPORTED_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::cli {

struct SourceFile {
  std::string name;
  std::string text;
};

struct ImportedConfig {
  // The configuration, after comments that say what became of each foreign key.
  std::string text;
  // A line for each foreign key that changes results and is not in `text`.
  std::vector<std::string> lacking;
  // The error with which castor train would refuse it, a model and data aside
  // that are yet to be added; or OK.
  absl::Status valid;
};

// Files are YAML or JSON, by their name's ending, else by how they begin.
// `from`: see ImportForeign.
// InvalidArgument: a file cannot be read, or is of no known system.
absl::StatusOr<ImportedConfig> ImportConfigs(
    const std::vector<SourceFile>& files, absl::string_view from);

}  // namespace castor::cli

#endif  // CASTOR_CLI_IMPORT_CONFIG_IMPORTED_CONFIG_H_
