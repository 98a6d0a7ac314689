#include "run/optim/optimizers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/state_format.h"
#include "memory/plan/layout/state_layout.h"
#include "nlohmann/json.hpp"
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
  return row.read(params, row.moments.value_or(MomentFormat::kFloat32));
}

}  // namespace

absl::Span<const OptimizerRow> Optimizers() {
  static constexpr OptimizerRow kOptimizers[] = {
      kAdamWRow, kAdamRow, kAdamW8bitRow, kAdamW16bitRow,
      kLambRow,  kLionRow, kLion8bitRow,  kSgdRow,
  };
  return kOptimizers;
}

std::vector<absl::string_view> OptimizerNames() {
  std::vector<absl::string_view> names;
  for (const OptimizerRow& row : Optimizers()) names.push_back(row.name);
  return names;
}

std::vector<MomentFormat> SmallerMoments(const Optimizer& optimizer) {
  std::vector<MomentFormat> smaller;
  for (const OptimizerRow& row : Optimizers()) {
    if (row.name != optimizer.name() || !row.moments.has_value() ||
        !row.any_format.empty() || optimizer.slots().empty()) {
      continue;
    }
    for (const MomentFormat format :
         {MomentFormat::kBFloat16, MomentFormat::kInt8}) {
      if (format > optimizer.moments()) smaller.push_back(format);
    }
  }
  return smaller;
}

std::string BytesAtHome(DType dtype, bool accumulate, const Optimizer& now) {
  const auto bytes = [&](const Optimizer& optimizer, MomentFormat format) {
    const StateLayout states = {.slots = optimizer.SlotsIn(format)};
    const double of_tile =
        static_cast<double>(states.Bytes(kStateTile, accumulate));
    return absl::StrFormat("%.6g", static_cast<double>(SizeOf(dtype)) +
                                       of_tile / double{kStateTile});
  };
  // Types that take the same are told together.
  std::vector<std::pair<std::string, std::string>> types_of;  // by their bytes
  for (const OptimizerRow& row : Optimizers()) {
    if (!row.any_format.empty()) continue;
    const std::shared_ptr<const Optimizer> usual = ReadDefault(row);
    const Optimizer& optimizer = row.name == now.name() ? now : *usual;
    std::string all;
    if (!row.moments.has_value() || optimizer.slots().empty()) {
      all = bytes(optimizer, MomentFormat::kFloat32);
    } else {
      for (const MomentFormat format :
           {MomentFormat::kFloat32, MomentFormat::kBFloat16,
            MomentFormat::kInt8}) {
        absl::StrAppend(&all, all.empty() ? "" : ", ", MomentFormatName(format),
                        " ", bytes(optimizer, format));
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
  std::string text =
      absl::StrCat("a trained parameter takes ", bytes(now, now.moments()),
                   " bytes at home; by optimizer.type and "
                   "state_format.moments: ");
  for (size_t i = 0; i < types_of.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", types_of[i].second, " ",
                    types_of[i].first);
  }
  return text;
}

std::shared_ptr<const Optimizer> DefaultOptimizer() {
  return ReadDefault(Optimizers().front());
}

}  // namespace castor
