// Proposes sides to try, given a number of device bytes for optimizer states.
//
// The host's updates begin when the last gradients are there, and forward uses
// the chunks in the order of its layers. States of the first chunks on the
// device save the updates that the next step would wait for longest; states
// spread over the step leave the bus and the host work all through forward.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SIDE_CHOICES_H_
#define CASTOR_MEMORY_PLAN_POLICY_SIDE_CHOICES_H_

#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"

namespace castor {

// Puts on the device the first Admission::fewest chunks of its order, then
// those whose optimizer states still fit into `bytes`: up to the first one that
// does not, or with `skip` also those after it that fit.
std::vector<Side> FirstSides(const StepTrace& trace, const Admission& admission,
                             double bytes, bool skip);

// Puts on the device the chunks of FirstSides within `first_bytes`, then other
// chunks up to `bytes` in all, as evenly over the rest of the order as their
// sizes admit.
std::vector<Side> SpreadSides(const StepTrace& trace,
                              const Admission& admission, double first_bytes,
                              double bytes);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SIDE_CHOICES_H_
