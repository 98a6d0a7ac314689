// A picture of the device's memory over one step, in characters.
#ifndef CASTOR_CLI_TRAIN_MEMORY_PICTURE_H_
#define CASTOR_CLI_TRAIN_MEMORY_PICTURE_H_

#include <string>

#include "memory/plan/plan.h"

namespace castor::cli {

// Draws one column for each share of the step's operators, as high as its
// fullest moment under `plan`, stacked by category of bytes, below the budget's
// line:
//
//   48.0 MiB |------------------------------------------ budget
//            |                 aaaaa
//            |        aaaaaaaaaaaaaaaaaaaaaa
//            |ppppppppppppppppppppppppppppppppppppppp
//            |oooooooooooooooooooooooooooooooooooooooooo
//             forward          backward             update
//
// `plan` was made from `request` and has passed CheckPlan.
std::string MemoryPicture(const Plan& plan, const PlanRequest& request);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_MEMORY_PICTURE_H_
