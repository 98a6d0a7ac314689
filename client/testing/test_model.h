// Random models of a client for tests (test_client.h).
#ifndef CASTOR_CLIENT_TESTING_TEST_MODEL_H_
#define CASTOR_CLIENT_TESTING_TEST_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client_run.h"

namespace castor::test_client {

// One operator: y[i] = x[i] w[i modulo the elements of w].
struct Layer {
  int64_t parameter = 0;
  int64_t claim = 0;       // bytes that it keeps until its backward
  int64_t temporary = 0;   // bytes that it takes for itself
  bool in_parts = false;   // its gradient is handed in as two halves
  bool read_late = false;  // its values are read once more at backward's end
  bool optional = false;   // steps with an odd number leave it out
  int64_t growth = 0;      // bytes that it takes more in each step
  // Every other micro batch hands in no gradient of it, though it reads it.
  bool seldom = false;

  // Returns true if micro batch `m` of the step, counted over all ranks, hands
  // its gradient in.
  bool HandsIn(int64_t step, int64_t m) const {
    return !seldom || (step + m) % 2 == 0;
  }
};

struct Model {
  std::vector<ClientParameter> parameters;
  std::vector<Layer> layers;
  int64_t micro_batches = 1;
  // True if the name of a step's first use tells steps of different operators
  // apart. If it does not, they are recorded each time.
  bool tells = true;
  // The lengths of micro batches by turns, in proportion to which layers take
  // bytes; empty: all have the usual one.
  std::vector<int64_t> lengths;

  static constexpr int64_t kUsualLength = 8;
  // Returns the length of micro batch `m` of the step, counted over all ranks.
  int64_t Length(int64_t step, int64_t m) const {
    if (lengths.empty()) return kUsualLength;
    return lengths[static_cast<size_t>((step - 1) * micro_batches + m) %
                   lengths.size()];
  }
};

inline Model RandomModel(std::mt19937& random) {
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  Model model;
  const int64_t parameters = 1 + below(6);
  for (int64_t i = 0; i < parameters; ++i) {
    model.parameters.push_back({.name = absl::StrCat("w", i),
                                .elements = 1 + below(below(3) == 0 ? 900 : 90),
                                .trainable = i == 0 || below(5) > 0});
  }
  const int64_t layers = 1 + below(8);
  const bool grows = below(4) == 0;
  for (int64_t i = 0; i < layers; ++i) {
    // Some are used twice, some never.
    model.layers.push_back({.parameter = i == 0 ? 0 : below(parameters),
                            .claim = below(3000),
                            .temporary = below(2) * below(9000),
                            .in_parts = below(4) == 0,
                            .read_late = below(4) == 0,
                            .optional = i > 0 && below(6) == 0,
                            .growth = grows ? below(1500) : 0,
                            .seldom = i > 0 && below(6) == 0});
  }
  model.micro_batches = 1 + below(3);
  model.tells = below(4) > 0;
  if (below(3) == 0) {
    for (int i = 0; i < 13; ++i) model.lengths.push_back(4 + below(9));
  }
  return model;
}

}  // namespace castor::test_client

#endif  // CASTOR_CLIENT_TESTING_TEST_MODEL_H_
