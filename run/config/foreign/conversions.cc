#include "run/config/foreign/conversions.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "run/config/foreign/foreign_sentences.h"
#include "run/optim/optimizers.h"

namespace castor::conversions {
namespace {

using foreign_sentences::kModelConfig;
using foreign_sentences::kNothing;

// A name in lower letters: "IntervalStrategy.STEPS" is "steps".
std::string NameOf(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (!value.is_string()) return "";
  const std::string lower =
      absl::AsciiStrToLower(value.get_ref<const std::string&>());
  const size_t dot = lower.rfind('.');
  return dot == std::string::npos ? lower : lower.substr(dot + 1);
}

void LackValue(const ForeignKey& key, const Json& value,
               absl::string_view there, ForeignAccount& account) {
  account.Lack(absl::StrCat("castor has no ", value.dump(), "; there is ",
                            there, key.says.empty() ? "" : ": ", key.says));
}

constexpr char kBetasPath[] = "optimizer.params.betas";
// TrainingArguments' defaults, for Adam and for Lion.
Json TrainerBetas() { return {0.9, 0.999}; }

void TakeBeta(const Json& value, size_t index, ForeignAccount& account) {
  const Json* given = FindAtPath(account.ours(), kBetasPath);
  Json betas = given != nullptr ? *given : TrainerBetas();
  betas[index] = value;
  account.TakePart(kBetasPath, std::move(betas),
                   absl::StrCat(kBetasPath, "[", index, "] = ", value.dump()));
}

}  // namespace

bool IsOff(const Json& value) {
  if (value.is_null() || value == false) return true;
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_array() || value.is_object()) return value.empty();
  const std::string name = NameOf(value);
  return value.is_string() && (name.empty() || name == "no" || name == "none" ||
                               name == "false" || name == "off");
}

void Ignored(const ForeignKey& key, const Json&, ForeignAccount& account) {
  account.Ignore(key.says);
}

void LeftToUser(const ForeignKey& key, const Json& value,
                ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore(kNothing);
  account.LeaveToUser(key.says);
}

void Lacking(const ForeignKey& key, const Json& value,
             ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore(kNothing);
  account.Lack(absl::StrCat("it changes results, and castor does not have it: ",
                            key.says));
}

void Always(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  if (value != false) return account.Ignore(key.says);
  account.Lack(absl::StrCat("it changes results, and castor always does it: ",
                            key.says));
}

void Same(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  account.Take(key.ours, value, key.says);
}

void IfPositive(const ForeignKey& key, const Json& value,
                ForeignAccount& account) {
  if (IsOff(value) || (value.is_number() && value.get<double>() < 0)) {
    return account.Ignore(kNothing);
  }
  Same(key, value, account);
}

void Steps(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore(kNothing);
  if (value.is_number() && value.get<double>() < 1) {
    return account.LeaveToUser(absl::StrCat(value.dump(),
                                            " is a share of the run, and ",
                                            key.ours, " a number of steps"));
  }
  Same(key, value, account);
}

void Path(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    return account.LeaveToUser(absl::StrCat(key.ours, " is a path"));
  }
  const std::string& path = value.get_ref<const std::string&>();
  // A hub's names have one slash, and no directory's begins so.
  const bool looks_local = path[0] == '/' || path[0] == '.' || path[0] == '~' ||
                           !absl::StrContains(path, "/");
  account.Take(key.ours, value,
               looks_local ? ""
                           : "a directory on this machine; a model of the hub "
                             "is downloaded first (hf download)");
}

