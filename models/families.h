// The table of model families, and what is done with whichever family a
// configuration or a Hugging Face directory names.
#ifndef CASTOR_MODELS_FAMILIES_H_
#define CASTOR_MODELS_FAMILIES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "models/family.h"
#include "runtime/weights/pretrained.h"

namespace castor::models {

// All families; the first is that of a configuration without "model.type".
absl::Span<const Family* const> Families();
// Null: there is none of that name.
const Family* FindFamily(absl::string_view name);
// The family that `model.type` names, which must be one.
const Family& FamilyOf(const ModelConfig& model);

// Reads "model" of a configuration for any family: sizes, or "pretrained" with
// what may stand beside it.
const ModelReader& Reader();

// Fills in what DIR/config.json says of a `model` with "pretrained": the type,
// where the configuration has none, and the architecture. InvalidArgument: the
// file is malformed, of a family that is not known or not the configuration's,
// or asks for what Castor does not do. NotFound: there is no such file.
absl::Status LoadPretrained(ModelConfig* model);

// The same of a config.json's text, for which `source` stands in messages.
absl::Status ParsePretrained(absl::string_view text, const std::string& source,
                             ModelConfig* model);

// The text of the config.json of an exported `model`: fp32 values, sorted keys.
// ParsePretrained gives the same architecture back.
std::string HfConfigText(const ModelConfig& model);

// Gives HfConfigText's text, and says whether another text is byte for byte the
// one that Castor writes for the model in it.
ExportedConfig ExportedConfigOf(const ModelConfig& model);

}  // namespace castor::models

#endif  // CASTOR_MODELS_FAMILIES_H_
