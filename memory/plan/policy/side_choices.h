// Sides that are worth a try, within some bytes of the device for optimizer
// states.
//
// The host's updates begin when the last gradients are there, and forward uses
// the chunks in the order of its layers. States of the first chunks on the
// device spare the updates that the next step would wait for longest; spread
// over the step they leave the bus and the host work all through forward.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SIDE_CHOICES_H_
#define CASTOR_MEMORY_PLAN_POLICY_SIDE_CHOICES_H_

#include <vector>

#include "memory/plan/admission.h"
#include "memory/plan/plan.h"

namespace castor {

// Admission::fewest chunks of its order, then those whose optimizer states
// still fit into `bytes`: up to the first one that does not, or with `skip` all
// others too.
std::vector<Side> FirstSides(const StepTrace& trace, const Admission& admission,
                             double bytes, bool skip);

// FirstSides within `first_bytes`, then those of other chunks up to `bytes` in
// all, as evenly over the rest of the order as their sizes admit.
std::vector<Side> SpreadSides(const StepTrace& trace,
                              const Admission& admission, double first_bytes,
                              double bytes);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SIDE_CHOICES_H_