namespace {

// The paths of a data set's files, which may be a path, a list of them, or an
// object that has either.
struct NamedFiles {
  std::vector<std::string> paths;
  std::string type;  // of their records; an object's text
  std::vector<std::string> other_keys;
};

// Absent: it names no files.
std::optional<NamedFiles> FilesOf(const Json& value) {
  NamedFiles named;
  const Json* files = &value;
  if (value.is_object()) {
    const Json* type = FindAtPath(value, "type");
    if (type != nullptr) {
      named.type = type->is_string() ? type->get<std::string>() : type->dump();
    }
    for (const auto& [key, setting] : value.items()) {
      // The files' endings say what ds_type does.
      const bool read = key == "type" || key == "path" || key == "data_files" ||
                        key == "ds_type";
      if (!read && !IsOff(setting)) named.other_keys.push_back(key);
    }
    files = FindAtPath(value, "data_files");
    if (files == nullptr) files = FindAtPath(value, "path");
    if (files == nullptr) return std::nullopt;
  }
  const Json list = files->is_array() ? *files : Json::array({*files});
  for (const Json& file : list) {
    if (!file.is_string()) return std::nullopt;
    named.paths.push_back(file.get<std::string>());
  }
  return named;
}

bool IsDataFile(absl::string_view path) {
  if (!absl::ConsumeSuffix(&path, ".gz")) absl::ConsumeSuffix(&path, ".zst");
  for (const char* const ending :
       {".jsonl", ".json", ".csv", ".parquet", ".txt", ".bin", ".npy"}) {
    if (absl::EndsWith(path, ending)) return true;
  }
  return false;
}

// Returns true if Castor knows records of this type of Axolotl's by their keys.
bool IsKnownType(absl::string_view type) {
  for (const absl::string_view known :
       {"", "completion", "pretrain", "alpaca", "chat_template", "sharegpt"}) {
    if (type == known) return true;
  }
  return false;
}

}  // namespace

void DataFiles(const ForeignKey& key, const Json& value,
               ForeignAccount& account) {
  std::vector<std::string> paths;
  std::vector<std::string> other_keys;
  absl::string_view says;
  const Json sets = value.is_array() ? value : Json::array({value});
  for (const Json& set : sets) {
    const std::optional<NamedFiles> named = FilesOf(set);
    if (!named.has_value()) {
      return account.LeaveToUser(
          absl::StrCat(key.ours, " is a file, or a list of them"));
    }
    for (const std::string& path : named->paths) {
      if (!IsDataFile(path)) {
        return account.LeaveToUser(absl::StrCat(
            key.ours,
            " names files on this machine (docs/data.md): write the "
            "data set \"",
            path, "\" into one"));
      }
      if (!IsKnownType(named->type)) {
        return account.LeaveToUser(absl::StrCat(
            key.ours, ": the records of ", path, " are of the type ",
            named->type, ": docs/data.md says what records castor reads"));
      }
      paths.push_back(path);
    }
    if (named->type == "alpaca") {
      says =
          "castor's prompt is Stanford's (docs/data.md), and Axolotl's may end "
          "differently";
    }
    for (const std::string& other : named->other_keys) {
      if (std::find(other_keys.begin(), other_keys.end(), other) ==
          other_keys.end()) {
        other_keys.push_back(other);
      }
    }
  }
  account.Take(key.ours, paths.size() == 1 ? Json(paths.front()) : Json(paths),
               says);
  if (other_keys.empty()) return;
  account.LeaveToUser(absl::StrCat(
      absl::StrJoin(other_keys, ", "),
      ": data.keys, data.loss_on and the tokenizer's chat template say how "
      "records are read (docs/data.md)"));
}

void LearnsAll(const ForeignKey& key, const Json& value,
               ForeignAccount& account) {
  if (IsOff(value)) {
    return account.Ignore("castor learns what is answered by itself");
  }
  account.Take(key.ours, "all");
}

void LearnsOnly(const ForeignKey& key, const Json& value,
                ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore("data.loss_on says what is learned");
  account.Take(key.ours, std::string(key.says));
}

void Packed(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  if (!IsOff(value)) return account.LeaveToUser(key.says);
  account.Take(key.ours, "none", "each record is a sample of its own");
}

void ExcessLength(const ForeignKey& key, const Json& value,
                  ForeignAccount& account) {
  if (NameOf(value) == "truncate") return account.Ignore("so it is here");
  account.LeaveToUser(key.says);
}

