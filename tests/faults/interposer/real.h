// The functions that ours stand in front of.
#ifndef CASTOR_TESTS_FAULTS_INTERPOSER_REAL_H_
#define CASTOR_TESTS_FAULTS_INTERPOSER_REAL_H_

#include <dlfcn.h>

#include <atomic>

namespace castor::faults {

// The next definition of `name` after this library's, looked up once.
template <typename Function>
class Real {
 public:
  constexpr explicit Real(const char* name) : name_(name) {}

  Function* get() {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function;
  }
  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    return get()(arguments...);
  }

 private:
  const char* const name_;
  std::atomic<Function*> function_{nullptr};
};

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_INTERPOSER_REAL_H_
