// The table of model families, and what is done with whichever family a
// configuration or a Hugging Face directory names.
#ifndef CASTOR_MODELS_FAMILIES_H_
#define CASTOR_MODELS_FAMILIES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "models/family.h"
#include "runtime/weights/hf_export.h"

namespace castor::models {

// All families; the first is that of a configuration without "model.type".
absl::Span<const Family* const> Families();
// Null: there is none of that name.
const Family* FindFamily(absl::string_view name);
// The family that `model.type` names, which must be one.
const Family& FamilyOf(const ModelConfig& model);

// Reads "model" of a configuration for any family: sizes, or "pretrained" or
// "from_config" with what may stand beside it.
const ModelReader& Reader();

// Fills in what config.json in the directory of a `model` says of it: the type,
// where the configuration has none, the architecture and the origin. *notes is
// what the user should know of it. A head that config.json ties to the token
// embedding is one of its own where a `pretrained` directory's weights have it
// with other values. InvalidArgument: the file is malformed or cannot be read,
// of a family that is not known or not the configuration's, or asks for what
// Castor does not do; or the directory is no Hugging Face model, but one of
// another kind. NotFound: there is no such file.
absl::Status LoadPretrained(ModelConfig* model,
                            std::vector<std::string>* notes);

// The same of a config.json's text, for which `source` stands in messages.
absl::Status ParsePretrained(absl::string_view text, const std::string& source,
                             ModelConfig* model);

// The text of the config.json of an exported `model` whose values are of
// `dtype`, with sorted keys. ParsePretrained gives the same architecture back.
// A model with an origin has that one's keys where they mean nothing to its
// family (token ids, "use_cache"); but not what says how files were made
// that are not exported: "auto_map", "quantization_config",
// "transformers_version".
std::string HfConfigText(const ModelConfig& model,
                         DType dtype = DType::kFloat32);

// Gives HfConfigText's text, and says whether another text is byte for byte the
// one that Castor writes for the model in it.
ExportedConfig ExportedConfigOf(const ModelConfig& model,
                                DType dtype = DType::kFloat32);

}  // namespace castor::models

#endif  // CASTOR_MODELS_FAMILIES_H_
