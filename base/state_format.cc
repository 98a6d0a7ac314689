#include "base/state_format.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace castor {
namespace {

int64_t TileEnd(int64_t element) {
  return (element + kStateTile - 1) / kStateTile * kStateTile;
}

float LoadScale(const std::byte* states, int64_t size, int64_t element) {
  float scale;
  std::memcpy(&scale, states + ScaleOffset(size, element), sizeof(scale));
  return scale;
}
void StoreScale(float scale, std::byte* states, int64_t size, int64_t element) {
  std::memcpy(states + ScaleOffset(size, element), &scale, sizeof(scale));
}

// The second part of an array of split values.
const int8_t* RestsOf(const std::byte* states, int64_t size) {
  return reinterpret_cast<const int8_t*>(
      states + size * ElementBytes(StateFormat::kSplit));
}

}  // namespace

void DecodeStates(StateFormat format, const std::byte* states, int64_t size,
                  int64_t begin, int64_t end, float* values) {
  const int64_t bytes = ElementBytes(format);
  if (format == StateFormat::kFloat32) {
    std::memcpy(values, states + begin * bytes, (end - begin) * bytes);
    return;
  }
  for (int64_t i = begin; i < end; i += kStateTile) {
    const int64_t tile_end = std::min(i + kStateTile, end);
    const auto* const narrow = reinterpret_cast<const BFloat16*>(states);
    if (format == StateFormat::kBFloat16) {
      for (int64_t j = i; j < tile_end; ++j) {
        values[j - begin] = static_cast<float>(narrow[j]);
      }
      continue;
    }
    if (format == StateFormat::kSplit) {
      const int8_t* const rests = RestsOf(states, size);
      for (int64_t j = i; j < tile_end; ++j) {
        values[j - begin] = Join({.nearest = narrow[j], .rest = rests[j]});
      }
      continue;
    }
    const TileScale scale = MakeTileScale(format, LoadScale(states, size, i));
    for (int64_t j = i; j < tile_end; ++j) {
      values[j - begin] =
          DecodeByte(format, scale, static_cast<uint8_t>(states[j]));
    }
  }
}

void EncodeStates(StateFormat format, const float* values, std::byte* states,
                  int64_t size, int64_t begin, int64_t end) {
  const int64_t bytes = ElementBytes(format);
  CASTOR_CHECK(begin % kStateTile == 0);
  if (format == StateFormat::kFloat32) {
    std::memcpy(states + begin * bytes, values, (end - begin) * bytes);
    return;
  }
  for (int64_t i = begin; i < end; i += kStateTile) {
    const int64_t tile_end = std::min(i + kStateTile, end);
    const float* const tile = values + (i - begin);
    const int64_t count = tile_end - i;
    auto* const narrow = reinterpret_cast<BFloat16*>(states);
    if (format == StateFormat::kBFloat16) {
      for (int64_t j = 0; j < count; ++j) narrow[i + j] = BFloat16(tile[j]);
      continue;
    }
    if (format == StateFormat::kSplit) {
      auto* const rests = const_cast<int8_t*>(RestsOf(states, size));
      for (int64_t j = 0; j < count; ++j) {
        const SplitFloat split = Split(tile[j], 128);
        narrow[i + j] = split.nearest;
        rests[i + j] = split.rest;
      }
      continue;
    }
    uint32_t most = 0;
    for (int64_t j = 0; j < count; ++j) {
      most = std::max(most, MagnitudeBits(tile[j], kToNearest));
    }
    const TileScale scale = MakeTileScale(format, ScaleOfTile(most));
    StoreScale(scale.scale, states, size, i);
    for (int64_t j = 0; j < count; ++j) {
      states[i + j] = static_cast<std::byte>(
          EncodeByte(format, scale, tile[j], kToNearest));
    }
    std::fill(states + tile_end, states + TileEnd(tile_end), std::byte{0});
  }
}

void CopyStates(StateFormat format, const std::byte* from, std::byte* to,
                int64_t size, int64_t begin, int64_t end) {
  const int64_t bytes = ElementBytes(format);
  std::memcpy(to + begin * bytes, from + begin * bytes, (end - begin) * bytes);
  const int64_t last = IsEightBits(format) ? TileEnd(end) : end;
  const int64_t at = SecondBytes(format, begin);
  std::memcpy(to + size * bytes + at, from + size * bytes + at,
              SecondBytes(format, last) - at);
}

void ClearStates(StateFormat format, std::byte* states, int64_t size,
                 int64_t begin, int64_t end) {
  const int64_t bytes = ElementBytes(format);
  std::memset(states + begin * bytes, 0, (end - begin) * bytes);
  if (format == StateFormat::kSplit) {
    std::memset(states + size * bytes + begin, 0, end - begin);
  }
  if (!IsEightBits(format)) return;
  for (int64_t i = TileEnd(begin); i < end; i += kStateTile) {
    StoreScale(ScaleOfTile(0), states, size, i);
  }
}

}  // namespace castor
