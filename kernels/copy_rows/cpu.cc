#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/copy_rows/copy_rows.h"
#include "kernels/cpu/tiles.h"

namespace castor::kernels {

absl::Status CopyRowsArgs::RunOnCpu(const ExecContext& context) const {
  if (columns == 0) return absl::OkStatus();
  const int64_t element = SizeOf(dtype);
  const auto* from = static_cast<const std::byte*>(x);
  auto* to = static_cast<std::byte*>(y);
  const int64_t tile = std::max<int64_t>(1, cpu::kElementTile / columns);
  cpu::ParallelTiles(context, rows, tile, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::memcpy(to + r * y_stride * element, from + r * x_stride * element,
                  columns * element);
    }
  });
  return absl::OkStatus();
}

}  // namespace castor::kernels
