// Notes on learning rates that a user may not have meant.
#ifndef CASTOR_RUN_CONFIG_RATE_NOTES_H_
#define CASTOR_RUN_CONFIG_RATE_NOTES_H_

#include <string>
#include <vector>

#include "run/config/config.h"

namespace castor {

// A line each: the rate of a pretrained model was not given; the warm-up is
// longer than the run; the schedule ends at another step than the run.
std::vector<std::string> RateNotes(const Config& config);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_RATE_NOTES_H_
