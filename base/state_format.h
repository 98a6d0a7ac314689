// How an optimizer's states of each element are kept: in fp32, or in fewer
// bits.
//
// An array of states has a value for each of its elements, a multiple of
// kStateTile of them. Some formats have a second part behind it:
//
//   fp32, bf16   | value 0 | value 1 | ...
//   split        | nearest bf16 0 | nearest bf16 1 | ... | rest 0 | rest 1 ...
//   8 bits       | code 0 | code 1 | ... | scale of tile 0 (fp32) | scale 1 ...
//
// A split value is a number with 16 bits of mantissa: the bf16 that is nearest
// to it (of two the larger magnitude), and 8 bits more, which say in 128ths of
// half a unit of the bf16's last place how far it is away:
//
//   bits of the value as fp32 = (bits of the bf16 << 16) + (rest << 8)
//
// A code of 8 bits is a number with 3 bits of mantissa, relative to the scale
// S, the power of two at or below the largest magnitude of the tile (at least
// 2^-90):
//
//   signed     sign, 4 bits of exponent: magnitudes of 2^-17 S to 1.875 S
//   unsigned   5 bits of exponent: values of 2^-33 S to 1.875 S
//
// Neighbours are 1/8 to 1/16 of their value apart; below 2^-14 S, or 2^-30 S,
// the steps stay as they are there. (Piecewise linear companding, as G.711's
// A-law: small values keep their precision beside large ones.) Zero is code 0.
//
// An update rounds stochastically: a value between two neighbours becomes
// either, with the probability that makes it right in the mean, so that changes
// smaller than a step are not lost. Among unsigned values, however, only 0
// becomes 0, since divisors are formed of them. Every value that a code stands
// for is exact in fp32, and rounding it to nearest gives the same code again:
// checkpoints hold fp32.
#ifndef CASTOR_BASE_STATE_FORMAT_H_
#define CASTOR_BASE_STATE_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace castor {

// Checkpoints hold these numbers.
enum class StateFormat : uint8_t {
  kFloat32,
  kBFloat16,
  kSigned8,
  kUnsigned8,
  kSplit
};
inline constexpr int kNumStateFormats = 5;

// Elements that share a scale.
inline constexpr int64_t kStateTile = 64;

constexpr bool IsEightBits(StateFormat format) {
  return format == StateFormat::kSigned8 || format == StateFormat::kUnsigned8;
}

// Returns the bytes of an element in an array's first part.
constexpr int64_t ElementBytes(StateFormat format) {
  return format == StateFormat::kFloat32 ? 4
         : format == StateFormat::kBFloat16 || format == StateFormat::kSplit
             ? 2
             : 1;
}

// Returns the bytes of the second part that belong to the first `elements`
// elements: in 8 bits, whole tiles.
constexpr int64_t SecondBytes(StateFormat format, int64_t elements) {
  return format == StateFormat::kSplit ? elements
         : IsEightBits(format)
             ? elements / kStateTile * static_cast<int64_t>(sizeof(float))
             : 0;
}

// Returns the bytes of an array of `elements` elements, a multiple of
// kStateTile.
constexpr int64_t StateBytes(StateFormat format, int64_t elements) {
  return elements * ElementBytes(format) + SecondBytes(format, elements);
}

// Rounding adds to the bits of a magnitude, of which the upper 12 are kept, a
// number that decides between neighbours: 20 random bits, or this constant.
inline constexpr uint32_t kToNearest = 0x80000u;

// Returns the offset, in bytes from the begin of an array of codes of
// `elements` elements, of the scale of `element`'s tile.
constexpr int64_t ScaleOffset(int64_t elements, int64_t element) {
  return elements + element / kStateTile * static_cast<int64_t>(sizeof(float));
}

// A tile with codes of 8 bits has these factors: magnitudes are multiplied by
// `to_code` before they become codes, and the values of codes by `of_code`.
struct TileScale {
  float scale = 0;
  float to_code = 0;  // exact: powers of two
  float of_code = 0;
};
// `most`: the largest of the tile's MagnitudeBits. They are rounded already, so
// that the largest value may grow beyond a power of two.
constexpr uint32_t MagnitudeBits(float value, uint32_t add) {
  return (std::bit_cast<uint32_t>(value) & 0x7fffffffu) + add;
}
constexpr float ScaleOfTile(uint32_t most) {
  constexpr uint32_t kExponent = 0x7f800000u;
  constexpr uint32_t kLeast = uint32_t{127 - 90} << 23;
  // A value that is not finite stays so.
  if (most >= kExponent) return std::bit_cast<float>(most);
  const uint32_t exponent = most & kExponent;
  return std::bit_cast<float>(exponent < kLeast ? kLeast : exponent);
}
// Returns the number near which the tile's largest values lie when they become
// codes.
constexpr float CodeRange(StateFormat format) {
  return format == StateFormat::kSigned8 ? 0x1p15f : 0x1p31f;
}
constexpr float OfCode(StateFormat format, float scale) {
  return scale * (1 / CodeRange(format));
}
constexpr TileScale MakeTileScale(StateFormat format, float scale) {
  return {scale, CodeRange(format) / scale, OfCode(format, scale)};
}

