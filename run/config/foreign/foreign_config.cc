#include "run/config/foreign/foreign_config.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "run/config/data_config.h"
#include "run/config/foreign/conversions.h"
#include "run/config/foreign/deepspeed.h"
#include "run/config/foreign/foreign_key.h"
#include "run/config/foreign/foreign_sentences.h"
#include "run/config/foreign/foreign_walk.h"

namespace castor {
namespace {

struct ForeignSystem {
  absl::string_view name;
  char letter;
  absl::string_view title;
  // The values that it takes where a file says nothing and Castor takes others:
  // an object of its own keys.
  absl::string_view defaults;
};

constexpr ForeignSystem kSystems[] = {
    {"deepspeed", 'D', "DeepSpeed's", "{}"},
    {"transformers", 'H', "TrainingArguments of transformers",
     R"({"learning_rate": 5e-5, "weight_decay": 0.0, "max_grad_norm": 1.0,
         "num_train_epochs": 3, "per_device_train_batch_size": 8,
         "lr_scheduler_type": "linear", "seed": 42, "save_total_limit": 0})"},
    {"trl", 'H', "SFTConfig of TRL",
     R"({"learning_rate": 2e-5, "weight_decay": 0.0, "max_grad_norm": 1.0,
         "num_train_epochs": 3, "per_device_train_batch_size": 8,
         "lr_scheduler_type": "linear", "seed": 42, "max_length": 1024,
         "packing": false, "bf16": true, "logging_steps": 10,
         "save_total_limit": 0})"},
    {"axolotl", 'A', "Axolotl's",
     R"({"weight_decay": 0.0, "max_grad_norm": 1.0, "num_epochs": 1,
         "micro_batch_size": 1, "lr_scheduler": "cosine", "seed": 42,
         "sequence_len": 512, "save_total_limit": 4,
         "sample_packing": false, "excess_length_strategy": "drop"})"},
    {"llama-factory", 'L', "LLaMA-Factory's",
     R"({"learning_rate": 5e-5, "weight_decay": 0.0, "max_grad_norm": 1.0,
         "num_train_epochs": 3, "per_device_train_batch_size": 8,
         "lr_scheduler_type": "linear", "seed": 42, "cutoff_len": 2048,
         "save_total_limit": 0})"},
    {"torchtune", 'T', "torchtune's",
     R"({"dataset.packed": false, "keep_last_n_checkpoints": 0})"},
};

// Null: there is none.
const ForeignSystem* SystemNamed(absl::string_view name) {
  for (const ForeignSystem& system : kSystems) {
    if (system.name == name) return &system;
  }
  return nullptr;
}

// SFTConfig's keys are TrainingArguments' and some of its own, of which these
// tell it. Their defaults differ.
bool IsOfTrl(const Json& document) {
  static constexpr const char* kOwn[] = {"dataset_text_field",
                                         "max_length",
                                         "packing",
                                         "packing_strategy",
                                         "eval_packing",
                                         "eos_token",
                                         "chat_template_path",
                                         "padding_free",
                                         "assistant_only_loss",
                                         "completion_only_loss",
                                         "truncation_mode",
                                         "shuffle_dataset",
                                         "pad_token",
                                         "loss_type"};
  return std::any_of(std::begin(kOwn), std::end(kOwn),
                     [&](const char* key) { return document.contains(key); });
}

bool HasComponent(const Json& value) {
  if (!value.is_object()) return false;
  if (value.contains("_component_")) return true;
  return std::any_of(value.begin(), value.end(), HasComponent);
}

// Returns the number of the document's keys that the system has, less that of
// those that it does not have.
int Likeness(const Json& document, const ForeignSystem& system) {
  int likeness = 0;
  WalkForeign(TrainerKeys(), system.letter, document,
              [&](const std::string&, const Json&, const ForeignKey* row) {
                likeness += row != nullptr ? 1 : -1;
              });
  return likeness;
}

