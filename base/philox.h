// Philox4x32-10, a counter-based random generator: the value at a counter
// depends only on the key and the counter, so dropout and initial values do not
// depend on which rank or thread computes them, in which order, or how often.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011, section 4.3. Constants as given there.
#ifndef CASTOR_BASE_PHILOX_H_
#define CASTOR_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace castor {

// The key of one random stream: `seed` for the run, `stream` for the use (a
// parameter's name, a dropout's place and micro batch; see MixKey).
struct RandomKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

// Returns four words for counter (`index`, `stream`) under key `seed`.
constexpr std::array<uint32_t, 4> Philox4x32(RandomKey key, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index);
  uint32_t c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(key.stream);
  uint32_t c3 = static_cast<uint32_t>(key.stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Returns the random word of `element`: lane (element mod 4) of counter
// (element / 4).
constexpr uint32_t RandomWord(RandomKey key, uint64_t element) {
  return Philox4x32(key, element / 4)[element % 4];
}

// Mixes two words into a stream number (the finaliser of splitmix64).
constexpr uint64_t MixKey(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9E3779B97F4A7C15u * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Hashes a name to a word for MixKey (FNV-1a, 64 bits).
constexpr uint64_t HashName(const char* data, uint64_t size) {
  uint64_t h = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < size; ++i) {
    h = (h ^ static_cast<unsigned char>(data[i])) * 0x100000001b3u;
  }
  return h;
}

}  // namespace castor

#endif  // CASTOR_BASE_PHILOX_H_
