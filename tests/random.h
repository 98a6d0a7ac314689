// A stream of random numbers, the same on every machine, for tests.
#ifndef CASTOR_TESTS_RANDOM_H_
#define CASTOR_TESTS_RANDOM_H_

#include <cstdint>
#include <initializer_list>

#include "base/philox.h"

namespace castor::testing {

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : key_{seed, stream} {}

  // Returns a number in [low, high].
  int64_t Uniform(int64_t low, int64_t high) {
    const auto words = Philox4x32(key_, next_++);
    const uint64_t word = uint64_t{words[0]} << 32 | words[1];
    return low +
           static_cast<int64_t>(word % static_cast<uint64_t>(high - low + 1));
  }
  // Returns a number in [0, 1).
  double Real() {
    return static_cast<double>(Philox4x32(key_, next_++)[0]) * 0x1p-32;
  }
  bool Chance(double probability) { return Real() < probability; }
  template <typename T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Uniform(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  const RandomKey key_;
  uint64_t next_ = 0;
};

}  // namespace castor::testing

#endif  // CASTOR_TESTS_RANDOM_H_
