// Initial values from a counter-based generator: element i of a parameter
// depends only on the key and i. They are computed on the host, whatever device
// trains, so these are functions and no rows of kernels/operators.h.
#ifndef CASTOR_KERNELS_INIT_INIT_H_
#define CASTOR_KERNELS_INIT_INIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/philox.h"
#include "device/device.h"

namespace castor::kernels {

// x[i - begin] = mean + stddev * z(i) for i in [begin, end), z standard normal
// by Box-Muller from words 2i, 2i + 1 of the key's stream, computed in double
// with the C library's log, cos.
absl::Status FillNormal(const ExecContext& context, RandomKey key,
                        int64_t begin, int64_t end, float mean, float stddev,
                        float* x);

absl::Status FillConstant(const ExecContext& context, int64_t size, float value,
                          float* x);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_INIT_INIT_H_
