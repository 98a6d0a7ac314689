#include "kernels/init/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/tiles.h"

namespace castor::kernels {
namespace {

// Elements: 8 KiB of words. Box-Muller takes some 40 ns an element, so tiles
// can be small.
constexpr int64_t kTile = 1024;

// Words 2i, 2i + 1 to a standard normal. (w + 1) / 2^32 lies in (0, 1], so the
// logarithm is finite.
double BoxMuller(uint32_t w0, uint32_t w1) {
  const double u = (static_cast<double>(w0) + 1.0) * 0x1p-32;
  const double angle =
      2.0 * std::numbers::pi * (static_cast<double>(w1) * 0x1p-32);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
}

}  // namespace

absl::Status FillNormal(const ExecContext& context, RandomKey key,
                        int64_t begin, int64_t end, float mean, float stddev,
                        float* x) {
  if (begin < 0 || end < begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("FillNormal: elements [", begin, ", ", end,
                     "); give 0 <= begin <= end"));
  }
  cpu::ParallelTiles(
      context, end - begin, kTile, [&](int64_t first, int64_t last) {
        uint32_t words[2 * kTile];
        cpu::RandomWords(key, 2 * static_cast<uint64_t>(begin + first),
                         2 * (last - first), words);
        for (int64_t i = first; i < last; ++i) {
          const uint32_t* w = words + 2 * (i - first);
          const double z = BoxMuller(w[0], w[1]);
          x[i] = static_cast<float>(static_cast<double>(mean) +
                                    static_cast<double>(stddev) * z);
        }
      });
  return absl::OkStatus();
}

absl::Status FillConstant(const ExecContext& context, int64_t size, float value,
                          float* x) {
  if (size < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "FillConstant: size is ", size, "; give 0 or more elements"));
  }
  cpu::ParallelTiles(context, size, cpu::kElementTile,
                     [&](int64_t first, int64_t last) {
                       std::fill(x + first, x + last, value);
                     });
  return absl::OkStatus();
}

}  // namespace castor::kernels
