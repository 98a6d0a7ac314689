// The section "zero" of Colossal-AI's configurations, read as Castor's keys.
//
//   "zero": {"model_config": {"tensor_placement_policy": "auto"},
//            "optimizer_config": {"gpu_margin_mem_ratio": 0.8}}
//
// It may stand in any configuration, beside Castor's own keys, which mean what
// they always do. tensor_placement_policy is memory.placement_policy, in
// capitals too, and gpu_margin_mem_ratio is that of memory. A key that is left
// out has Castor's default, which differs from Colossal-AI's, but no result
// depends on these two. What means nothing here is told of in one note; what
// changes results and is not here, what nobody knows, and what Castor's own key
// says otherwise, are errors.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_COLOSSAL_H_
#define CASTOR_RUN_CONFIG_FOREIGN_COLOSSAL_H_

#include <string>
#include <vector>

#include "base/json_reader.h"

namespace castor {

// Puts Castor's keys in the section's place; what is wrong goes into the
// report. A document without the section stays as it is. Returns what the user
// is told, a line each.
std::vector<std::string> TakeColossal(Json* document, JsonReport* report);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_FOREIGN_COLOSSAL_H_
