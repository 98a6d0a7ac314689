// Configurations of other systems, as castor import-config makes Castor's of
// them. The systems and what tells them apart are in the table of
// foreign_config.cc.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_CONFIG_H_
#define CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "run/config/foreign/foreign_account.h"

namespace castor {

// A file of another system's.
struct ForeignDocument {
  std::string name;  // for messages
  Json json;         // an object
};

struct ForeignConfig {
  // The systems' names, one for each document.
  std::vector<std::string> systems;
  // Its ours() is the configuration. Entries of several documents begin with
  // the document's name.
  ForeignAccount account;
};

// "deepspeed", "transformers", "axolotl", "llama-factory", "torchtune".
std::vector<absl::string_view> ForeignSystemNames();

// One configuration of all documents together, such as Axolotl's and that of
// DeepSpeed which it names. `from` is the name of the system that all are of;
// "": each document's keys tell. What a document leaves out is what its system
// takes for it, where Castor takes something else.
// InvalidArgument: a document is no object, or its keys do not tell; or there
// is no system `from`.
absl::StatusOr<ForeignConfig> ImportForeign(
    const std::vector<ForeignDocument>& documents, absl::string_view from);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_CONFIG_H_
