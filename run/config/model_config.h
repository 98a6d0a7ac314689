// The configuration's part on the model, as far as everything below models/
// needs it.
//
// A model *family* (models/family.h) is what models of one architecture have in
// common: their keys, their names in Hugging Face's files, their modules. Its
// sizes are an Architecture, which only the family can look into. runtime/ asks
// an Architecture what every family can answer, and names no family.
#ifndef CASTOR_RUN_CONFIG_MODEL_CONFIG_H_
#define CASTOR_RUN_CONFIG_MODEL_CONFIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json_reader.h"

namespace castor {

// A model's task says what it predicts, and what its targets are
// (docs/data.md).
enum class ModelTask : uint8_t {
  kNextToken,      // after each token, the token that follows
  kMaskedTokens,   // at each place that has a target, the token there
  kTokenLabels,    // of each token, one of labels()
  kSequenceLabel,  // of a sequence, at its first token, one of labels()
  // The model says where a span of a sequence's tokens lies. The target at the
  // first token is the position of the span's first token, in [0, labels()),
  // and in a term of its own that of its last token, in [0, sequence_labels()).
  kSpan,
};

// The sizes and rates of one model. Immutable.
class Architecture {
 public:
  virtual ~Architecture() = default;

  // The name of its family: "model.type".
  virtual absl::string_view family() const = 0;
  // The number of tokens that it knows.
  virtual int64_t vocabulary() const = 0;
  virtual ModelTask task() const { return ModelTask::kNextToken; }
  // A target is in [0, labels()), or -100.
  virtual int64_t labels() const { return vocabulary(); }
  // How many labels it tells apart of a sequence beside what its task says, in
  // a term of the loss of its own; 0: there is no such term.
  virtual int64_t sequence_labels() const { return 0; }
  // The names of the terms of its loss (Model::Losses), as reports have them.
  virtual std::vector<absl::string_view> loss_terms() const { return {"loss"}; }
  // How many texts of a pair or a list it tells apart in a sequence; 1: none.
  virtual int64_t segments() const { return 1; }
  // The most tokens that a sequence may have, and the key that says so.
  virtual int64_t positions() const = 0;
  virtual absl::string_view positions_key() const = 0;
  // The tokens of a sequence where nobody says how many.
  virtual int64_t usual_positions() const { return positions(); }
  // The elements of the widest activation of each layer for one token, summed
  // over the layers: a bound by which sizes that cannot be counted are refused.
  virtual double elements_per_token() const = 0;
  // Says it in a title: "12 layers of 768".
  virtual std::string Describe() const = 0;
  // Every key of "model" with its value: the family reads the same Architecture
  // from it.
  virtual OrderedJson ToJson() const = 0;
  // Those keys, with the values in effect, whose change makes another function
  // of the parameters. (Dropout and initial values do not.)
  virtual OrderedJson Identity() const = 0;
};

// Where the sizes come from that a directory of Hugging Face's gave. Immutable.
struct ModelOrigin {
  std::string directory;
  // Its config.json's keys that mean nothing to the family, token ids among
  // them: an export gives them back as they were. An object.
  std::shared_ptr<const Json> other_keys;
};

// "model" of the configuration.
struct ModelConfig {
  // The family's name. Empty only with a directory, until its config.json has
  // been read.
  std::string type;
  // A directory of Hugging Face's: config.json and safetensors, the initial
  // values.
  std::string pretrained;
  // One of which the config.json alone is read; values begin as they do
  // without a directory. Empty where `pretrained` is not.
  std::string from_config;
  // With a directory: an object of the keys that Castor's configuration gives
  // in the place of config.json's; null for none.
  std::shared_ptr<const OrderedJson> overrides;
  // Patterns of parameter names (name_pattern.h) that are not trained.
  std::vector<std::string> frozen;
  // Null only with a directory, until its config.json has been read.
  std::shared_ptr<const Architecture> architecture;
  // Null where no directory gave the sizes, or none has been read yet. It is
  // kept with a checkpoint, is no part of the section, and is not compared.
  std::shared_ptr<const ModelOrigin> origin;

  // `pretrained` or `from_config`, and the key that has it. If it is not empty,
  // the sizes are in its config.json, and not in Castor's configuration.
  const std::string& directory() const;
  absl::string_view directory_key() const;
  // `overrides`, or an empty object.
  const OrderedJson& GetOverrides() const;
  // The section as the configuration has it: with a directory without sizes.
  OrderedJson ToJson() const;
  // The same model with its sizes in the section and no directory.
  ModelConfig WithoutDirectory() const;

  friend bool operator==(const ModelConfig& a, const ModelConfig& b);
};

// Reads "model". models/families.h has the one that knows all families.
class ModelReader {
 public:
  virtual ~ModelReader() = default;
  // Mistakes go into the reader's report; unknown keys are the caller's matter.
  // Leaves `model->architecture` null only with a directory, or after an error.
  virtual void Read(JsonReader& reader, ModelConfig* model) const = 0;
};

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_MODEL_CONFIG_H_
