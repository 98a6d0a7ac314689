#include "run/config/foreign/colossal.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "run/config/foreign/conversions.h"
#include "run/config/foreign/foreign_account.h"
#include "run/config/foreign/foreign_key.h"
#include "run/config/foreign/foreign_sentences.h"
#include "run/config/foreign/foreign_walk.h"

namespace castor {
namespace {

using conversions::Ignored;
using conversions::Same;
using namespace foreign_sentences;  // NOLINT: the rows are made of them

constexpr char kSystem = 'C';
constexpr absl::string_view kScale =
    "castor's loss scale has no such key: it begins at 2 to "
    "fp16.initial_scale_power, doubles and halves";

// Colossal-AI takes its policies' names in any case.
void Policy(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  if (!value.is_string()) return account.Take(key.ours, value);
  account.Take(key.ours,
               absl::AsciiStrToLower(value.get_ref<const std::string&>()));
}

void Absent(const ForeignKey& key, const Json&, ForeignAccount& account) {
  account.Lack(key.says);
}

constexpr ForeignKey kKeys[] = {
    {"C", "zero.model_config.tensor_placement_policy",
     "memory.placement_policy", Policy},
    {"C", "zero.optimizer_config.gpu_margin_mem_ratio",
     "memory.gpu_margin_mem_ratio", Same},
    {"C",
     "zero.model_config.shard_strategy "
     "zero.model_config.reduce_scatter_bucket_size_mb "
     "zero.model_config.fp32_reduce_scatter "
     "zero.model_config.gradient_predivide_factor "
     "zero.model_config.reuse_fp16_shard "
     "zero.optimizer_config.keep_unsharded_params "
     "zero.optimizer_config.verbose",
     "", Ignored, kPlanned},
    {"C", "zero.optimizer_config.growth_interval", "fp16.loss_scale_window",
     Same},
    {"C", "zero.optimizer_config.hysteresis", "fp16.hysteresis", Same},
    {"C", "zero.optimizer_config.min_scale", "fp16.min_loss_scale", Same},
    {"C",
     "zero.optimizer_config.initial_scale zero.optimizer_config.max_scale "
     "zero.optimizer_config.growth_factor "
     "zero.optimizer_config.backoff_factor",
     "", Absent, kScale},
};

}  // namespace

std::vector<std::string> TakeColossal(Json* document, JsonReport* report) {
  if (FindAtPath(*document, "zero.model_config") == nullptr &&
      FindAtPath(*document, "zero.optimizer_config") == nullptr) {
    return {};
  }
  Json section = {{"zero", std::move((*document)["zero"])}};
  document->erase("zero");
  // It has the section's keys alone, so that those which are there already
  // show.
  ForeignAccount account;
  WalkForeign(
      kKeys, kSystem, section,
      [&](const std::string& path, const Json& value, const ForeignKey* row) {
        account.Begin(path);
        if (row == nullptr) {
          return account.Lack(
              "Colossal-AI has no such key that castor knows of");
        }
        const Json* given =
            row->ours.empty() ? nullptr : FindAtPath(*document, row->ours);
        row->convert(*row, value, account);
        const Json* taken = FindAtPath(account.ours(), row->ours);
        if (given != nullptr && taken != nullptr && *given != *taken) {
          account.Lack(absl::StrCat("it is ", taken->dump(), ", and ",
                                    row->ours, " is ", given->dump(),
                                    ": leave one of them out"));
        }
      });
  std::vector<std::string> ignored;
  for (const ForeignEntry& entry : account.entries()) {
    if (entry.fate == ForeignFate::kLacking) {
      report->AddError(entry.key, entry.says);
    } else if (entry.fate == ForeignFate::kMeaningless) {
      ignored.push_back(entry.key);
    }
  }
  document->merge_patch(account.ours());
  if (ignored.empty()) return {};
  return {absl::StrCat(
      "a section \"zero\" of Colossal-AI's, of which these keys mean nothing "
      "here (docs/migration.md): ",
      absl::StrJoin(ignored, ", "))};
}

}  // namespace castor