void Enabled(const ForeignKey& key, const Json& value,
             ForeignAccount& account) {
  const std::string name = NameOf(value);
  if (name == "auto") {
    return account.Take(key.ours, absl::StartsWith(key.ours, "bf16"),
                        "where a GPU has it, which each has that castor has");
  }
  account.Take(key.ours, !IsOff(value));
}

void TypeName(const ForeignKey& key, const Json& value,
              ForeignAccount& account) {
  const std::string name = NameOf(value);
  if (name == "bf16" || name == "bfloat16") {
    account.Take("bf16.enabled", true);
  } else if (name == "fp16" || name == "float16" || name == "half") {
    account.Take("fp16.enabled", true);
  } else if (name == "fp32" || name == "float32" || IsOff(value)) {
    account.Take("bf16.enabled", false);
  } else if (name == "auto") {
    account.Ignore("bf16.enabled and fp16.enabled say it");
  } else {
    LackValue(key, value, "bf16, fp16 and fp32", account);
  }
}

void Checkpointing(const ForeignKey& key, const Json& value,
                   ForeignAccount& account) {
  // Axolotl has "offload" and "unsloth" here, too.
  account.Take(key.ours, IsOff(value) ? "none" : "block", key.says);
}

void Beta1(const ForeignKey&, const Json& value, ForeignAccount& account) {
  TakeBeta(value, 0, account);
}

void Beta2(const ForeignKey&, const Json& value, ForeignAccount& account) {
  TakeBeta(value, 1, account);
}

void OptimizerName(const ForeignKey& key, const Json& value,
                   ForeignAccount& account) {
  const std::string name = NameOf(value);
  for (const char* const same :
       {"adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf",
        "adamw_apex_fused", "adamw_torch_xla", "adamw_torch_npu_fused",
        "fusedadam", "deepspeedcpuadam"}) {
    if (name == same) return account.Take(key.ours, "AdamW");
  }
  for (const char* const paged :
       {"paged_adamw_32bit", "pagedadamw", "pagedadamw32bit"}) {
    if (name == paged) {
      return account.Take(key.ours, "AdamW",
                          "its states lie on the host where the device has no "
                          "room");
    }
  }
  for (const char* const smaller :
       {"adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit", "pagedadamw8bit",
        "adamw8bit", "adamw_torch_8bit", "adamw_torch_4bit"}) {
    if (name == smaller) {
      return account.Take(key.ours, "AdamW8bit",
                          "moments are in 8 bits in a way of Castor's own");
    }
  }
  if (name == "adam") return account.Take(key.ours, "Adam");
  if (name == "lamb" || name == "fusedlamb") {
    return account.Take(key.ours, "Lamb");
  }
  // transformers gives Lion its betas for Adam, and SGD the rate alone.
  const auto without_adams_numbers = [&](absl::string_view type, bool betas) {
    EraseAtPath(account.ours(), "optimizer.params.eps");
    if (!betas) EraseAtPath(account.ours(), kBetasPath);
    account.Take(key.ours, std::string(type),
                 betas ? "adam_epsilon does not concern it"
                       : "adam_beta1, adam_beta2 and adam_epsilon do not "
                         "concern it");
  };
  for (const char* const lion :
       {"lion_32bit", "paged_lion_32bit", "lion_8bit", "paged_lion_8bit"}) {
    if (name != lion) continue;
    if (FindAtPath(account.ours(), kBetasPath) == nullptr) {
      SetAtPath(account.ours(), kBetasPath, TrainerBetas());
    }
    return without_adams_numbers(
        absl::StrContains(name, "8bit") ? "Lion8bit" : "Lion", true);
  }
  if (name == "sgd") {
    if (key.systems == "T") return account.Take(key.ours, "SGD");
    return without_adams_numbers("SGD", false);
  }
  if (name == "adafactor" && key.systems != "T") {
    // transformers' Trainer gives it the rate and these.
    for (const char* const off : {"relative_step", "scale_parameter"}) {
      SetAtPath(account.ours(), absl::StrCat("optimizer.params.", off), false);
    }
    return without_adams_numbers("Adafactor", false);
  }
  for (const char* const lion :
       {"lion", "lion32bit", "pagedlion", "pagedlion32bit", "fusedlion"}) {
    if (name == lion) return account.Take(key.ours, "Lion");
  }
  for (const char* const lion : {"lion8bit", "pagedlion8bit"}) {
    if (name == lion) return account.Take(key.ours, "Lion8bit");
  }
  LackValue(key, value, absl::StrJoin(OptimizerNames(), ", "), account);
}

