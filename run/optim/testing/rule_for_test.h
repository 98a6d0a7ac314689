// An optimizer's rule for tests, as a configuration would name it.
#ifndef CASTOR_RUN_OPTIM_TESTING_RULE_FOR_TEST_H_
#define CASTOR_RUN_OPTIM_TESTING_RULE_FOR_TEST_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "run/optim/optimizers.h"

namespace castor {

// The rule of this type with these of its parameters, an object's text; null:
// there is no such type.
inline std::shared_ptr<const Optimizer> RuleForTest(
    absl::string_view type, absl::string_view params = "{}") {
  const Json json = Json::parse(params);
  JsonReport report("rule");
  JsonReader reader(json, report);
  for (const OptimizerRow& row : Optimizers()) {
    if (row.name == type) {
      return row.read(reader, row.formats.value_or(StateFormats()));
    }
  }
  return nullptr;
}

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_TESTING_RULE_FOR_TEST_H_
