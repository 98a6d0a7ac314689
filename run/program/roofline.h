// How long operators are estimated to take before any is measured.
#ifndef CASTOR_RUN_PROGRAM_ROOFLINE_H_
#define CASTOR_RUN_PROGRAM_ROOFLINE_H_

#include <array>
#include <cstdint>

#include "device/machines/rate_by_size.h"

namespace castor {

// The kind of an operator's work. How near it comes to a device's peaks depends
// on it.
enum class CostKind : uint8_t {
  kElements,  // goes over arrays: norms, activations, embeddings
  kProduct,   // a matrix product
  kAttention,
  kUpdate,  // an optimizer's update on the device
};
inline constexpr int kNumCostKinds = 4;

// A roofline: an operator takes the longer of its flops and its bytes, at the
// share of the device's peaks that its kind reaches (S. Williams, A. Waterman,
// D. Patterson, "Roofline", CACM 52 (4), 2009; the shares are ours).
struct Roofline {
  double flops_per_s = 1e11;
  double bytes_per_s = 2e10;
  // That an update on the host reads and writes, in all; 0: what one on the
  // device does.
  double host_bytes_per_s = 0;
  std::array<double, kNumCostKinds> share = {1, 1, 1, 1};  // by CostKind
  // Where they were measured, in the place of the peaks: the flops a second of
  // products by their flops, and the bytes a second of whatever goes over
  // arrays by its bytes.
  RateBySize products = {};
  RateBySize arrays = {};

  // In nanoseconds.
  int64_t Duration(CostKind kind, double flops, double bytes) const;
  int64_t HostUpdateDuration(double bytes) const;
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_ROOFLINE_H_
