#include "run/config/foreign/deepspeed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "run/config/foreign/foreign_key.h"
#include "run/config/foreign/foreign_walk.h"

namespace castor {
namespace {

constexpr char kSystem = 'D';
constexpr char kOldClipping[] = "optimizer.params.max_grad_norm";
// transformers fills in an "auto" with per_device_train_batch_size, which is
// this if nothing is said.
constexpr int kUsualMicroBatch = 8;

// Castor has these sections and sizes, too, but only DeepSpeed's files have
// values "auto" there.
constexpr absl::string_view kSections[] = {"optimizer", "scheduler", "fp16",
                                           "bf16", "bfloat16"};
constexpr absl::string_view kSizes[] = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_clipping",
    "gradient_accumulation_steps", "steps_per_print"};

// Returns true if the key alone tells that a file is DeepSpeed's.
bool IsDeepSpeedAlone(const ForeignKey& key) {
  return !absl::StrContains(key.systems, "?");
}

void FindAutos(const Json& object, const std::string& at,
               std::vector<std::string>* autos) {
  for (const auto& [key, value] : object.items()) {
    const std::string path = JoinPath(at, key);
    if (value == "auto") autos->push_back(path);
    if (value.is_object()) FindAutos(value, path, autos);
  }
}

// The paths at which there is "auto" where only DeepSpeed's files have it. In
// zero_optimization and the like nothing depends on it.
std::vector<std::string> AutosOf(const Json& document) {
  std::vector<std::string> autos;
  for (const absl::string_view size : kSizes) {
    const Json* value = FindAtPath(document, size);
    if (value != nullptr && *value == "auto") autos.emplace_back(size);
  }
  for (const absl::string_view section : kSections) {
    const Json* object = FindAtPath(document, section);
    if (object != nullptr && object->is_object()) {
      FindAutos(*object, std::string(section), &autos);
    }
  }
  return autos;
}

bool SaysHowLong(const Json& document) {
  return FindAtPath(document, "steps") != nullptr ||
         FindAtPath(document, "num_train_epochs") != nullptr;
}

// A default of DeepSpeed's that is not Castor's. `applies` sees the
// configuration of Castor's so far, and what DeepSpeed's file was.
struct Default {
  absl::string_view path;
  double value;
  bool is_bool;
  bool (*applies)(const Json& ours, const Json& theirs);
};

bool HasAdam(const Json& ours) {
  if (FindAtPath(ours, "optimizer") == nullptr) return false;
  const std::string type = StringAtPath(ours, "optimizer.type");
  return type.empty() || type == "Adam" || type == "AdamW";
}

constexpr Default kDefaults[] = {
    // torch_adam asks for torch.optim.AdamW, which has 0.01.
    {"optimizer.params.weight_decay", 0, false,
     [](const Json& ours, const Json& theirs) {
       const Json* torch = FindAtPath(theirs, "optimizer.params.torch_adam");
       return HasAdam(ours) && (torch == nullptr || *torch == false);
     }},
    {"optimizer.params.adam_w_mode", 1, true,
     [](const Json& ours, const Json&) {
       return StringAtPath(ours, "optimizer.type") == "Adam";
     }},
    {"scheduler.params.warmup_max_lr", 0.001, false,
     [](const Json& ours, const Json& theirs) {
       const std::string type = StringAtPath(ours, "scheduler.type");
       // "auto" is the optimizer's rate.
       return (type == "WarmupLR" || type == "WarmupDecayLR") &&
              FindAtPath(theirs, "scheduler.params.warmup_max_lr") == nullptr;
     }},
};

void TakeDefaults(const Json& theirs, DeepSpeedReading* reading) {
  Json& ours = reading->account.ours();
  for (const Default& each : kDefaults) {
    if (FindAtPath(ours, each.path) != nullptr || !each.applies(ours, theirs)) {
      continue;
    }
    // A section of another kind is for the reader to refuse.
    const absl::string_view section = each.path.substr(0, each.path.find('.'));
    const std::string params = absl::StrCat(section, ".params");
    if (!FindAtPath(ours, section)->is_object()) continue;
    const Json* given = FindAtPath(ours, params);
    if (given != nullptr && !given->is_object()) continue;
    const Json value = each.is_bool ? Json(each.value != 0) : Json(each.value);
    SetAtPath(ours, each.path, value);
    reading->defaults.emplace_back(each.path);
    reading->notes.push_back(absl::StrCat(
        each.path, " is not given: ", value.dump(), ", as DeepSpeed has it"));
  }
}

// Adds what the script that starts DeepSpeed would say, since castor train has
// none.
void TakeLength(DeepSpeedReading* reading) {
  Json& ours = reading->account.ours();
  std::vector<std::string>& notes = reading->notes;
  if (!SaysHowLong(ours)) {
    const Json* total = FindAtPath(ours, "scheduler.params.total_num_steps");
    if (total != nullptr && total->is_number()) {
      notes.push_back(
          absl::StrCat("neither steps nor num_train_epochs is given: steps is ",
                       total->dump(), ", scheduler.params.total_num_steps"));
      ours["steps"] = *total;
    } else {
      notes.emplace_back(
          "neither steps nor num_train_epochs is given: num_train_epochs is 1, "
          "one pass over the data");
      ours["num_train_epochs"] = 1;
    }
  }
  const auto was_auto = [&](absl::string_view path) {
    return std::find(reading->autos.begin(), reading->autos.end(), path) !=
           reading->autos.end();
  };
  constexpr char kBatch[] = "train_batch_size";
  constexpr char kMicro[] = "train_micro_batch_size_per_gpu";
  if (FindAtPath(ours, kBatch) == nullptr &&
      FindAtPath(ours, kMicro) == nullptr &&
      (was_auto(kBatch) || was_auto(kMicro))) {
    notes.push_back(absl::StrCat(kMicro, " is ", kUsualMicroBatch,
                                 ", with which transformers fills in \"auto\" "
                                 "where nothing else is said"));
    ours[kMicro] = kUsualMicroBatch;
  }
  if (FindAtPath(ours, "optimizer") == nullptr) {
    notes.emplace_back("optimizer is not given: AdamW");
  }
  if (FindAtPath(ours, "device") == nullptr) {
    notes.emplace_back(
        "device is not given: the host, which emulates a GPU that has as much "
        "memory as memory.device_memory says; {\"device\": {\"type\": "
        "\"cuda\"}} takes a GPU, and without memory.device_memory all of its "
        "free memory");
  }
}

// Returns the keys that mean nothing here, for one line. The section stands for
// all keys of zero_optimization.
std::string Meaningless(const ForeignAccount& account) {
  std::vector<std::string> names;
  for (const ForeignEntry& entry : account.entries()) {
    if (entry.fate != ForeignFate::kMeaningless) continue;
    std::string name = entry.key;
    if (absl::StartsWith(name, "zero_optimization.")) {
      name = "zero_optimization";
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

bool IsDeepSpeed(DeepSpeedDoor door, const Json& document) {
  if (!document.is_object()) return false;
  for (const ForeignKey& key : DeepSpeedKeys()) {
    if (!IsDeepSpeedAlone(key)) continue;
    for (const absl::string_view path : PathsOf(key)) {
      if (FindAtPath(document, path) != nullptr) return true;
    }
  }
  if (!AutosOf(document).empty()) return true;
  // Castor has the key, too, but its own files say how long to train, and those
  // for a program do not say when to print.
  return FindAtPath(document, kOldClipping) != nullptr &&
         (door == DeepSpeedDoor::kTrain
              ? !SaysHowLong(document)
              : FindAtPath(document, "steps_per_print") != nullptr);
}

DeepSpeedReading ReadDeepSpeed(DeepSpeedDoor door, const Json& document) {
  DeepSpeedReading reading{.account = ForeignAccount(document),
                           .autos = AutosOf(document),
                           .defaults = {},
                           .notes = {}};
  ForeignAccount& account = reading.account;
  Json& ours = account.ours();
  for (const std::string& path : reading.autos) EraseAtPath(ours, path);
  const Json without_autos = ours;
  WalkForeign(
      DeepSpeedKeys(), kSystem, without_autos,
      [&](const std::string& path, const Json& value, const ForeignKey* row) {
        account.Begin(path);
        if (row != nullptr) {
          EraseAtPath(ours, path);
          row->convert(*row, value, account);
        } else if (absl::StartsWith(path, "zero_optimization.")) {
          EraseAtPath(ours, path);
          account.Lack("DeepSpeed has no such key that castor knows of");
        }
      });
  // "zero_optimization": {} has no keys to go through.
  EraseAtPath(ours, "zero_optimization");
  // The params of a type that Castor lacks would be as many errors more.
  for (const ForeignEntry& entry : account.entries()) {
    if (entry.fate != ForeignFate::kLacking) continue;
    if (entry.key == "optimizer.type") EraseAtPath(ours, "optimizer");
    if (entry.key == "scheduler.type") EraseAtPath(ours, "scheduler");
  }
  if (door == DeepSpeedDoor::kClient && ours.contains("steps_per_print")) {
    account.Begin("steps_per_print");
    account.Ignore("the program prints what it wants");
    ours.erase("steps_per_print");
  }
  if (const std::string names = Meaningless(account); !names.empty()) {
    reading.notes.push_back(absl::StrCat(
        "a configuration of DeepSpeed's, of which these keys mean nothing here "
        "(docs/migration.md): ",
        names));
  }
  if (door == DeepSpeedDoor::kTrain && !reading.autos.empty()) {
    reading.notes.push_back(absl::StrCat("\"auto\" counts as absent: ",
                                         absl::StrJoin(reading.autos, ", ")));
  }
  TakeDefaults(document, &reading);
  if (door == DeepSpeedDoor::kTrain) TakeLength(&reading);
  return reading;
}

DeepSpeedReading TakeDeepSpeed(DeepSpeedDoor door, Json* document,
                               JsonReport* report) {
  if (!IsDeepSpeed(door, *document)) return {};
  DeepSpeedReading reading = ReadDeepSpeed(door, *document);
  for (const ForeignEntry& entry : reading.account.entries()) {
    if (entry.fate == ForeignFate::kLacking) {
      report->AddError(entry.key, entry.says);
    }
  }
  *document = reading.account.ours();
  return reading;
}

}  // namespace castor
