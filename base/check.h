// CASTOR_CHECK aborts if a condition does not hold that Castor's own code
// guarantees. Errors that the environment or a caller can cause are
// absl::Status instead.
#ifndef CASTOR_BASE_CHECK_H_
#define CASTOR_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define CASTOR_CHECK(condition)                                       \
  do {                                                                \
    if (!(condition)) [[unlikely]] {                                  \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, \
                   __LINE__, #condition);                             \
      std::abort();                                                   \
    }                                                                 \
  } while (false)

#endif  // CASTOR_BASE_CHECK_H_
