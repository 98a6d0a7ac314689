// The arithmetic of an all-reduce over host memory.
#ifndef CASTOR_DEVICE_COMM_COMBINE_ROWS_H_
#define CASTOR_DEVICE_COMM_COMBINE_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "device/comm/collective.h"

namespace castor {

// out[i] = rows[0][i] op rows[1][i] op ..., for `num_rows` adjacent rows of
// `row_bytes` bytes each, in their order. A NaN in any row gives a NaN; only
// integers are summed, and sums wrap around.
void CombineRows(ReduceOp op, ElementType type, const std::byte* rows,
                 int num_rows, int64_t row_bytes, void* out);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_COMBINE_ROWS_H_
