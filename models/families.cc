#include "models/families.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "models/bert/bert.h"
#include "models/gpt2/gpt2.h"
#include "models/llama/llama.h"
#include "models/mistral/mistral.h"
#include "models/opt/opt.h"
#include "models/qwen2/qwen2.h"
#include "models/qwen3/qwen3.h"
#include "models/roberta/roberta.h"
#include "runtime/weights/foreign_model.h"
#include "runtime/weights/hf_weights.h"
#include "runtime/weights/safetensors.h"
#include "runtime/weights/weight_names.h"

namespace castor::models {
namespace {

constexpr char kConfigName[] = "config.json";
constexpr char kType[] = "model_type";
constexpr char kTied[] = "tie_word_embeddings";  // all families have it
constexpr int64_t kMaxConfigBytes = 1 << 20;

// Keys of a config.json that are every export's own.
constexpr absl::string_view kOwnKeys[] = {"architectures", "dtype",
                                          "model_type", "torch_dtype"};
// Keys about things that no export has: code beside the weights, quantised
// weights, the program that wrote them.
constexpr absl::string_view kLeftKeys[] = {"auto_map", "quantization_config",
                                           "transformers_version"};

// Families that people look for in vain, and what Castor lacks for them.
struct Missing {
  absl::string_view name, why;
};
constexpr absl::string_view kScales =
    "its token embeddings are scaled, which no operator does";
constexpr Missing kMissing[] = {
    {"gemma", kScales},
    {"gemma2",
     "its token embeddings are scaled and its logits have a soft cap, which no "
     "operator does"},
    {"gemma3", kScales},
    {"gemma3_text", kScales},
};

// " (reason)", or "" where there is nothing to say.
std::string WhyMissing(absl::string_view name) {
  for (const Missing& missing : kMissing) {
    if (missing.name == name) return absl::StrCat(" (", missing.why, ")");
  }
  return "";
}

std::vector<absl::string_view> Names() {
  std::vector<absl::string_view> names;
  for (const Family* family : Families()) names.push_back(family->name());
  return names;
}

template <class Keys>
bool Contains(const Keys& keys, absl::string_view key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

// transformers' name of a type of values.
absl::string_view TorchName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
  }
  return "";
}

class AnyFamilyReader final : public ModelReader {
 public:
  void Read(JsonReader& reader, ModelConfig* model) const override {
    int type = 0;
    reader.Choice("type", Names(), &type);
    const bool type_is_wrong = reader.Failed("type");
    const Family& family = *Families()[type];
    ReadDirectory("pretrained", reader, &model->pretrained);
    ReadDirectory("from_config", reader, &model->from_config);
    if (!model->pretrained.empty() && !model->from_config.empty()) {
      reader.Fail(
          "from_config",
          absl::StrCat("cannot stand beside ", reader.PathOf("pretrained"),
                       ", which takes the weights of a directory and "
                       "its config.json: leave one of them out"));
      model->from_config.clear();
    }
    reader.Strings("frozen", &model->frozen);
    if (type_is_wrong) return;
    if (!model->directory().empty()) {
      const bool named = reader.Has("type");
      if (named) model->type = std::string(family.name());
      ReadBesideDirectory(named ? Families().subspan(type, 1) : Families(),
                          reader, model);
      return;
    }
    model->type = std::string(family.name());
    model->architecture = family.Read(reader);
  }

 private:
  static void ReadDirectory(absl::string_view key, JsonReader& reader,
                            std::string* directory) {
    reader.String(key, directory);
    if (reader.Has(key) && directory->empty()) {
      reader.FailExpected(key, "the name of a directory");
    }
  }

  // Reads a model of which the directory's config.json says to which of
  // `families` it belongs.
  static void ReadBesideDirectory(absl::Span<const Family* const> families,
                                  JsonReader& reader, ModelConfig* model) {
    OrderedJson overrides = OrderedJson::object();
    for (const Family* family : families) {
      for (const absl::string_view key : family->pretrained_keys()) {
        if (!reader.Has(key)) continue;
        reader.Fail(key, absl::StrCat("cannot stand beside ",
                                      reader.PathOf(model->directory_key()),
                                      ", whose config.json says it"));
      }
      family->ReadOverrides(reader, &overrides);
    }
    model->overrides =
        std::make_shared<const OrderedJson>(std::move(overrides));
  }
};

}  // namespace

