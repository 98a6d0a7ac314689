#include "run/optim/optimizers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/state_format.h"
#include "memory/plan/layout/state_layout.h"
#include "nlohmann/json.hpp"
#include "run/optim/adafactor/adafactor.h"
#include "run/optim/adam/adam.h"
#include "run/optim/lamb/lamb.h"
#include "run/optim/lion/lion.h"
#include "run/optim/sgd/sgd.h"

namespace castor {
namespace {

// A row's optimizer, with the hyperparameters of a configuration that gives
// none.
std::shared_ptr<const Optimizer> ReadDefault(const OptimizerRow& row) {
  JsonReport report("");
  const Json nothing = Json::object();
  JsonReader params(nothing, report);
  return row.read(params, row.formats.value_or(StateFormats()));
}

// Returns true if a configuration may choose the formats of the states.
bool TakesFormats(const OptimizerRow& row) {
  return row.formats.has_value() && row.any_format.empty();
}

template <class Format>
Format Next(Format format) {
  return static_cast<Format>(static_cast<int>(format) + 1);
}

}  // namespace

absl::Span<const OptimizerRow> Optimizers() {
  static constexpr OptimizerRow kOptimizers[] = {
      kAdamWRow, kAdamRow,     kAdamW8bitRow, kAdamW16bitRow, kLambRow,
      kLionRow,  kLion8bitRow, kSgdRow,       kAdafactorRow,
  };
  return kOptimizers;
}

std::vector<absl::string_view> OptimizerNames() {
  std::vector<absl::string_view> names;
  for (const OptimizerRow& row : Optimizers()) names.push_back(row.name);
  return names;
}

std::vector<StateFormats> SmallerFormats(const Optimizer& optimizer,
                                         DType dtype) {
  std::vector<StateFormats> smaller;
  for (const OptimizerRow& row : Optimizers()) {
    if (row.name != optimizer.name() || !TakesFormats(row)) continue;
    StateFormats formats = optimizer.formats();
    while (formats.moments != MomentFormat::kInt8 &&
           !optimizer.slots().empty()) {
      formats.moments = Next(formats.moments);
      smaller.push_back(formats);
    }
    while (formats.master != MasterFormat::kBFloat16 &&
           dtype == DType::kBFloat16) {
      formats.master = Next(formats.master);
      smaller.push_back(formats);
    }
  }
  return smaller;
}

std::string BytesAtHome(DType dtype, bool accumulate, const Optimizer& now) {
  const auto bytes = [&](const Optimizer& optimizer,
                         const StateFormats& formats) {
    const StateLayout states = optimizer.StatesIn(formats);
    const double of_tile =
        static_cast<double>(states.Bytes(kStateTile, accumulate));
    return absl::StrFormat("%.6g", static_cast<double>(SizeOf(dtype)) +
                                       of_tile / double{kStateTile});
  };
  const auto of_margins = [](const Optimizer& optimizer) {
    return optimizer.margins() ? " and 4 for each row and column" : "";
  };
  // Lists the bytes of all types that have masters of this format; types that
  // take the same are listed together.
  const auto all_types = [&](MasterFormat master) {
    std::vector<std::pair<std::string, std::string>>
        types_of;  // by their bytes
    for (const OptimizerRow& row : Optimizers()) {
      if (!row.any_format.empty() ||
          (master != MasterFormat::kFloat32 && !TakesFormats(row))) {
        continue;
      }
      const std::shared_ptr<const Optimizer> usual = ReadDefault(row);
      const Optimizer& optimizer = row.name == now.name() ? now : *usual;
      std::string all;
      if (!TakesFormats(row) || optimizer.slots().empty()) {
        all = absl::StrCat(bytes(optimizer, {.master = master}),
                           of_margins(optimizer));
      } else {
        for (const MomentFormat moments :
             {MomentFormat::kFloat32, MomentFormat::kBFloat16,
              MomentFormat::kInt8}) {
          absl::StrAppend(&all, all.empty() ? "" : ", ",
                          MomentFormatName(moments), " ",
                          bytes(optimizer, {master, moments}));
        }
      }
      const auto same =
          std::find_if(types_of.begin(), types_of.end(),
                       [&](const auto& each) { return each.first == all; });
      if (same == types_of.end()) {
        types_of.emplace_back(all, row.name);
      } else {
        absl::StrAppend(&same->second, ", ", row.name);
      }
    }
    std::vector<std::string> texts;
    for (const auto& [all, types] : types_of) {
      texts.push_back(absl::StrCat(types, " ", all));
    }
    return absl::StrJoin(texts, "; ");
  };
  std::string text =
      absl::StrCat("a trained parameter takes ", bytes(now, now.formats()),
                   " bytes at home", of_margins(now),
                   "; by optimizer.type and "
                   "state_format.moments: ",
                   all_types(MasterFormat::kFloat32));
  if (dtype != DType::kBFloat16) return text;
  for (const MasterFormat master :
       {MasterFormat::kSplit, MasterFormat::kBFloat16}) {
    absl::StrAppend(&text, "\n  with state_format.master \"",
                    MasterFormatName(master), "\": ", all_types(master));
  }
  return text;
}

std::shared_ptr<const Optimizer> DefaultOptimizer() {
  return ReadDefault(Optimizers().front());
}

}  // namespace castor
