// Reads from the environment how many cases a test is to draw, and from which
// seed.
#ifndef CASTOR_TESTS_FROM_ENVIRONMENT_H_
#define CASTOR_TESTS_FROM_ENVIRONMENT_H_

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"

namespace castor::testing {

// The number that the environment's variable `name` has, or `otherwise` where
// it is not set. The test fails if it is no number.
inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  int64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) {
    ADD_FAILURE() << name << " is no number: " << text;
  }
  return value;
}

}  // namespace castor::testing

#endif  // CASTOR_TESTS_FROM_ENVIRONMENT_H_
