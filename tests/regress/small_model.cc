#include "tests/regress/small_model.h"

#include <cstring>
#include <filesystem>

#include "base/test_files.h"

namespace castor::testing {
namespace {

using Json = nlohmann::json;

constexpr int64_t kVocabulary = 64, kWidth = 8, kInner = 12, kPositions = 32;

// Adds tensors with values of their own.
class Adder {
 public:
  void operator()(const std::string& name, std::vector<int64_t> shape) {
    tensors_[name] = SmallValues(std::move(shape), ++seed_);
  }
  SmallTensors tensors_;

 private:
  uint32_t seed_ = 0;
};

void AddLlama(Adder& add) {
  add("model.embed_tokens.weight", {kVocabulary, kWidth});
  const std::string layer = "model.layers.0.";
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    add(layer + "self_attn." + name + ".weight", {kWidth, kWidth});
  }
  add(layer + "mlp.gate_proj.weight", {kInner, kWidth});
  add(layer + "mlp.up_proj.weight", {kInner, kWidth});
  add(layer + "mlp.down_proj.weight", {kWidth, kInner});
  add(layer + "input_layernorm.weight", {kWidth});
  add(layer + "post_attention_layernorm.weight", {kWidth});
  add("model.norm.weight", {kWidth});
}

void AddGpt2(Adder& add) {
  add("transformer.wte.weight", {kVocabulary, kWidth});
  add("transformer.wpe.weight", {kPositions, kWidth});
  const std::string layer = "transformer.h.0.";
  const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
    add(layer + name + ".weight", {in, out});
    add(layer + name + ".bias", {out});
  };
  linear("attn.c_attn", kWidth, 3 * kWidth);
  linear("attn.c_proj", kWidth, kWidth);
  linear("mlp.c_fc", kWidth, kInner);
  linear("mlp.c_proj", kInner, kWidth);
  for (const std::string& norm :
       {layer + "ln_1", layer + "ln_2", std::string("transformer.ln_f")}) {
    add(norm + ".weight", {kWidth});
    add(norm + ".bias", {kWidth});
  }
}

void AddOpt(Adder& add) {
  const std::string model = "model.decoder.", layer = model + "layers.0.";
  add(model + "embed_tokens.weight", {kVocabulary, kWidth});
  add(model + "embed_positions.weight", {kPositions + 2, kWidth});
  const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
    add(layer + name + ".weight", {out, in});
    add(layer + name + ".bias", {out});
  };
  for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    linear(std::string("self_attn.") + name, kWidth, kWidth);
  }
  linear("fc1", kWidth, kInner);
  linear("fc2", kInner, kWidth);
  for (const std::string& norm :
       {layer + "self_attn_layer_norm", layer + "final_layer_norm",
        model + "final_layer_norm"}) {
    add(norm + ".weight", {kWidth});
    add(norm + ".bias", {kWidth});
  }
}

}  // namespace

Json SmallModelConfig(const std::string& model_type) {
  if (model_type == "gpt2") {
    return {{"model_type", "gpt2"},
            {"n_layer", 1},
            {"n_head", 2},
            {"n_embd", kWidth},
            {"n_inner", kInner},
            {"n_positions", kPositions},
            {"vocab_size", kVocabulary},
            {"resid_pdrop", 0},
            {"embd_pdrop", 0},
            {"attn_pdrop", 0}};
  }
  Json config = {
      {"model_type", model_type}, {"vocab_size", kVocabulary},
      {"hidden_size", kWidth},    {"num_hidden_layers", 1},
      {"num_attention_heads", 2}, {"max_position_embeddings", kPositions}};
  if (model_type == "opt") {
    config.update(
        {{"ffn_dim", kInner}, {"word_embed_proj_dim", kWidth}, {"dropout", 0}});
  } else {
    config.update({{"intermediate_size", kInner},
                   {"num_key_value_heads", 2},
                   {"head_dim", kWidth / 2}});
  }
  return config;
}

SmallTensors SmallModelTensors(const Json& config) {
  Adder add;
  const std::string type = config["model_type"];
  if (type == "gpt2") {
    AddGpt2(add);
  } else if (type == "opt") {
    AddOpt(add);
  } else {
    AddLlama(add);
  }
  return add.tensors_;
}

SmallTensor SmallValues(std::vector<int64_t> shape, uint32_t seed) {
  SmallTensor tensor = {std::move(shape), {}};
  int64_t elements = 1;
  for (const int64_t n : tensor.shape) elements *= n;
  uint32_t state = seed * 2654435761u;
  for (int64_t i = 0; i < elements; ++i) {
    state = state * 1664525u + 1013904223u;
    tensor.values.push_back(static_cast<float>(state >> 8) * 0x1p-24f - 0.5f);
  }
  return tensor;
}

void WriteSafetensors(const std::string& path, const SmallTensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()),
                tensor.values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::string file(sizeof(size), '\0');
  std::memcpy(file.data(), &size, sizeof(size));
  WriteFile(path, file + text + data);
}

void WriteSmallModel(const std::string& directory, const Json& config,
                     const SmallTensors& tensors) {
  std::filesystem::create_directories(directory);
  WriteFile(directory + "/config.json", config.dump());
  WriteSafetensors(directory + "/model.safetensors", tensors);
}

std::map<std::string, std::vector<int64_t>> ShapesIn(const std::string& path) {
  const std::string file = ReadFile(path);
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof(size));
  std::map<std::string, std::vector<int64_t>> shapes;
  const Json header = Json::parse(file.substr(sizeof(size), size));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    shapes[name] = tensor["shape"].get<std::vector<int64_t>>();
  }
  return shapes;
}

void WriteWordTokenizer(const std::string& directory,
                        const std::vector<std::string>& words,
                        const std::string& end) {
  Json vocabulary = Json::object();
  for (size_t i = 0; i < words.size(); ++i) vocabulary[words[i]] = i;
  const Json tokenizer = {{"added_tokens", Json::array()},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                          {"post_processor", nullptr},
                          {"decoder", nullptr},
                          {"model",
                           {{"type", "WordLevel"},
                            {"vocab", vocabulary},
                            {"unk_token", words[0]}}}};
  std::filesystem::create_directories(directory);
  WriteFile(directory + "/tokenizer.json", tokenizer.dump());
  if (end.empty()) return;
  WriteFile(directory + "/tokenizer_config.json",
            Json({{"eos_token", end}}).dump());
}

}  // namespace castor::testing
