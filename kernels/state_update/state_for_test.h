// The arrays of a chunk whose states have one of several formats, for tests.
#ifndef CASTOR_KERNELS_STATE_UPDATE_STATE_FOR_TEST_H_
#define CASTOR_KERNELS_STATE_UPDATE_STATE_FOR_TEST_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/philox.h"
#include "base/state_format.h"
#include "gtest/gtest.h"
#include "kernels/state_update/state_update.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {

inline constexpr StateFormat kMasterFormatsForTest[] = {
    StateFormat::kFloat32, StateFormat::kSplit, StateFormat::kBFloat16};
// Returns true if parameters of the type can have such masters.
constexpr bool CanHave(DType dtype, StateFormat master) {
  return master == StateFormat::kFloat32 || dtype == DType::kBFloat16;
}

struct StatesForTest {
  // Arrays begin `shift` elements after aligned addresses. `size` is a multiple
  // of kStateTile; `bits` are 0 if there are no states.
  StatesForTest(DType dtype, int num_states, int bits, int64_t size,
                int64_t shift,
                StateFormat master_format = StateFormat::kFloat32)
      : bits(bits),
        master_format(master_format),
        payload(dtype, size, shift),
        sum(DType::kFloat32, size, shift),
        master(DType::kFloat32, StateBytes(master_format, size) / 4, shift) {
    for (int i = 0; bits != 0 && i < num_states; ++i) {
      states.emplace_back(DType::kFloat32,
                          StateBytes(FormatOfState(bits, i), size) / 4, shift);
    }
  }

