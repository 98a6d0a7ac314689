// Finds infinite values and NaNs.
#ifndef CASTOR_BASE_FIRST_NOT_FINITE_H_
#define CASTOR_BASE_FIRST_NOT_FINITE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace castor {

// Returns the index of the first value that is infinite or NaN; -1 if all are
// finite. Cost: a few values per nanosecond, faster than reading them from
// memory.
int64_t FirstNotFinite(absl::Span<const float> values);

}  // namespace castor

#endif  // CASTOR_BASE_FIRST_NOT_FINITE_H_
