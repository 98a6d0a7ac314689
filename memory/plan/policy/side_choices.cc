#include "memory/plan/policy/side_choices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

double StateBytes(const StepTrace& trace, int64_t chunk) {
  return static_cast<double>(OptimizerBlock(trace.chunks[chunk]));
}

}  // namespace

std::vector<Side> FirstSides(const StepTrace& trace, const Admission& admission,
                             double bytes, bool skip) {
  std::vector<Side> side = SidesOf(trace, admission.order, admission.fewest);
  for (size_t i = 0; i < admission.order.size(); ++i) {
    const int64_t c = admission.order[i];
    const double block = StateBytes(trace, c);
    if (static_cast<int64_t>(i) >= admission.fewest) {
      if (block > bytes && !skip) break;
      if (block > bytes) continue;
      side[c] = Side::kDevice;
    }
    bytes -= block;
  }
  return side;
}

std::vector<Side> SpreadSides(const StepTrace& trace,
                              const Admission& admission, double first_bytes,
                              double bytes) {
  std::vector<Side> side =
      FirstSides(trace, admission, first_bytes, /*skip=*/false);
  double rest_bytes = 0;  // of those that may be chosen
  for (const int64_t c : admission.order) {
    if (side[c] == Side::kDevice) bytes -= StateBytes(trace, c);
  }
  for (const int64_t c : admission.order) {
    const double block = StateBytes(trace, c);
    if (side[c] == Side::kHost && block <= bytes) rest_bytes += block;
  }
  if (rest_bytes == 0) return side;
  // Up to each chunk, the share of bytes on the device should equal the share
  // in the whole order.
  const double share = std::min(1.0, bytes / rest_bytes);
  double due_bytes = 0;
  for (const int64_t c : admission.order) {
    const double block = StateBytes(trace, c);
    if (side[c] == Side::kDevice || block > bytes) continue;
    due_bytes += share * block;
    if (due_bytes < block / 2) continue;
    side[c] = Side::kDevice;
    due_bytes -= block;
    bytes -= block;
  }
  return side;
}

}  // namespace castor
