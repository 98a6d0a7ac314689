// Element types and the 16-bit conversions, in plain C++: the kernels' oracle
// and the reference for every vectorised version.
#ifndef CASTOR_BASE_DTYPE_H_
#define CASTOR_BASE_DTYPE_H_

#include <bit>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace castor {

enum class DType : uint8_t { kFloat32, kBFloat16 };

constexpr int64_t SizeOf(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}

constexpr absl::string_view DTypeName(DType dtype) {
  return dtype == DType::kFloat32 ? "fp32" : "bf16";
}

// The upper half of an IEEE binary32.
struct BFloat16 {
  uint16_t bits = 0;

  constexpr BFloat16() = default;
  // Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  constexpr explicit BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x0040u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  // Exact.
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(BFloat16) == 2);

template <typename T>
inline constexpr DType kDTypeOf = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBFloat16;

}  // namespace castor

#endif  // CASTOR_BASE_DTYPE_H_
