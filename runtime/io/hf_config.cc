#include "runtime/io/hf_config.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"
#include "runtime/config/json_reader.h"
#include "runtime/io/small_file.h"

namespace castor {
namespace {

constexpr int64_t kMaxConfigBytes = 1 << 20;
constexpr absl::string_view kFileName = "config.json";

// What GPT2Config can ask for and Castor's GPT-2 does not do.
struct Unsupported {
  absl::string_view key;
  bool neutral;
};
constexpr Unsupported kUnsupported[] = {
    {"scale_attn_weights", true},
    {"scale_attn_by_inverse_layer_idx", false},
    {"add_cross_attention", false},
    {"is_encoder_decoder", false},
};

// Names that transformers takes for GPT-2's own (GPT2Config.attribute_map).
struct Alias {
  absl::string_view alias;
  absl::string_view key;
};
constexpr Alias kAliases[] = {
    {"hidden_size", "n_embd"},
    {"max_position_embeddings", "n_positions"},
    {"num_attention_heads", "n_head"},
    {"num_hidden_layers", "n_layer"},
};

std::string PathIn(const std::string& directory) {
  return absl::StrCat(directory, "/", kFileName);
}

}  // namespace

absl::StatusOr<ModelConfig> ParseHfConfig(absl::string_view text,
                                          const std::string& source) {
  auto document = ParseStrictJson(text);
  if (!document.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", document.status().message()));
  }
  JsonReport report(source);
  JsonReader reader(*document, report);
  reader.Require("model_type");
  std::string type;
  reader.String("model_type", &type);
  if (reader.Has("model_type") && type != "gpt2") {
    reader.Fail("model_type",
                absl::StrCat(QuotedForMessage(type),
                             " is not supported; only \"gpt2\" is"));
  }
  std::string activation = "gelu_new";
  reader.String("activation_function", &activation);
  // Both names stand for the tanh form of GELU (transformers, ACT2FN).
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    reader.Fail("activation_function",
                absl::StrCat(QuotedForMessage(activation),
                             " is not supported; only \"gelu_new\" and "
                             "\"gelu_pytorch_tanh\", which are the same, are"));
  }
  // reorder_and_upcast_attn is not among them: it orders operations for 16-bit
  // softmax, and Castor's softmax is in fp32 always.
  for (const Unsupported& option : kUnsupported) {
    bool value = option.neutral;
    reader.Bool(option.key, &value);
    if (value != option.neutral) {
      reader.Fail(option.key,
                  absl::StrCat(value ? "true" : "false", " is not supported"));
    }
  }
  for (const Alias& alias : kAliases) {
    if (reader.Has(alias.alias) && !reader.Has(alias.key)) {
      reader.Fail(alias.alias, absl::StrCat("give it as ", alias.key,
                                            ", GPT-2's own name for it"));
    }
  }
  ModelConfig config;
  ReadGpt2Keys(reader, &config);
  CASTOR_RETURN_IF_ERROR(report.status());
  return config;
}

absl::StatusOr<ModelConfig> ReadHfConfig(const std::string& directory) {
  const std::string path = PathIn(directory);
  CASTOR_ASSIGN_OR_RETURN(const std::string text,
                          ReadSmallFile(path, kMaxConfigBytes));
  return ParseHfConfig(text, path);
}

std::string FormatHfConfig(const ModelConfig& config) {
  // nlohmann::json sorts the keys, as save_pretrained does.
  nlohmann::json json = {
      {"activation_function", "gelu_new"},
      {"architectures", {"GPT2LMHeadModel"}},
      {"attn_pdrop", config.attn_pdrop},
      // Castor knows no special tokens; transformers' defaults are GPT-2's own,
      // which a smaller vocabulary does not have.
      {"bos_token_id", nullptr},
      {"dtype", "float32"},
      {"embd_pdrop", config.embd_pdrop},
      {"eos_token_id", nullptr},
      {"initializer_range", config.initializer_range},
      {"layer_norm_epsilon", config.layer_norm_epsilon},
      {"model_type", "gpt2"},
      {"n_embd", config.n_embd},
      {"n_head", config.n_head},
      {"n_inner", nullptr},
      {"n_layer", config.n_layer},
      {"n_positions", config.n_positions},
      {"resid_pdrop", config.resid_pdrop},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"torch_dtype", "float32"},  // transformers below 4.56
      {"vocab_size", config.vocab_size},
  };
  if (config.n_inner > 0) json["n_inner"] = config.n_inner;
  return json.dump(2) + "\n";
}

absl::Status WriteHfConfig(const ModelConfig& config,
                           const std::string& directory) {
  const std::string text = FormatHfConfig(config);
  CASTOR_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(PathIn(directory)));
  CASTOR_RETURN_IF_ERROR(
      file->Append(text.data(), static_cast<int64_t>(text.size())));
  return file->Commit();
}

}  // namespace castor
