// Sums several ranks' parts; the bits depend only on the parts and their order.
#ifndef CASTOR_DEVICE_COMM_ORDERED_SUM_H_
#define CASTOR_DEVICE_COMM_ORDERED_SUM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/thread_pool.h"

namespace castor {

// sum [n] (+)= parts[0] [n], then += parts[1], and so on, in fp32, element by
// element. `assign`: parts[0] is stored, not added. Parts may have any
// alignment; none overlaps sum. At least one part. Cost: each part and sum are
// read once, sum is written once.
void AddInOrder(ThreadPool* pool, DType dtype, int64_t n,
                absl::Span<const void* const> parts, float* sum, bool assign);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_ORDERED_SUM_H_
