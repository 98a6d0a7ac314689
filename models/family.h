// A model family: all that Castor knows of the models of one architecture.
//
// To add one, make a folder beside gpt2/ with
//   - its sizes, an Architecture (run/config/model_config.h), as a table of
//   keys
//     (config_keys.h),
//   - its modules, a Model (runtime/nn/model.h),
//   - its Family, which says how its files differ from others',
// and write a row into the table of families.cc. Nothing outside models/ names
// a family; docs/extending.md goes through it step by step.
//
// Threads: a Family has no state; any number may use it.
#ifndef CASTOR_MODELS_FAMILY_H_
#define CASTOR_MODELS_FAMILY_H_

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"
#include "models/config_keys.h"
#include "run/config/model_config.h"
#include "runtime/nn/model.h"
#include "runtime/weights/hf_weights.h"

namespace castor::models {

// A key of config.json that may have one value only, since Castor does not do
// what others ask for.
struct OnlyValue {
  absl::string_view key;
  std::variant<bool, double> value;
  absl::string_view why = "";  // follows "false is not supported"
};

// A family's names and numbers.
struct FamilyRow {
  // "model.type" in Castor's configuration and "model_type" in Hugging Face's.
  absl::string_view name;
  // transformers' class of the model with its head; where models of the family
  // have several, what all of them begin with (Family::HfClass).
  absl::string_view hf_class;
  std::vector<OnlyValue> only;
  HfNames hf_names;  // how tensors are named in files
  // Keys of special tokens. An export of a model that comes from no directory
  // has null for them: transformers' defaults are those of the family's first
  // model, which a smaller vocabulary does not have.
  std::vector<absl::string_view> special_tokens = {"bos_token_id",
                                                   "eos_token_id"};
};

class Family {
 public:
  // `keys`: all that the family's configuration has.
  Family(FamilyRow row, std::vector<KeyUse> keys);
  virtual ~Family() = default;

  absl::string_view name() const { return row_.name; }

  // --- Castor's configuration.
  // Reads and checks the family's keys; errors go into the reader's report.
  virtual std::shared_ptr<const Architecture> Read(
      JsonReader& reader) const = 0;
  // Those of these keys that a pretrained directory's config.json decides.
  absl::Span<const absl::string_view> pretrained_keys() const {
    return pretrained_keys_;
  }
  // Reads those that may stand beside "pretrained" in Castor's configuration:
  // the dropouts, and which head there is. They have the same names in
  // config.json, whose values they replace.
  void ReadOverrides(JsonReader& reader, OrderedJson* overrides) const;

  // --- Hugging Face's files.
  // Reads a config.json whose "model_type" is this family's. What would change
  // the maths and Castor does not do is an error that names the key; keys
  // without influence on training (generation, summaries) are ignored.
  std::shared_ptr<const Architecture> ReadHfConfig(JsonReader& reader) const;
  // The config.json that transformers' from_pretrained takes, but for
  // "model_type" and the values' type, which every family's has
  // (models/families.h). Keys for which ReadHfConfig does not ask are those of
  // a model that comes from no directory. `architecture` is of this family,
  // here and below.
  Json HfConfig(const Architecture& architecture) const;
  // Notes for the user on keys that ReadHfConfig passed over.
  virtual std::vector<std::string> Notes(
      const Architecture& architecture) const {
    return {};
  }
  const HfNames& hf_names() const { return row_.hf_names; }
  // Puts into the `document` of a config.json the keys of Architecture::ToJson
  // that transformers says in other words, unless Castor's configuration has
  // given them. `file`, the same without what that has given, loses what is so
  // not true any more.
  virtual void TranslateHfConfig(Json* /*document*/, Json* /*file*/) const {}

  // --- The model, made in the ZeroInit scope that is open.
  virtual std::unique_ptr<Model> Make(
      const Architecture& architecture) const = 0;

 private:
  // Reports what else of a config.json is an error in this family.
  virtual void CheckHfConfig(JsonReader& reader) const {}
  // Adds keys to a config.json for releases of transformers that know a key by
  // another name, and replaces keys that none knows.
  virtual void AddOldNames(Json* json) const {}
  // transformers' class of this model.
  virtual std::string HfClass(const Architecture& /*architecture*/) const {
    return std::string(row_.hf_class);
  }

  const FamilyRow row_;
  std::vector<absl::string_view> pretrained_keys_;
  std::vector<KeyUse> overrides_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_FAMILY_H_