void ScheduleName(const ForeignKey& key, const Json& value,
                  ForeignAccount& account) {
  std::string name = NameOf(value);
  // torchtune names a function: get_cosine_schedule_with_warmup.
  absl::string_view bare = name;
  if (absl::ConsumePrefix(&bare, "get_") &&
      absl::ConsumeSuffix(&bare, "_schedule_with_warmup")) {
    name = std::string(bare);
  }
  for (const char* const same :
       {"linear", "cosine", "cosine_with_min_lr", "constant",
        "constant_with_warmup", "inverse_sqrt", "polynomial",
        "warmup_stable_decay"}) {
    if (name == same) return account.Take(key.ours, name);
  }
  LackValue(key, value,
            "linear, cosine, cosine_with_min_lr, constant, "
            "constant_with_warmup, inverse_sqrt, polynomial, "
            "warmup_stable_decay and those of docs/configuration.md",
            account);
}

void WarmupSteps(const ForeignKey& key, const Json& value,
                 ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore(kNothing);
  if (value.is_number() && value.get<double>() < 1) {
    return account.Take("scheduler.params.warmup_ratio", value);
  }
  Same(key, value, account);
}

void Kept(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  const bool all =
      IsOff(value) || (value.is_number() && value.get<double>() < 0);
  account.Take(key.ours, all ? Json(kMostOfConfig) : value,
               all ? key.says : "");
}

void EvalStrategy(const ForeignKey& key, const Json& value,
                  ForeignAccount& account) {
  const std::string name = NameOf(value);
  if (IsOff(value)) return account.Take(key.ours, "no");
  if (name == "steps" || name == "epoch") return account.Take(key.ours, name);
  LackValue(key, value, "\"steps\", \"epoch\" and \"no\"", account);
}

void SaveStrategy(const ForeignKey&, const Json& value,
                  ForeignAccount& account) {
  const std::string name = NameOf(value);
  if (IsOff(value)) {
    return account.Ignore(
        "a run saves at its end; \"checkpoint\": false saves nothing");
  }
  if (name == "steps") return account.Ignore("checkpoint.save_interval is it");
  if (name == "best") return account.Take("checkpoint.load_best", true);
  account.LeaveToUser(
      "checkpoint.save_interval is in steps; without it a run saves at its "
      "end");
}

void BestMetric(const ForeignKey& key, const Json& value,
                ForeignAccount& account) {
  const std::string text =
      value.is_string() ? value.get<std::string>() : std::string();
  absl::string_view name = text;
  absl::ConsumePrefix(&name, "eval_");
  for (const char* const same : {"loss", "perplexity", "token_accuracy"}) {
    if (name == same) return account.Take(key.ours, same);
  }
  LackValue(key, value, "\"loss\", \"perplexity\" and \"token_accuracy\"",
            account);
}

void Share(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore(kNothing);
  if (value.is_number() && value.get<double>() >= 1) {
    return account.LeaveToUser(
        absl::StrCat(value.dump(), " is a number of samples, and ", key.ours,
                     " a share of the training data"));
  }
  Same(key, value, account);
}

