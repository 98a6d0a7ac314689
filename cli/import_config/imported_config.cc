#include "cli/import_config/imported_config.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/annotate.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "cli/import_config/yaml_document.h"
#include "models/families.h"
#include "nlohmann/json.hpp"
#include "run/config/config.h"
#include "run/config/config_text.h"
#include "run/config/foreign/foreign_config.h"

namespace castor::cli {
namespace {

// The keys in the order in which people read them; all others follow.
constexpr const char* kOrder[] = {"model",
                                  "data",
                                  "num_train_epochs",
                                  "steps",
                                  "seed",
                                  "train_batch_size",
                                  "train_micro_batch_size_per_gpu",
                                  "gradient_accumulation_steps",
                                  "optimizer",
                                  "scheduler",
                                  "gradient_clipping",
                                  "bf16",
                                  "fp16",
                                  "eval_strategy",
                                  "eval_interval",
                                  "eval_batches",
                                  "early_stopping_patience",
                                  "early_stopping_threshold",
                                  "checkpoint",
                                  "device",
                                  "memory",
                                  "network",
                                  "steps_per_print"};

std::string Ordered(const Json& config) {
  OrderedJson ordered = OrderedJson::object();
  for (const char* const key : kOrder) {
    if (config.contains(key)) ordered[key] = config[key];
  }
  ordered.update(OrderedJson(config));
  return ordered.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

absl::StatusOr<Json> ParseSource(const SourceFile& file) {
  const absl::string_view begin = absl::StripLeadingAsciiWhitespace(file.text);
  const bool yaml = absl::EndsWithIgnoreCase(file.name, ".yaml") ||
                    absl::EndsWithIgnoreCase(file.name, ".yml") ||
                    (!absl::EndsWithIgnoreCase(file.name, ".json") &&
                     !absl::StartsWith(begin, "{"));
  if (!yaml) return ParseConfigText(file.text, file.name);
  absl::StatusOr<Json> document = ParseYaml(file.text);
  if (!document.ok()) return Annotate(file.name, document.status());
  return document;
}

// Returns the error that castor train would have for the configuration once
// model and data are there.
absl::Status Check(Json config) {
  const auto add = [&](absl::string_view path, Json value) {
    if (FindAtPath(config, path) == nullptr) {
      SetAtPath(config, path, std::move(value));
    }
  };
  // Nobody opens these paths here.
  add("model", {{"pretrained", "DIR"}});
  add("data.train", "train.jsonl");
  if (FindAtPath(config, "data.validation_fraction") == nullptr) {
    add("data.validation", "validation.jsonl");
  }
  return ParseConfig(models::Reader(), config.dump(), /*base_dir=*/"",
                     /*overrides=*/{}, /*world_size=*/1, "the result")
      .status();
}

std::string Comments(const std::vector<SourceFile>& files,
                     const ForeignConfig& config) {
  static constexpr std::pair<ForeignFate, absl::string_view> kParts[] = {
      {ForeignFate::kLacking, "Cannot be had, and is left out"},
      {ForeignFate::kToAdd, "Is for you to add"},
      {ForeignFate::kTaken, "Taken as"},
      {ForeignFate::kMeaningless, "Means nothing here"},
  };
  std::string text = "// Made by castor import-config of";
  for (size_t i = 0; i < files.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? "," : "", " ", PrintableKey(files[i].name),
                    " (", config.systems[i], ")");
  }
  text += ".\n";
  for (const auto& [fate, title] : kParts) {
    if (!config.account.Has(fate)) continue;
    absl::StrAppend(&text, "//\n// ", title, ":\n");
    for (const ForeignEntry& entry : config.account.entries()) {
      if (entry.fate != fate) continue;
      absl::StrAppend(&text, "//   ", entry.key, ": ", entry.says, "\n");
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<ImportedConfig> ImportConfigs(
    const std::vector<SourceFile>& files, absl::string_view from) {
  std::vector<ForeignDocument> documents;
  for (const SourceFile& file : files) {
    CASTOR_ASSIGN_OR_RETURN(Json json, ParseSource(file));
    documents.push_back({.name = file.name, .json = std::move(json)});
  }
  CASTOR_ASSIGN_OR_RETURN(const ForeignConfig config,
                          ImportForeign(documents, from));
  std::vector<std::string> lines;
  for (const ForeignEntry& entry : config.account.entries()) {
    if (entry.fate != ForeignFate::kLacking) continue;
    lines.push_back(
        absl::StrCat(files.size() == 1 ? absl::StrCat(files[0].name, ": ") : "",
                     entry.key, ": ", entry.says));
  }
  return ImportedConfig{
      .text = absl::StrCat(Comments(files, config),
                           Ordered(config.account.ours()), "\n"),
      .lacking = std::move(lines),
      .valid = Check(config.account.ours())};
}

}  // namespace castor::cli
