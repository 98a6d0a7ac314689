#include "run/optim/optimizers.h"

#include "nlohmann/json.hpp"
#include "run/optim/adam/adam.h"
#include "run/optim/lamb/lamb.h"
#include "run/optim/lion/lion.h"
#include "run/optim/sgd/sgd.h"

namespace castor {

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

std::shared_ptr<const Optimizer> DefaultOptimizer() {
  JsonReport report("");
  const Json nothing = Json::object();
  JsonReader params(nothing, report);
  return Optimizers().front().read(params, MomentFormat::kFloat32);
}

}  // namespace castor
