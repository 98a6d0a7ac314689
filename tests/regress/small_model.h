// Hugging Face directories of small models, made by the tests of reported
// faults.
#ifndef CASTOR_TESTS_REGRESS_SMALL_MODEL_H_
#define CASTOR_TESTS_REGRESS_SMALL_MODEL_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace castor::testing {

struct SmallTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using SmallTensors = std::map<std::string, SmallTensor>;

// One layer of 8 channels with 64 tokens and 32 positions: the config.json of a
// Llama, a GPT-2, an OPT. Only OPT's and GPT-2's heads are tied, by the
// family's default.
nlohmann::json SmallModelConfig(const std::string& model_type);

// Weights of such a model, the same on every call, without a head.
SmallTensors SmallModelTensors(const nlohmann::json& config);

// Values like theirs for one more tensor; another `seed` gives other values.
SmallTensor SmallValues(std::vector<int64_t> shape, uint32_t seed);

// Writes them as fp32.
void WriteSafetensors(const std::string& path, const SmallTensors& tensors);

// Makes the directory with its config.json and its model.safetensors.
void WriteSmallModel(const std::string& directory, const nlohmann::json& config,
                     const SmallTensors& tensors);

// The names and shapes of the tensors that a file has.
std::map<std::string, std::vector<int64_t>> ShapesIn(const std::string& path);

// Makes tokenizer.json, where there is the directory, of which each of `words`
// is a token with its index for id, the first one the unknown's; and a
// tokenizer_config.json that calls `end` the eos_token, unless that is "".
void WriteWordTokenizer(const std::string& directory,
                        const std::vector<std::string>& words,
                        const std::string& end);

}  // namespace castor::testing

#endif  // CASTOR_TESTS_REGRESS_SMALL_MODEL_H_
