// The architecture of a model, under Hugging Face's own key names
// (transformers, GPT2Config).
#ifndef CASTOR_RUNTIME_CONFIG_MODEL_CONFIG_H_
#define CASTOR_RUNTIME_CONFIG_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/json_reader.h"

namespace castor {

// Defaults are Hugging Face's. Member names are the JSON keys.
struct ModelConfig {
  std::string type = "gpt2";
  // A directory of Hugging Face's: config.json and safetensors. If not empty,
  // the sizes below are not in Castor's config but in that config.json, and are
  // without meaning here until MergePretrained.
  std::string pretrained;

  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_embd = 768;  // a multiple of n_head
  int64_t n_inner = 0;   // of the MLP; JSON null or 0: 4 * n_embd
  int64_t n_positions = 1024;
  int64_t vocab_size = 50257;
  double resid_pdrop = 0.1;  // dropout of both residual branches, in [0, 1)
  double embd_pdrop = 0.1;   // of the embeddings' sum
  double attn_pdrop = 0.1;   // of the attention's probabilities
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;  // standard deviation of initial weights
  bool tie_word_embeddings = true;

  // Patterns of parameter names (name_pattern.h) that are not trained.
  std::vector<std::string> frozen;
  // With `pretrained`: which of the three dropouts Castor's config gives; they
  // replace config.json's.
  std::vector<std::string> dropout_overrides;

  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// Reads the architecture's keys (all but type, pretrained and frozen), by their
// Hugging Face names, from any object that has them, and checks them.
void ReadGpt2Keys(JsonReader& reader, ModelConfig* model);

// "model" of Castor's config: sizes, or `pretrained` with `frozen` and
// dropouts.
void ReadModelConfig(JsonReader& reader, ModelConfig* model);

// `given` has `pretrained`; `loaded` is what that directory's config.json says.
// Returns `loaded` with what `given` adds to it.
ModelConfig MergePretrained(const ModelConfig& given, ModelConfig loaded);

}  // namespace castor

#endif  // CASTOR_RUNTIME_CONFIG_MODEL_CONFIG_H_