absl::StatusOr<const ForeignSystem*> SystemOf(const ForeignDocument& document,
                                              absl::string_view from) {
  if (const ForeignSystem* named = SystemNamed(from)) return named;
  const std::string names = absl::StrJoin(ForeignSystemNames(), ", ");
  if (!from.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from ", from, ": there are ", names));
  }
  if (IsDeepSpeed(DeepSpeedDoor::kTrain, document.json)) {
    return SystemNamed("deepspeed");
  }
  if (HasComponent(document.json)) return SystemNamed("torchtune");
  const ForeignSystem* best = nullptr;
  int most = 0;
  bool tie = false;
  for (const ForeignSystem& system : kSystems) {
    if (system.letter == 'D' || system.letter == 'T') continue;
    if (system.name == "trl") continue;  // see IsOfTrl
    const int likeness = Likeness(document.json, system);
    if (likeness == most) tie = true;
    if (likeness > most) {
      best = &system;
      most = likeness;
      tie = false;
    }
  }
  // LLaMA-Factory has all of transformers' keys, so that only its own tell.
  if (best != nullptr && (!tie || best->letter == 'H')) {
    const bool trl = best->letter == 'H' && IsOfTrl(document.json);
    return trl ? SystemNamed("trl") : best;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(document.name,
                   ": its keys do not tell whose configuration "
                   "it is: say --from, with one of ",
                   names));
}

// "${a.b}" in a value stands for another key's, as OmegaConf has it.
void FillIn(const Json& root, Json* value) {
  if (value->is_structured()) {
    for (Json& each : *value) FillIn(root, &each);
    return;
  }
  if (!value->is_string()) return;
  std::string text = value->get<std::string>();
  // A value that leads to itself is left after so many steps.
  for (int i = 0; i < 8; ++i) {
    const size_t begin = text.find("${");
    const size_t end = text.find('}', begin);
    if (begin == std::string::npos || end == std::string::npos) break;
    const Json* other =
        FindAtPath(root, text.substr(begin + 2, end - begin - 2));
    if (other == nullptr || !other->is_string()) break;
    text.replace(begin, end - begin + 1, other->get<std::string>());
  }
  *value = text;
}

constexpr char kWarmupSteps[] = "scheduler.params.warmup_num_steps";
constexpr char kWarmupRatio[] = "scheduler.params.warmup_ratio";

void TakeTrainerKey(const std::string& key, const Json& value,
                    const ForeignKey* row, ForeignAccount* account) {
  account->Begin(key);
  if (row != nullptr) {
    row->convert(*row, value, *account);
  } else if (conversions::IsOff(value)) {
    account->Ignore(foreign_sentences::kNothing);
  } else {
    account->Lack(
        "castor does not know it: leave it out if nothing depends on it");
  }
}

void ImportTrainer(const ForeignSystem& system, const std::string& prefix,
                   Json document, ForeignAccount* account) {
  FillIn(Json(document), &document);
  WalkForeign(
      TrainerKeys(), system.letter, document,
      [&](const std::string& path, const Json& value, const ForeignKey* row) {
        TakeTrainerKey(absl::StrCat(prefix, PrintableKey(path)), value, row,
                       account);
      });
}

// Axolotl's warm-up follows from the run's steps, which the data tell.
void TellOfWarmup(const std::string& prefix, ForeignAccount* account) {
  const Json& ours = account->ours();
  const std::string name = StringAtPath(ours, "scheduler.type");
  // A schedule of DeepSpeed's file has a warm-up of its own.
  if (name == "constant" || absl::StartsWith(name, "Warmup") ||
      FindAtPath(ours, kWarmupSteps) != nullptr ||
      FindAtPath(ours, kWarmupRatio) != nullptr) {
    return;
  }
  account->Begin(absl::StrCat(prefix, "warmup_steps (not given)"));
  account->LeaveToUser(absl::StrCat(
      "Axolotl takes 3 % of the run's steps, and at most 100: give ",
      kWarmupSteps, ", or ", kWarmupRatio, " = 0.03"));
}

// Tells which tokens TRL's trainer learns where its arguments ask for no part.
void TellOfLearned(const std::string& prefix, const Json& document,
                   ForeignAccount* account) {
  if (FindAtPath(account->ours(), "data.loss_on") != nullptr) return;
  const Json* completion = FindAtPath(document, "completion_only_loss");
  if (completion != nullptr && *completion == false) {
    account->Begin(absl::StrCat(prefix, "completion_only_loss"));
    return account->Take("data.loss_on", "all");
  }
  account->Begin(absl::StrCat(prefix, "assistant_only_loss (not given)"));
  account->LeaveToUser(
      "TRL learns all of a conversation, and of a prompt's record the "
      "completion; castor what is answered, unless data.loss_on is \"all\"");
}