  // Fills the arrays with values like those of a run: exponents around those of
  // gradients and weights; some elements never had a gradient.
  void Fill(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    const int64_t size = payload.size();
    std::vector<std::vector<float>> values(2, std::vector<float>(size));
    std::vector<float> masters(size);
    for (int64_t i = 0; i < size; ++i) {
      const bool never = i % 5 == 4;
      // Within the range of fp16.
      const double g =
          never
              ? 0
              : std::clamp(normal(random) * std::exp(4 * normal(random)) * 1e-3,
                           -1e4, 1e4);
      payload.Set(i, g);
      sum.Set(i, g * 4);
      masters[i] = static_cast<float>(normal(random) * 0.02);
      values[0][i] = static_cast<float>(g * (0.5 + normal(random)));
      values[1][i] = static_cast<float>(g * g * std::exp(normal(random)));
    }
    for (size_t i = 0; i < states.size(); ++i) SetState(i, values[i]);
    EncodeStates(master_format, masters.data(), Bytes(master), size, 0, size);
  }
  // Widened.
  std::vector<float> Masters() const {
    std::vector<float> values(payload.size());
    DecodeStates(master_format, Bytes(master), payload.size(), 0,
                 payload.size(), values.data());
    return values;
  }
  void SetState(size_t i, const std::vector<float>& values) {
    EncodeStates(Format(i), values.data(), Bytes(states[i]), payload.size(), 0,
                 payload.size());
  }
  // A state's values, widened.
  std::vector<float> State(size_t i) const {
    std::vector<float> values(payload.size());
    DecodeStates(Format(i), Bytes(states[i]), payload.size(), 0, payload.size(),
                 values.data());
    return values;
  }
  void CopyFrom(const StatesForTest& other) {
    const auto copy = [](GuardedBuffer& to, const GuardedBuffer& from) {
      std::memcpy(to.data(), from.data(), from.size() * SizeOf(from.dtype()));
    };
    copy(payload, other.payload);
    copy(sum, other.sum);
    copy(master, other.master);
    for (size_t i = 0; i < states.size(); ++i) copy(states[i], other.states[i]);
  }
  // Compares all arrays but `sum`, which no kernel writes.
  bool SameBits(const StatesForTest& other) const {
    const auto same = [](const GuardedBuffer& a, const GuardedBuffer& b) {
      return a.SameBits(b) && a.GuardsIntact();
    };
    bool all = same(payload, other.payload) && same(master, other.master);
    for (size_t i = 0; i < states.size(); ++i) {
      all &= same(states[i], other.states[i]);
    }
    return all;
  }
  StateArrays Arrays(bool from_sum, const float* scale) {
    StateArrays arrays = {.payload = payload.data(),
                          .dtype = payload.dtype(),
                          .gradient_sum = from_sum ? sum.floats() : nullptr,
                          .master = master.data(),
                          .master_format = master_format,
                          .bits = bits,
                          .elements = payload.size(),
                          .grad_scale = scale};
    for (size_t i = 0; i < states.size(); ++i) {
      arrays.states[i] = Bytes(states[i]);
    }
    return arrays;
  }
  // Expects that the masters of `range` are these, of all elements, as the
  // range's key rounds them, and that the payload holds them.
  template <class Hyper>
  void ExpectMastersRounded(const StateRange<Hyper>& range,
                            const std::vector<float>& values) const {
    const std::vector<float> got = Masters();
    GuardedBuffer rounded(payload.dtype(), 1);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const uint32_t word =
          WordOf(MasterKey(range.key), range.first + i - range.begin);
      float expected = values[i];
      rounded.Set(0, expected);
      if (master_format == StateFormat::kBFloat16) {
        expected =
            static_cast<float>(RoundStochastically(expected, word >> 16));
        rounded.Set(0, expected);
      } else if (master_format == StateFormat::kSplit) {
        const SplitFloat split = Split(expected, word >> 24);
        expected = Join(split);
        rounded.Set(0, static_cast<float>(split.nearest));
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]),
                std::bit_cast<uint32_t>(expected))
          << i;
      ASSERT_EQ(payload[i], rounded[0]) << i;
    }
  }
  // Expects that the elements of `range` hold these values, of all elements, as
  // the range's key rounds them.
  template <class Hyper>
  void ExpectRounded(const StateRange<Hyper>& range, int state,
                     const std::vector<float>& values) const {
    // With codes of 8 bits an element's two states take 20 bits each.
    const int kept = bits == 8 ? 20 : 16;
    const auto random = [&](int64_t i) {
      const uint32_t word = WordOf(range.key, range.first + i - range.begin);
      return state == 0 ? word >> (32 - kept) : word & ((1u << kept) - 1);
    };
    const std::byte* const got = Bytes(states[state]);
    const int64_t size = payload.size();
    uint32_t most = 0;  // of the tile's
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (bits == 32) {
        ASSERT_EQ(
            std::bit_cast<uint32_t>(reinterpret_cast<const float*>(got)[i]),
            std::bit_cast<uint32_t>(values[i]))
            << i;
        continue;
      }
      if (bits == 16) {
        ASSERT_EQ(reinterpret_cast<const BFloat16*>(got)[i].bits,
                  RoundStochastically(values[i], random(i)).bits)
            << i;
        continue;
      }
      if (i == range.begin || i % kStateTile == 0) {
        const int64_t tile_end =
            std::min(i / kStateTile * kStateTile + kStateTile, range.end);
        most = 0;
        for (int64_t j = i; j < tile_end; ++j) {
          most = std::max(most, MagnitudeBits(values[j], random(j)));
        }
      }
      const TileScale expected =
          MakeTileScale(Format(state), ScaleOfTile(most));
      float scale;
      std::memcpy(&scale, got + ScaleOffset(size, i), sizeof(scale));
      ASSERT_EQ(scale, expected.scale) << i;
      ASSERT_EQ(static_cast<uint8_t>(got[i]),
                EncodeByte(Format(state), expected, values[i], random(i)))
          << i << " " << values[i];
    }
  }

  // Element e + 32 of a tile has the word of element e, with its halves
  // swapped.
  static uint32_t WordOf(RandomKey key, int64_t element) {
    const int64_t tile = element / 64, of_tile = element % 64;
    const uint32_t word =
        RandomWord(key, static_cast<uint64_t>(tile * 32 + of_tile % 32));
    return of_tile < 32 ? word : word << 16 | word >> 16;
  }

  StateFormat Format(size_t state) const {
    return FormatOfState(bits, static_cast<int>(state));
  }
  static std::byte* Bytes(GuardedBuffer& x) {
    return static_cast<std::byte*>(x.data());
  }
  static const std::byte* Bytes(const GuardedBuffer& x) {
    return static_cast<const std::byte*>(x.data());
  }

  int bits;
  StateFormat master_format;
  GuardedBuffer payload, sum, master;
  std::vector<GuardedBuffer> states;
};

// Two parameters with a gap between them, the second one's end within a tile.
template <class Hyper>
std::vector<StateRange<Hyper>> RangesForTest(const Hyper& hyper, int64_t size) {
  return {{.begin = 64, .end = 640, .hyper = hyper, .key = {3, 4}},
          {.begin = 704,
           .end = size - 37,
           .hyper = hyper,
           .key = {3, 5},
           .first = 1280}};
}

// A kernel's arguments.
template <class Args>
Args ArgsForTest(const StateArrays& arrays,
                 const std::vector<StateRange<typename Args::Hyper>>& ranges) {
  Args args;
  args.arrays = arrays;
  args.ranges = ranges.data();
  args.num_ranges = static_cast<int64_t>(ranges.size());
  return args;
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_STATE_UPDATE_STATE_FOR_TEST_H_
