// The planning options that all ranks of a run must share, as settings
// (run/option_settings.h).
#ifndef CASTOR_RUN_PROGRAM_PLANNING_SETTINGS_H_
#define CASTOR_RUN_PROGRAM_PLANNING_SETTINGS_H_

#include "nlohmann/json.hpp"
#include "run/program/step_planner.h"

namespace castor {

nlohmann::json PlanningSettings(const PlanningOptions& planning);

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_PLANNING_SETTINGS_H_
