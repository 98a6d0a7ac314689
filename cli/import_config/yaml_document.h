// YAML as JSON.
#ifndef CASTOR_CLI_IMPORT_CONFIG_YAML_DOCUMENT_H_
#define CASTOR_CLI_IMPORT_CONFIG_YAML_DOCUMENT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"

namespace castor::cli {

// Parses one document. Values without quotes have the types that PyYAML gives
// them (yes, no, on and off are true and false), except that 1e-5 is a number.
// An empty text is an empty object.
// InvalidArgument: the text is not YAML, or is two documents, has a key twice
// or a key that is not a string, or is deeper or longer than configurations
// are.
absl::StatusOr<Json> ParseYaml(absl::string_view text);

}  // namespace castor::cli

#endif  // CASTOR_CLI_IMPORT_CONFIG_YAML_DOCUMENT_H_