// Returns true if the file says something in the place of a default.
bool IsGiven(const Json& document, const std::string& key) {
  if (FindAtPath(document, key) != nullptr) return true;
  if (key == "bf16") {
    const Json* half = FindAtPath(document, "fp16");
    return half != nullptr && !conversions::IsOff(*half);
  }
  if (key == "sample_packing") return document.contains("pretraining_dataset");
  // A null is a value, such as that of a length without a limit.
  return document.contains(key);
}

// Imports the system's defaults for keys that the file does not give and no
// file has set.
void ImportTrainerDefaults(const ForeignSystem& system,
                           const std::string& prefix, const Json& document,
                           ForeignAccount* account) {
  const Json defaults = Json::parse(system.defaults);
  for (const auto& [key, value] : defaults.items()) {
    const ForeignKey* row = FindForeignKey(TrainerKeys(), system.letter, key);
    if (FindAtPath(account->ours(), row->ours) != nullptr ||
        IsGiven(document, key)) {
      continue;
    }
    TakeTrainerKey(absl::StrCat(prefix, key, " (not given)"), value, row,
                   account);
  }
  if (system.letter == 'A') TellOfWarmup(prefix, account);
  if (system.name == "trl") TellOfLearned(prefix, document, account);
}

// Calls `take` with each value in `object` that is no object, and its path.
void TakeLeaves(const Json& object, const std::string& at,
                absl::FunctionRef<void(const std::string&, const Json&)> take) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = JoinPath(at, key);
    if (value.is_object()) {
      TakeLeaves(value, path, take);
    } else {
      take(path, value);
    }
  }
}

// Returns true if the value is the file's and not DeepSpeed's default.
bool IsGiven(const Json& document, const DeepSpeedReading& reading,
             absl::string_view path) {
  const auto& defaults = reading.defaults;
  if (std::find(defaults.begin(), defaults.end(), path) != defaults.end()) {
    return false;
  }
  return FindAtPath(document, path) != nullptr ||
         (absl::StartsWith(path, "bf16.") &&
          FindAtPath(document, "bfloat16") != nullptr);
}

void ImportDeepSpeed(const std::string& prefix, const Json& document,
                     const DeepSpeedReading& reading, ForeignAccount* account) {
  for (const ForeignEntry& entry : reading.account.entries()) {
    account->Begin(absl::StrCat(prefix, entry.key));
    if (entry.fate == ForeignFate::kMeaningless) account->Ignore(entry.says);
    if (entry.fate == ForeignFate::kLacking) account->Lack(entry.says);
  }
  for (const std::string& path : reading.autos) {
    account->Begin(absl::StrCat(prefix, path));
    account->Ignore("\"auto\" counts as absent");
  }
  TakeLeaves(reading.account.ours(), "",
             [&](const std::string& path, const Json& value) {
               if (!IsGiven(document, reading, path)) return;
               account->Begin(absl::StrCat(prefix, PrintableKey(path)));
               account->Take(path, value);
             });
}

void ImportDeepSpeedDefaults(const std::string& prefix, const Json& document,
                             const DeepSpeedReading& reading,
                             ForeignAccount* account) {
  TakeLeaves(reading.account.ours(), "",
             [&](const std::string& path, const Json& value) {
               if (IsGiven(document, reading, path) ||
                   FindAtPath(account->ours(), path) != nullptr) {
                 return;
               }
               account->Begin(
                   absl::StrCat(prefix, PrintableKey(path), " (not given)"));
               account->Take(path, value);
             });
}

// Removes a key that another one makes meaningless.
void Drop(ForeignAccount* account, absl::string_view path,
          absl::string_view why) {
  if (FindAtPath(account->ours(), path) == nullptr) return;
  account->Begin(std::string(path));
  account->Ignore(why);
  EraseAtPath(account->ours(), path);
}

// Returns true if a file to train on has text or tokens and no records.
bool IsRun(const Json& ours) {
  const Json* train = FindAtPath(ours, "data.train");
  if (train == nullptr) return false;
  const Json files = train->is_array() ? *train : Json::array({*train});
  return std::any_of(files.begin(), files.end(), [](const Json& file) {
    if (!file.is_string()) return false;
    absl::string_view name = file.get_ref<const std::string&>();
    if (!absl::ConsumeSuffix(&name, ".gz")) absl::ConsumeSuffix(&name, ".zst");
    return HasTokensByName(name) || absl::EndsWith(name, ".txt");
  });
}

