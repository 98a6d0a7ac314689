// YAML as JSON.
#ifndef CASTOR_CLI_IMPORT_CONFIG_YAML_DOCUMENT_H_
#define CASTOR_CLI_IMPORT_CONFIG_YAML_DOCUMENT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"

namespace castor::cli {

// One document. Values without quotes have the types that PyYAML gives them
// (yes, no, on and off are true and false), but that 1e-5 is a number. An empty
// text is an empty object.
// InvalidArgument: it is no YAML, or two documents, has a key twice or a key
// that is no string, or is deeper or longer than configurations are.
absl::StatusOr<Json> ParseYaml(absl::string_view text);

}  // namespace castor::cli

#endif  // CASTOR_CLI_IMPORT_CONFIG_YAML_DOCUMENT_H_
