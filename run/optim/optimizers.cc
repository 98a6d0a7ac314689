#include "run/optim/optimizers.h"

#include "nlohmann/json.hpp"
#include "run/optim/adam/adam.h"
#include "run/optim/lamb/lamb.h"

namespace castor {

absl::Span<const OptimizerRow> Optimizers() {
  static constexpr OptimizerRow kOptimizers[] = {
      kAdamWRow, kAdamRow, kAdamW8bitRow, kAdamW16bitRow, kLambRow,
  };
  return kOptimizers;
}

std::vector<absl::string_view> OptimizerNames() {
  std::vector<absl::string_view> names;
  for (const OptimizerRow& row : Optimizers()) names.push_back(row.name);
  return names;
}

std::shared_ptr<const Optimizer> DefaultOptimizer() {
  JsonReport report("");
  const Json nothing = Json::object();
  JsonReader params(nothing, report);
  return Optimizers().front().read(params, MomentFormat::kFloat32);
}

}  // namespace castor
