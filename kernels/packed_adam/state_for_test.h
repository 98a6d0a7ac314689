// The arrays of a chunk whose moments are packed, for tests.
#ifndef CASTOR_KERNELS_PACKED_ADAM_STATE_FOR_TEST_H_
#define CASTOR_KERNELS_PACKED_ADAM_STATE_FOR_TEST_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/state_format.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {

struct PackedState {
  // Arrays begin `shift` elements after aligned addresses. `size` is a multiple
  // of kStateTile.
  PackedState(DType dtype, int bits, int64_t size, int64_t shift)
      : bits(bits),
        payload(dtype, size, shift),
        sum(DType::kFloat32, size, shift),
        master(DType::kFloat32, size, shift),
        m(DType::kFloat32, Words(Formats().m_format(), size), shift),
        v(DType::kFloat32, Words(Formats().v_format(), size), shift) {}

  // What a run has: exponents around those of gradients and weights; some
  // elements never had a gradient.
  void Fill(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    const int64_t size = payload.size();
    std::vector<float> m_values(size), v_values(size);
    for (int64_t i = 0; i < size; ++i) {
      const bool never = i % 5 == 4;
      const double g =
          never ? 0 : normal(random) * std::exp(4 * normal(random)) * 1e-3;
      payload.Set(i, g);
      sum.Set(i, g * 4);
      master.Set(i, normal(random) * 0.02);
      m_values[i] = static_cast<float>(g * (0.5 + normal(random)));
      v_values[i] = static_cast<float>(g * g * std::exp(normal(random)));
    }
    EncodeStates(Formats().m_format(), m_values.data(), Bytes(m), size, 0,
                 size);
    EncodeStates(Formats().v_format(), v_values.data(), Bytes(v), size, 0,
                 size);
  }
  void CopyFrom(const PackedState& other) {
    for (auto [to, from] :
         {std::pair(&payload, &other.payload), std::pair(&sum, &other.sum),
          std::pair(&master, &other.master), std::pair(&m, &other.m),
          std::pair(&v, &other.v)}) {
      std::memcpy(to->data(), from->data(), to->size() * SizeOf(to->dtype()));
    }
  }
  bool SameBits(const PackedState& other) const {
    return payload.SameBits(other.payload) && master.SameBits(other.master) &&
           m.SameBits(other.m) && v.SameBits(other.v) &&
           payload.GuardsIntact() && master.GuardsIntact() &&
           m.GuardsIntact() && v.GuardsIntact();
  }
  PackedAdamArgs Args(bool from_sum, const std::vector<PackedAdamRange>& ranges,
                      const float* scale) {
    return {.payload = payload.data(),
            .dtype = payload.dtype(),
            .gradient_sum = from_sum ? sum.floats() : nullptr,
            .master = master.floats(),
            .moment_bits = bits,
            .m = Bytes(m),
            .v = Bytes(v),
            .elements = payload.size(),
            .grad_scale = scale,
            .ranges = ranges.data(),
            .num_ranges = static_cast<int64_t>(ranges.size())};
  }
  PackedAdamArgs Formats() const { return {.moment_bits = bits}; }
  static std::byte* Bytes(GuardedBuffer& x) {
    return static_cast<std::byte*>(x.data());
  }
  static const std::byte* Bytes(const GuardedBuffer& x) {
    return static_cast<const std::byte*>(x.data());
  }
  static int64_t Words(StateFormat format, int64_t size) {
    return StateBytes(format, size) / static_cast<int64_t>(sizeof(float));
  }

  int bits;
  GuardedBuffer payload, sum, master, m, v;
};

inline std::vector<AdamHyper> PackedHypers() {
  return {{.lr = 1e-3, .weight_decay = 0.1},
          {.lr = 3e-4, .beta1 = 0.95, .weight_decay = 0, .step = 1000},
          {.lr = 1e-2, .beta1 = 0.3, .beta2 = 0.95, .step = 2},
          {.lr = 1e-3, .weight_decay = 0.1, .decoupled = false, .step = 7},
          {.lr = 0, .step = 3}};
}

// Two parameters with a gap between them, the second one's end within a tile.
inline std::vector<PackedAdamRange> PackedRanges(const AdamHyper& hyper,
                                                 int64_t size) {
  return {{.begin = 64, .end = 640, .hyper = hyper, .key = {3, 4}},
          {.begin = 704,
           .end = size - 37,
           .hyper = hyper,
           .key = {3, 5},
           .first = 1280}};
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_PACKED_ADAM_STATE_FOR_TEST_H_
