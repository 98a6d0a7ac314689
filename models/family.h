// A model family: all that Castor knows of the models of one architecture.
//
// To add one, make a folder beside gpt2/ with
//   - its sizes, an Architecture (run/config/model_config.h),
//   - its modules, a Model (runtime/nn/model.h),
//   - its Family, which reads the sizes and makes the modules,
// and write a row into the table of families.cc. Nothing outside models/ names
// a family; docs/extending.md goes through it step by step.
//
// Threads: a Family has no state; any number may use it.
#ifndef CASTOR_MODELS_FAMILY_H_
#define CASTOR_MODELS_FAMILY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"
#include "run/config/model_config.h"
#include "runtime/nn/model.h"
#include "runtime/weights/hf_weights.h"

namespace castor::models {

class Family {
 public:
  virtual ~Family() = default;

  // "model.type" in Castor's configuration and "model_type" in Hugging Face's.
  virtual absl::string_view name() const = 0;

  // --- Castor's configuration.
  // Reads and checks the family's keys; errors go into the reader's report.
  virtual std::shared_ptr<const Architecture> Read(
      JsonReader& reader) const = 0;
  // Those of these keys that a pretrained directory's config.json decides.
  virtual absl::Span<const absl::string_view> pretrained_keys() const = 0;
  // Reads those that may stand beside "pretrained" in Castor's configuration.
  // They have the same names in config.json, whose values they replace.
  virtual void ReadOverrides(JsonReader& reader,
                             OrderedJson* overrides) const = 0;

  // --- Hugging Face's files.
  // Reads a config.json whose "model_type" is this family's. What would change
  // the maths and Castor does not do is an error that names the key; keys
  // without influence on training (generation, summaries) are ignored.
  virtual std::shared_ptr<const Architecture> ReadHfConfig(
      JsonReader& reader) const = 0;
  // The config.json that transformers' from_pretrained takes, but for
  // "model_type" and the values' type, which every family's has
  // (models/families.h). Keys for which ReadHfConfig does not ask are those of
  // a model that comes from no directory. `architecture` is of this family,
  // here and below.
  virtual Json HfConfig(const Architecture& architecture) const = 0;
  // What ReadHfConfig passed over, for the user.
  virtual std::vector<std::string> Notes(
      const Architecture& architecture) const {
    return {};
  }
  // How tensors are named in files of the family.
  virtual HfNames hf_names() const = 0;

  // --- The model, made in the ZeroInit scope that is open.
  virtual std::unique_ptr<Model> Make(
      const Architecture& architecture) const = 0;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_FAMILY_H_
