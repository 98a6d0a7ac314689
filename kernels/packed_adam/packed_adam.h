// Adam's pass over one chunk (kernels/adam/adam.h) whose moments are kept in 16
// or 8 bits (base/state_format.h): they are widened, go through Adam's own
// operations, and are rounded stochastically. master is fp32.
//
// Element i of a parameter has the random word w = RandomWord(range.key, i):
// its upper 16 bits round m, its lower 16 bits v; with codes of 8 bits they are
// the upper 16 of the 20 bits that decide between neighbours. So an element's
// bits depend on neither chunk, shard nor device.
#ifndef CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_H_
#define CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "base/state_format.h"
#include "device/device.h"
#include "kernels/adam/adam.h"

namespace castor::kernels {

// One range of elements of one parameter. `begin` is a multiple of kStateTile,
// and is the parameter's element `first`, a multiple of it too. What follows
// `end` in its last tile belongs to no other range.
struct PackedAdamRange {
  int64_t begin = 0, end = 0;
  AdamHyper hyper = {};
  RandomKey key = {};  // of the seed, the step and the parameter
  int64_t first = 0;
};

// Members are those of AdamArgs, but for:
struct PackedAdamArgs {
  void* payload = nullptr;
  DType dtype = DType::kFloat32;
  const float* gradient_sum = nullptr;
  const void* gradient = nullptr;
  float* master = nullptr;
  // 8: m is of the format kSigned8, v of kUnsigned8; 16: both are kBFloat16.
  int moment_bits = 8;
  // Arrays of `elements` elements, a multiple of kStateTile.
  std::byte* m = nullptr;
  std::byte* v = nullptr;
  int64_t elements = 0;
  struct Source {
    const float* master = nullptr;
    const std::byte* m = nullptr;
    const std::byte* v = nullptr;
  };
  Source from = {};
  const float* grad_scale = nullptr;
  const PackedAdamRange* ranges = nullptr;
  int64_t num_ranges = 0;
  int32_t* not_finite = nullptr;

  StateFormat m_format() const {
    return moment_bits == 8 ? StateFormat::kSigned8 : StateFormat::kBFloat16;
  }
  StateFormat v_format() const {
    return moment_bits == 8 ? StateFormat::kUnsigned8 : StateFormat::kBFloat16;
  }

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_PACKED_ADAM_PACKED_ADAM_H_