absl::Span<const Family* const> Families() {
  static const Family* const kFamilies[] = {
      &Gpt2Family(), &BertFamily(),  &LlamaFamily(), &MistralFamily(),
      &OptFamily(),  &Qwen2Family(), &Qwen3Family(), &RobertaFamily(),
  };
  return kFamilies;
}

const Family* FindFamily(absl::string_view name) {
  for (const Family* family : Families()) {
    if (family->name() == name) return family;
  }
  return nullptr;
}

const Family& FamilyOf(const ModelConfig& model) {
  const Family* family = FindFamily(model.type);
  CASTOR_CHECK(family != nullptr);
  return *family;
}

const ModelReader& Reader() {
  static const AnyFamilyReader reader;
  return reader;
}

namespace {

// ParsePretrained's work. With `own_head` the model's head is not tied to its
// embedding, whatever the text says.
absl::Status Parse(absl::string_view text, const std::string& source,
                   bool own_head, ModelConfig* model) {
  auto document = ParseStrictJson(text);
  if (!document.ok() || !document->contains(kType)) {
    if (const std::string other = ForeignFile(text); !other.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(source, " ", other));
    }
  }
  if (!document.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", document.status().message()));
  }
  JsonReport report(source);
  const JsonReader whole(*document, report);
  CASTOR_RETURN_IF_ERROR(report.status());
  Json file = *document;
  // The overrides of Castor's configuration were checked when they were read.
  for (const auto& [key, value] : model->GetOverrides().items()) {
    (*document)[key] = value;
  }
  if (own_head) (*document)[kTied] = false;
  JsonReader reader(*document, report);
  reader.Require(kType);
  std::string type;
  reader.String(kType, &type);
  CASTOR_RETURN_IF_ERROR(report.status());
  const Family* family = FindFamily(type);
  if (family == nullptr) {
    const std::vector<absl::string_view> names = Names();
    reader.Fail(kType, absl::StrCat(QuotedForMessage(type), " is not supported",
                                    WhyMissing(type), "; only \"",
                                    absl::StrJoin(names, "\", \""), "\" ",
                                    names.size() == 1 ? "is" : "are"));
    return report.status();
  }
  if (!model->type.empty() && model->type != type) {
    reader.Fail(kType, absl::StrCat("is \"", type,
                                    "\", but the configuration's "
                                    "model.type is \"",
                                    model->type, "\""));
  }
  OrderedJson known = OrderedJson::object();
  // Another document may follow from the one that was read.
  family->TranslateHfConfig(&*document, &file);
  family->ReadOverrides(reader, &known);
  for (const auto& [key, value] : model->GetOverrides().items()) {
    if (!known.contains(key)) {
      reader.Fail(key, absl::StrCat("a model of type \"", type,
                                    "\" has no such key: leave it out of the "
                                    "configuration"));
    }
  }
  std::shared_ptr<const Architecture> architecture =
      family->ReadHfConfig(reader);
  CASTOR_RETURN_IF_ERROR(report.status());
  Json other_keys = Json::object();
  for (const auto& [key, value] : file.items()) {
    if (!Contains(reader.known(), key) && !Contains(kOwnKeys, key) &&
        !Contains(kLeftKeys, key)) {
      other_keys[key] = value;
    }
  }
  model->origin = std::make_shared<const ModelOrigin>(ModelOrigin{
      model->directory(), std::make_shared<const Json>(std::move(other_keys))});
  model->type = std::move(type);
  model->architecture = std::move(architecture);
  return absl::OkStatus();
}

