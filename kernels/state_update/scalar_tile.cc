#include "kernels/state_update/scalar_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/with_type.h"

namespace castor::kernels::cpu {

void RoundTile(StateFormat format, int state, const float* values,
               const uint32_t* words, std::byte* states, int64_t size,
               int64_t element, int64_t count) {
  const auto random = [&](int64_t i) {
    return RoundingBits(format, state, words[i]);
  };
  if (format == StateFormat::kFloat32) {
    std::memcpy(states + element * sizeof(float), values,
                static_cast<size_t>(count) * sizeof(float));
    return;
  }
  auto* const narrow = reinterpret_cast<BFloat16*>(states) + element;
  if (format == StateFormat::kBFloat16) {
    for (int64_t i = 0; i < count; ++i) {
      narrow[i] = RoundStochastically(values[i], random(i));
    }
    return;
  }
  if (format == StateFormat::kSplit) {
    auto* const rests = reinterpret_cast<int8_t*>(
        states + size * ElementBytes(StateFormat::kSplit) + element);
    for (int64_t i = 0; i < count; ++i) {
      const SplitFloat split = Split(values[i], random(i));
      narrow[i] = split.nearest;
      rests[i] = split.rest;
    }
    return;
  }
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, MagnitudeBits(values[i], random(i)));
  }
  const TileScale scale = MakeTileScale(format, ScaleOfTile(most));
  std::memcpy(states + ScaleOffset(size, element), &scale.scale,
              sizeof(scale.scale));
  for (int64_t i = 0; i < count; ++i) {
    states[element + i] =
        static_cast<std::byte>(EncodeByte(format, scale, values[i], random(i)));
  }
  std::fill(states + element + count, states + element + kStateTile,
            std::byte{0});
}

void LoadPartOfTile(const StateArrays& arrays, int num_states, int64_t element,
                    int64_t count, PartOfTile& part) {
  const bool aside = arrays.from.master != nullptr;
  const int64_t end = element + count;
  DecodeStates(
      arrays.master_format,
      static_cast<const std::byte*>(aside ? arrays.from.master : arrays.master),
      arrays.elements, element, end, part.p);
  for (int k = 0; arrays.bits != 0 && k < num_states; ++k) {
    DecodeStates(FormatOfState(arrays.bits, k),
                 aside ? arrays.from.states[k] : arrays.states[k],
                 arrays.elements, element, end, part.states[k]);
  }
  if (arrays.gradient_sum != nullptr) {
    std::copy_n(arrays.gradient_sum + element, count, part.g);
    return;
  }
  WithType(arrays.dtype, [&]<class T>(T) {
    const auto* const from = static_cast<const T*>(
        arrays.gradient != nullptr ? arrays.gradient : arrays.payload);
    for (int64_t i = 0; i < count; ++i) {
      part.g[i] = static_cast<float>(from[element + i]);
    }
  });
}

bool StorePartOfTile(const StateArrays& arrays, int num_states, int64_t element,
                     int64_t count, RandomKey key, uint64_t of_parameter,
                     const PartOfTile& part) {
  bool finite = true;
  const auto store = [&](StateFormat format, int state, RandomKey key,
                         const float* values, void* to) {
    uint32_t words[kStateTile];
    for (int64_t i = 0; i < count; ++i) {
      words[i] = StateWord(key, of_parameter + static_cast<uint64_t>(i));
      finite &= std::isfinite(values[i]);
    }
    RoundTile(format, state, values, words, static_cast<std::byte*>(to),
              arrays.elements, element, count);
  };
  for (int k = 0; arrays.bits != 0 && k < num_states; ++k) {
    store(FormatOfState(arrays.bits, k), k, key, part.states[k],
          arrays.states[k]);
  }
  store(arrays.master_format, 0, MasterKey(key), part.p, arrays.master);
  WithType(arrays.dtype, [&]<class T>(T) {
    T* const payload = static_cast<T*>(arrays.payload) + element;
    if (arrays.master_format == StateFormat::kFloat32) {
      for (int64_t i = 0; i < count; ++i) payload[i] = T(part.p[i]);
    } else {
      std::memcpy(payload, static_cast<const T*>(arrays.master) + element,
                  static_cast<size_t>(count) * sizeof(T));
    }
  });
  return finite;
}

}  // namespace castor::kernels::cpu
