// Reads and writes sizes with units.
#ifndef CASTOR_BASE_UNITS_H_
#define CASTOR_BASE_UNITS_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

// The value of an unlimited budget.
inline constexpr int64_t kUnlimitedBytes =
    std::numeric_limits<int64_t>::max() / 4;

// Parses "48MiB", "1.5 GB", "4096" (bytes) or "unlimited". Units: B, KB, MB,
// GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024), in any case. A
// fraction of a byte is rounded down. InvalidArgument: anything else, a
// negative size, or one that does not fit.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// Returns "512 B", "47.9 MiB", "unlimited": three significant digits, binary
// units.
std::string FormatBytes(int64_t bytes);

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t multiple) {
  return CeilDiv(a, multiple) * multiple;
}

}  // namespace castor

#endif  // CASTOR_BASE_UNITS_H_
