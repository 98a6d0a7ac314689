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
#include "models/gpt2/gpt2_family.h"

namespace castor::models {
namespace {

constexpr char kConfigName[] = "config.json";
constexpr int64_t kMaxConfigBytes = 1 << 20;

std::vector<absl::string_view> Names() {
  std::vector<absl::string_view> names;
  for (const Family* family : Families()) names.push_back(family->name());
  return names;
}

class AnyFamilyReader final : public ModelReader {
 public:
  void Read(JsonReader& reader, ModelConfig* model) const override {
    int type = 0;
    reader.Choice("type", Names(), &type);
    const Family& family = *Families()[type];
    reader.String("pretrained", &model->pretrained);
    reader.Strings("frozen", &model->frozen);
    if (!model->pretrained.empty()) {
      const bool named = reader.Has("type");
      if (named) model->type = std::string(family.name());
      ReadBesidePretrained(named ? Families().subspan(type, 1) : Families(),
                           reader, model);
      return;
    }
    if (reader.Has("pretrained")) {
      reader.FailExpected("pretrained", "the name of a directory");
    }
    model->type = std::string(family.name());
    model->architecture = family.Read(reader);
  }

 private:
  // Which of `families` it is, the directory's config.json says.
  static void ReadBesidePretrained(absl::Span<const Family* const> families,
                                   JsonReader& reader, ModelConfig* model) {
    OrderedJson overrides = OrderedJson::object();
    for (const Family* family : families) {
      for (const absl::string_view key : family->pretrained_keys()) {
        if (!reader.Has(key)) continue;
        reader.Fail(key, absl::StrCat("cannot stand beside ",
                                      reader.PathOf("pretrained"),
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
  static const Gpt2Family gpt2;
  static const Family* const kFamilies[] = {
      &gpt2,
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

absl::Status ParsePretrained(absl::string_view text, const std::string& source,
                             ModelConfig* model) {
  auto document = ParseStrictJson(text);
  if (!document.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", document.status().message()));
  }
  JsonReport report(source);
  const JsonReader whole(*document, report);
  CASTOR_RETURN_IF_ERROR(report.status());
  // What Castor's configuration gives was checked when it was read.
  for (const auto& [key, value] : model->GetOverrides().items()) {
    (*document)[key] = value;
  }
  JsonReader reader(*document, report);
  reader.Require("model_type");
  std::string type;
  reader.String("model_type", &type);
  CASTOR_RETURN_IF_ERROR(report.status());
  const Family* family = FindFamily(type);
  if (family == nullptr) {
    const std::vector<absl::string_view> names = Names();
    reader.Fail("model_type",
                absl::StrCat(QuotedForMessage(type), " is not supported; only ",
                             "\"", absl::StrJoin(names, "\", \""), "\" ",
                             names.size() == 1 ? "is" : "are"));
    return report.status();
  }
  if (!model->type.empty() && model->type != type) {
    reader.Fail("model_type", absl::StrCat("is \"", type,
                                           "\", but the configuration's "
                                           "model.type is \"",
                                           model->type, "\""));
  }
  OrderedJson known = OrderedJson::object();
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
  model->type = std::move(type);
  model->architecture = std::move(architecture);
  return absl::OkStatus();
}

absl::Status LoadPretrained(ModelConfig* model) {
  const std::string path = absl::StrCat(model->pretrained, "/", kConfigName);
  CASTOR_ASSIGN_OR_RETURN(const std::string text,
                          ReadSmallFile(path, kMaxConfigBytes));
  return ParsePretrained(text, path, model);
}

std::string HfConfigText(const ModelConfig& model) {
  return FamilyOf(model).HfConfig(*model.architecture).dump(2) + "\n";
}

ExportedConfig ExportedConfigOf(const ModelConfig& model) {
  return {.text = HfConfigText(model),
          .is_exported = [](absl::string_view text) {
            ModelConfig read;
            return ParsePretrained(text, kConfigName, &read).ok() &&
                   HfConfigText(read) == text;
          }};
}

}  // namespace castor::models
