#include "run/program/roofline.h"

#include <algorithm>

namespace castor {
namespace {

int64_t Nanoseconds(double seconds) {
  constexpr double kLaunchNs = 2000;
  return static_cast<int64_t>(kLaunchNs + 1e9 * seconds);
}

}  // namespace

int64_t Roofline::Duration(CostKind kind, double flops, double bytes) const {
  const double flop_rate = kind == CostKind::kProduct
                               ? products.At(flops, flops_per_s)
                               : flops_per_s;
  return Nanoseconds(
      std::max(flops / flop_rate, bytes / arrays.At(bytes, bytes_per_s)) /
      share[static_cast<int>(kind)]);
}

int64_t Roofline::HostUpdateDuration(double bytes) const {
  return host_bytes_per_s > 0 ? Nanoseconds(bytes / host_bytes_per_s)
                              : Duration(CostKind::kUpdate, 0, bytes);
}

}  // namespace castor