void FullOnly(const ForeignKey& key, const Json& value,
              ForeignAccount& account) {
  if (IsOff(value) || NameOf(value) == "full") {
    return account.Ignore("castor train trains all parameters");
  }
  account.Lack(key.says);
}

void TrainerDecay(const ForeignKey& key, const Json& value,
                  ForeignAccount& account) {
  Same(key, value, account);
  if (IsOff(value)) return;
  account.LeaveToUser(
      "transformers' Trainer decays neither biases nor the weights of norms: "
      "give their names to optimizer.no_decay, [\"*norm*\"] for llama, mistral "
      "and qwen3, [\"*.bias\", \"*norm*\"] for qwen2 and opt, [\"*.bias\", "
      "\"*ln_*\"] for gpt2");
}

void Device(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  const std::string name = NameOf(value);
  if (absl::StartsWith(name, "cuda")) return account.Take(key.ours, "cuda");
  if (name == "cpu") return account.Take(key.ours, "host");
  LackValue(key, value, "\"cuda\" and \"host\"", account);
}

void ModelComponent(const ForeignKey& key, const Json& value,
                    ForeignAccount& account) {
  const std::string name = NameOf(value);
  for (const char* const adapter : {"lora_", "qlora_", "dora_", "qdora_"}) {
    if (absl::StrContains(name, adapter)) return account.Lack(key.says);
  }
  account.Ignore(kModelConfig);
}

void OneOnly(const ForeignKey& key, const Json& value,
             ForeignAccount& account) {
  if (value.is_number() && value.get<double>() <= 1) {
    return account.Ignore(kNothing);
  }
  Lacking(key, value, account);
}

void ScheduleArguments(const ForeignKey& key, const Json& value,
                       ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore(kNothing);
  if (!value.is_object()) {
    return account.Lack(
        absl::StrCat("expected an object, found ", DescribeJson(value)));
  }
  for (const auto& [name, argument] : value.items()) {
    account.Take(absl::StrCat(key.ours, ".", name), argument);
  }
}

void StepsPerEpoch(const ForeignKey& key, const Json& value,
                   ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore(kNothing);
  account.LeaveToUser(
      absl::StrCat("castor goes through all of each epoch: if one has more "
                   "than ",
                   value.dump(), " steps, give \"steps\", ", value.dump(),
                   " for each epoch"));
}

void Sampling(const ForeignKey& key, const Json& value,
              ForeignAccount& account) {
  if (NameOf(value) == "random") return account.Ignore("so it is here");
  Lacking(key, value, account);
}

void Stage(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  const std::string name = NameOf(value);
  if (name == "pt" || name == "sft") {
    return account.Ignore("castor train learns to predict tokens");
  }
  account.Lack(key.says);
}

void Loss(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  const Json* component = FindAtPath(value, "_component_");
  const std::string name = NameOf(component != nullptr ? *component : value);
  if (absl::StrContains(name, "crossentropy") ||
      absl::StartsWith(name, "cewith")) {
    return account.Ignore(key.says);
  }
  Lacking(key, value, account);
}

void LossType(const ForeignKey& key, const Json& value,
              ForeignAccount& account) {
  if (NameOf(value) == "nll") return account.Ignore(key.says);
  Lacking(key, value, account);
}

void NotShuffled(const ForeignKey& key, const Json& value,
                 ForeignAccount& account) {
  account.Take(key.ours, IsOff(value));
}

void NoCheckpointing(const ForeignKey& key, const Json& value,
                     ForeignAccount& account) {
  account.Take(key.ours, IsOff(value) ? "block" : "none");
}

void UseCpu(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore("device.type says it");
  account.Take(key.ours, "host");
}

void Timeout(const ForeignKey& key, const Json& value,
             ForeignAccount& account) {
  constexpr double kMost = 1e6;  // of network.timeout_seconds
  if (value.is_number() && value.get<double>() > kMost) {
    return account.Take(key.ours, kMost, "the most that there is");
  }
  Same(key, value, account);
}

}  // namespace castor::conversions