constexpr uint32_t MostCode(StateFormat format) {
  return format == StateFormat::kSigned8 ? 127 : 255;
}

// Returns the code of `y`, a magnitude times TileScale::to_code.
constexpr uint32_t CodeOf(float y, uint32_t add, uint32_t most) {
  const bool small = y < 2.0f;
  // A NaN may have a sign, which is dropped.
  const uint32_t bits =
      std::bit_cast<uint32_t>(small ? y + 2.0f : y) & 0x7fffffffu;
  const uint32_t code = ((bits + add) >> 20) - (small ? 1024u : 1016u);
  return code < most ? code : most;
}
// Returns the rounded magnitude that a code of CodeOf stands for, exactly.
constexpr float ValueOf(uint32_t code) {
  const bool small = code < 8;
  const float value =
      std::bit_cast<float>((code + (small ? 1024u : 1016u)) << 20);
  return small ? value - 2.0f : value;
}

// Returns the byte of a value of the format; `add` as for CodeOf.
constexpr uint8_t EncodeByte(StateFormat format, const TileScale& scale,
                             float value, uint32_t add) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 31;
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
  uint32_t code = CodeOf(magnitude * scale.to_code, add, MostCode(format));
  if (format == StateFormat::kSigned8) {
    if (code != 0) code |= sign << 7;
  } else if (code == 0 && value != 0) {
    code = 1;
  }
  return static_cast<uint8_t>(code);
}
constexpr float DecodeByte(StateFormat format, const TileScale& scale,
                           uint32_t byte) {
  if (format == StateFormat::kUnsigned8) return ValueOf(byte) * scale.of_code;
  const float magnitude = ValueOf(byte & 127u) * scale.of_code;
  return (byte & 128u) != 0 ? -magnitude : magnitude;
}

// Returns `value` in bf16, rounded up or down with 16 random bits.
constexpr BFloat16 RoundStochastically(float value, uint32_t random16) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  BFloat16 rounded;
  rounded.bits = (bits & 0x7fffffffu) > 0x7f800000u
                     ? static_cast<uint16_t>((bits >> 16) | 0x0040u)
                     : static_cast<uint16_t>((bits + random16) >> 16);
  return rounded;
}

// A split value.
struct SplitFloat {
  BFloat16 nearest;
  int8_t rest = 0;
};
// Rounds `value` up or down with 8 random bits, or to nearest with 128.
constexpr SplitFloat Split(float value, uint32_t random8) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  SplitFloat split;
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    split.nearest.bits = static_cast<uint16_t>((bits >> 16) | 0x0040u);
    return split;
  }
  const uint32_t rounded = (bits + random8) >> 8;
  const uint32_t nearest = (rounded + 128) >> 8;
  split.nearest.bits = static_cast<uint16_t>(nearest);
  split.rest = static_cast<int8_t>(rounded - (nearest << 8));
  return split;
}
constexpr float Join(SplitFloat split) {
  return std::bit_cast<float>((uint32_t{split.nearest.bits} << 16) +
                              (static_cast<uint32_t>(split.rest) << 8));
}

// These functions work on elements [begin, end) of arrays of `size` elements,
// where begin is a multiple of kStateTile. The elements of the last tile that
// are at or behind `end` are padding: Encode and Clear may make them 0.
//
// Decodes states to fp32, exactly.
void DecodeStates(StateFormat format, const std::byte* states, int64_t size,
                  int64_t begin, int64_t end, float* values);
// Encodes values, rounding to nearest.
void EncodeStates(StateFormat format, const float* values, std::byte* states,
                  int64_t size, int64_t begin, int64_t end);
void CopyStates(StateFormat format, const std::byte* from, std::byte* to,
                int64_t size, int64_t begin, int64_t end);
// Makes elements [begin, end) 0; here begin may be any.
void ClearStates(StateFormat format, std::byte* states, int64_t size,
                 int64_t begin, int64_t end);

}  // namespace castor

#endif  // CASTOR_BASE_STATE_FORMAT_H_
