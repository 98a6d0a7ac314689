// Divides the processors of one machine among ranks. See share.h for the rules.
#ifndef CASTOR_DEVICE_TOPOLOGY_PROCESSOR_CUT_H_
#define CASTOR_DEVICE_TOPOLOGY_PROCESSOR_CUT_H_

#include <vector>

#include "absl/types/span.h"
#include "device/topology/place.h"

namespace castor {

// CutProcessors returns the part of each of the sets, in their order: cores
// with the processors that belong to it alone. Parts are disjoint; a part is
// empty if nothing is left for it.
using CoreSet = std::vector<PlaceCore>;  // ascending
std::vector<CoreSet> CutProcessors(absl::Span<const CoreSet> sets);

}  // namespace castor

#endif  // CASTOR_DEVICE_TOPOLOGY_PROCESSOR_CUT_H_
