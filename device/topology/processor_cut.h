// How ranks divide the processors of one machine. See share.h for the rules.
#ifndef CASTOR_DEVICE_TOPOLOGY_PROCESSOR_CUT_H_
#define CASTOR_DEVICE_TOPOLOGY_PROCESSOR_CUT_H_

#include <vector>

#include "absl/types/span.h"
#include "device/topology/place.h"

namespace castor {

// Gives each of the sets, in their order, its part: cores with the processors
// that are its own. A part is empty where nothing is left for it. Parts are
// disjoint.
using CoreSet = std::vector<PlaceCore>;  // ascending
std::vector<CoreSet> CutProcessors(absl::Span<const CoreSet> sets);

}  // namespace castor

#endif  // CASTOR_DEVICE_TOPOLOGY_PROCESSOR_CUT_H_