// Returns true if the weights of a model whose head is tied by its config.json
// have another one all the same. Errors of the weights are found when they are
// opened.
absl::StatusOr<bool> FindOwnHead(const ModelConfig& model) {
  const OrderedJson sizes = model.architecture->ToJson();
  if (model.pretrained.empty() || !sizes.value(kTied, false)) return false;
  const auto weights = SafetensorsModel::Open(model.pretrained);
  if (!weights.ok()) return false;
  return HasHeadOfItsOwn(**weights, FamilyOf(model).hf_names());
}

// The text of the directory's config.json.
absl::StatusOr<std::string> ReadConfig(const std::string& directory,
                                       const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(const bool there, FindFile(directory, kConfigName));
  if (there) return ReadSmallFile(path, kMaxConfigBytes);
  if (const std::string foreign = ForeignModel(directory); !foreign.empty()) {
    return absl::InvalidArgumentError(foreign);
  }
  // Most often the name of a model on the hub, or of a file of weights.
  return absl::NotFoundError(absl::StrCat(
      "there is no ", path,
      ": a directory on this machine is wanted, in which save_pretrained of "
      "transformers has written a model; castor downloads none"));
}

}  // namespace

absl::Status ParsePretrained(absl::string_view text, const std::string& source,
                             ModelConfig* model) {
  return Parse(text, source, /*own_head=*/false, model);
}

absl::Status LoadPretrained(ModelConfig* model,
                            std::vector<std::string>* notes) {
  const std::string path = absl::StrCat(model->directory(), "/", kConfigName);
  CASTOR_ASSIGN_OR_RETURN(const std::string text,
                          ReadConfig(model->directory(), path));
  CASTOR_RETURN_IF_ERROR(ParsePretrained(text, path, model));
  *notes = FamilyOf(*model).Notes(*model->architecture);
  CASTOR_ASSIGN_OR_RETURN(const bool own_head, FindOwnHead(*model));
  if (own_head) {
    CASTOR_RETURN_IF_ERROR(Parse(text, path, /*own_head=*/true, model));
    notes->push_back(absl::StrCat(
        "the weights in ", model->pretrained, " have a ", kHeadName,
        " that is not their token embedding, though config.json ties the two (",
        kTied,
        "): they are kept apart, as transformers 5 does, and an export "
        "has both"));
  }
  if (!model->pretrained.empty() &&
      HasAdapterBesideWeights(model->pretrained)) {
    notes->push_back(absl::StrCat(
        model->pretrained,
        " has an adapter of PEFT's, too, which is not applied: the model is "
        "that of its ",
        kWeightsName, "; to train on from the adapter, merge it first"));
  }
  return absl::OkStatus();
}

std::string HfConfigText(const ModelConfig& model, DType dtype) {
  const Family& family = FamilyOf(model);
  Json json = family.HfConfig(*model.architecture);
  if (model.origin != nullptr) {
    // Keys that mean something to the family are those that it asks for.
    JsonReport report(kConfigName);
    JsonReader reader(json, report);
    family.ReadHfConfig(reader);
    Json merged = Json::object();
    for (const auto& [key, value] : json.items()) {
      if (Contains(reader.known(), key) || Contains(kOwnKeys, key)) {
        merged[key] = value;
      }
    }
    for (const auto& [key, value] : model.origin->other_keys->items()) {
      if (!Contains(reader.known(), key) && !Contains(kOwnKeys, key)) {
        merged[key] = value;
      }
    }
    json = std::move(merged);
  }
  json["dtype"] = TorchName(dtype);
  json["torch_dtype"] = TorchName(dtype);  // transformers below 4.56
  json["model_type"] = family.name();
  return json.dump(2) + "\n";
}

ExportedConfig ExportedConfigOf(const ModelConfig& model, DType dtype) {
  return {.text = HfConfigText(model, dtype),
          .is_exported = [](absl::string_view text) {
            ModelConfig read;
            if (!ParsePretrained(text, kConfigName, &read).ok()) return false;
            return HfConfigText(read, DType::kFloat32) == text ||
                   HfConfigText(read, DType::kBFloat16) == text ||
                   HfConfigText(read, DType::kFloat16) == text;
          }};
}

}  // namespace castor::models
