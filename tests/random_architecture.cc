#include "tests/random_architecture.h"

#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/families.h"
#include "nlohmann/json.hpp"

namespace castor::testing {
namespace {

absl::StatusOr<std::shared_ptr<const Architecture>> ReadKeys(
    const models::Family& family, const Json& keys) {
  JsonReport report(std::string(family.name()));
  JsonReader reader(keys, report);
  std::shared_ptr<const Architecture> architecture = family.Read(reader);
  reader.RefuseUnknownKeys();
  if (!report.status().ok()) return report.status();
  return architecture;
}

Json RandomRope(int64_t positions, Random& random) {
  Json rope = {{"rope_theta", random.Pick({100.0, 10000.0})}};
  rope["rope_type"] =
      random.Pick({"default", "linear", "dynamic", "llama3", "yarn"});
  if (rope["rope_type"] != "default") {
    rope["factor"] = random.Pick({1.0, 2.5, 8.0});
  }
  if (rope["rope_type"] == "llama3") {
    rope["low_freq_factor"] = 1;
    rope["high_freq_factor"] = 4;
  }
  if (rope["rope_type"] == "llama3" || rope["rope_type"] == "yarn") {
    rope["original_max_position_embeddings"] = random.Uniform(1, positions);
  }
  return rope;
}

// Returns values that fit each other, by the names that transformers' families
// have for them.
std::map<std::string, Json> RandomValues(Random& random) {
  std::map<std::string, Json> values;
  const int64_t layers = random.Uniform(1, 3);
  const int64_t kv_heads = random.Uniform(1, 3);
  const int64_t heads = kv_heads * random.Uniform(1, 3);
  const int64_t head = 2 * random.Uniform(2, 6);
  const int64_t positions = random.Uniform(2, 13);
  values["num_hidden_layers"] = layers;
  values["num_attention_heads"] = heads;
  values["num_key_value_heads"] = kv_heads;
  values["head_dim"] = head;
  // As wide as its heads together, or of another width.
  const bool own_width = random.Chance(0.4);
  values["hidden_size"] = heads * (own_width ? random.Uniform(1, 7) : head);
  values["intermediate_size"] = values["ffn_dim"] = random.Uniform(1, 50);
  values["word_embed_proj_dim"] =
      random.Chance(0.5) ? values["hidden_size"] : Json(random.Uniform(1, 20));
  values["max_position_embeddings"] = positions;
  values["vocab_size"] = random.Uniform(2, 70) + (random.Chance(0.1) ? 500 : 0);
  values["rope_parameters"] = RandomRope(positions, random);
  if (random.Chance(0.5)) {
    values["sliding_window"] = random.Uniform(1, positions);
  } else {
    values["sliding_window"] = nullptr;
  }
  values["max_window_layers"] = random.Uniform(0, layers);
  // An encoder's.
  values["type_vocab_size"] = random.Uniform(1, 3);
  values["pad_token_id"] = 0;
  values["num_labels"] = random.Uniform(2, 5);
  values["head"] =
      random.Pick({"masked_lm", "sequence_classification", "pretraining",
                   "token_classification", "question_answering"});
  if (values["head"] == "question_answering") values["num_labels"] = 2;
  // Large enough for gradients to differ from layer to layer.
  values["initializer_range"] = values["init_std"] = 0.2;
  return values;
}

}  // namespace

std::shared_ptr<const Architecture> RandomArchitecture(
    const models::Family& family, Random& random) {
  const auto defaults = ReadKeys(family, Json::object());
  std::map<std::string, Json> values = RandomValues(random);
  // The other encoders learn no next sentences.
  if (family.name() != "bert" && values["head"] == "pretraining") {
    values["head"] = "masked_lm";
  }
  Json keys = Json::object();
  const OrderedJson of_family = (*defaults)->ToJson();
  for (const auto& [key, value] : of_family.items()) {
    // Layers one by one follow from max_window_layers.
    const std::string name = key == "layer_types" ? "max_window_layers" : key;
    if (const auto known = values.find(name); known != values.end()) {
      keys[name] = known->second;
    } else if (name == "hidden_act" || name == "activation_function") {
      keys[name] = random.Pick({"silu", "relu", "gelu", "gelu_new"});
    } else if (value.is_boolean()) {
      keys[name] = random.Chance(0.5);
    } else if (absl::StrContains(name, "dropout")) {
      keys[name] = random.Pick({0.0, 0.0, 0.1});
    }
  }
  const auto made = ReadKeys(family, keys);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n%s\n", made.status().ToString().c_str(),
                 keys.dump().c_str());
    std::abort();
  }
  return *made;
}

std::vector<std::string> RandomFrozen(const Architecture& architecture,
                                      Random& random) {
  if (random.Chance(0.5)) return {};
  const Json keys = architecture.ToJson();
  switch (random.Uniform(0, 6)) {
    case 0:
      return {"*embed_tokens.*", "*word_embeddings.*"};
    case 1:
      return {"*norm*", "*LayerNorm*"};
    case 2:
      return {"*.bias", "*.up_proj.*"};
    case 3:
      return {"*.layers.0.*", "*.layer.0.*"};
    case 4:
      return {"*attn*", "*attention*"};
    case 5:  // everything but the head
      return keys.value("tie_word_embeddings", false)
                 ? std::vector<std::string>{"*.layers.*", "*norm*"}
                 : std::vector<std::string>{"model.*", "*.encoder.*"};
    default:  // everything but the first norms: the longest way back
      return {"*embed*", "*_proj.*", "*post_*", "model.norm*", "lm_head*"};
  }
}

std::shared_ptr<const Architecture> WithKey(
    const std::shared_ptr<const Architecture>& architecture,
    const std::string& key, const Json& value) {
  Json keys = architecture->ToJson();
  if (!keys.contains(key)) return architecture;
  keys[key] = value;
  // It has an entry a layer.
  if (key == "num_hidden_layers") keys.erase("layer_types");
  const auto changed =
      ReadKeys(*models::FindFamily(architecture->family()), keys);
  return changed.ok() ? *changed : architecture;
}

}  // namespace castor::testing