// Mends what keys say together, and tells what is still missing.
void Finish(ForeignAccount* account) {
  Json& ours = account->ours();
  if (FindAtPath(ours, "steps") != nullptr) {
    Drop(account, "num_train_epochs", "steps says how long the run is");
  }
  if (FindAtPath(ours, kWarmupSteps) != nullptr) {
    Drop(account, kWarmupRatio, "scheduler.params.warmup_num_steps says it");
  }
  const Json* type = FindAtPath(ours, "scheduler.type");
  if (type == nullptr || *type == "constant") {
    for (const char* const warmup : {kWarmupSteps, kWarmupRatio}) {
      Drop(account, warmup, "a constant rate has no warm-up");
    }
  }
  const Json* strategy = FindAtPath(ours, "eval_strategy");
  const Json* interval = FindAtPath(ours, "eval_interval");
  const bool evaluates =
      strategy != nullptr ? *strategy != "no" : interval != nullptr;
  if (strategy != nullptr && *strategy != "steps") {
    Drop(account, "eval_interval", "eval_strategy says when");
  } else if (strategy != nullptr && interval == nullptr) {
    // transformers evaluates as often as it logs, and logs every 500 steps
    // unless it is told otherwise.
    const Json* print = FindAtPath(ours, "steps_per_print");
    ours["eval_interval"] = print != nullptr ? *print : Json(500);
  }
  if (StringAtPath(ours, "data.packing") == "none" && IsRun(ours)) {
    Drop(account, "data.packing", "a file of text or of tokens is one run");
  }
  if (evaluates && FindAtPath(ours, "eval_batches") == nullptr) {
    account->Begin("eval_batches (not given)");
    account->Take("eval_batches", conversions::kMostOfConfig,
                  foreign_sentences::kAll);
  }
  for (const char* const type : {"fp16", "bf16"}) {
    const Json* enabled = FindAtPath(ours, absl::StrCat(type, ".enabled"));
    if (enabled != nullptr && *enabled == false) ours.erase(type);
  }
  if (evaluates && FindAtPath(ours, "data.validation") == nullptr &&
      FindAtPath(ours, "data.validation_fraction") == nullptr) {
    account->Begin("data.validation");
    account->LeaveToUser(
        "a file, or data.validation_fraction: evaluations "
        "are asked for");
  }
  static constexpr std::pair<const char*, const char*> kNeeded[] = {
      {"model", "{\"pretrained\": DIR}, a directory of Hugging Face's"},
      {"data.train", "a file (docs/data.md)"},
      {"device", "{\"type\": \"cuda\"} for a GPU; else the host emulates one"},
  };
  for (const auto& [key, what] : kNeeded) {
    if (FindAtPath(ours, key) != nullptr) continue;
    account->Begin(key);
    account->LeaveToUser(what);
  }
}

}  // namespace

std::vector<absl::string_view> ForeignSystemNames() {
  std::vector<absl::string_view> names;
  for (const ForeignSystem& system : kSystems) names.push_back(system.name);
  return names;
}

absl::StatusOr<ForeignConfig> ImportForeign(
    const std::vector<ForeignDocument>& documents, absl::string_view from) {
  ForeignConfig result;
  // Values that files leave out are filled in after all of them are read.
  std::vector<std::function<void()>> defaults;
  for (const ForeignDocument& document : documents) {
    const Json& json = document.json;
    if (!json.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(document.name, ": expected keys with values, found ",
                       DescribeJson(json)));
    }
    CASTOR_ASSIGN_OR_RETURN(const ForeignSystem* system,
                            SystemOf(document, from));
    result.systems.emplace_back(system->title);
    const bool alone = documents.size() == 1;
    const std::string prefix = alone ? "" : absl::StrCat(document.name, ": ");
    if (system->letter == 'D') {
      // Alone, nothing else says what "auto" stands for.
      const DeepSpeedReading reading = ReadDeepSpeed(
          alone ? DeepSpeedDoor::kTrain : DeepSpeedDoor::kClient, json);
      ImportDeepSpeed(prefix, json, reading, &result.account);
      defaults.emplace_back([prefix, &json, reading, &result] {
        ImportDeepSpeedDefaults(prefix, json, reading, &result.account);
      });
    } else {
      ImportTrainer(*system, prefix, json, &result.account);
      defaults.emplace_back([system, prefix, &json, &result] {
        ImportTrainerDefaults(*system, prefix, json, &result.account);
      });
    }
  }
  for (const auto& fill_in : defaults) fill_in();
  Finish(&result.account);
  return result;
}

}  // namespace castor
