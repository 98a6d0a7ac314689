// Makes the start of threads fail, for tests.
#ifndef CASTOR_BASE_TEST_THREADS_H_
#define CASTOR_BASE_TEST_THREADS_H_

#include <cstdint>

#include "base/thread.h"

namespace castor {

// While it lives, StartThread makes `more` threads, then fails.
class FewThreads {
 public:
  explicit FewThreads(int64_t more) {
    internal::threads_left_for_test.store(more);
  }
  ~FewThreads() { internal::threads_left_for_test.store(-1); }
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;

  // The number of threads that may still start. 0: the next one fails, or one
  // has.
  int64_t left() const { return internal::threads_left_for_test.load(); }
};

}  // namespace castor

#endif  // CASTOR_BASE_TEST_THREADS_H_
