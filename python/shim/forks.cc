#include "python/shim/forks.h"

#include <pthread.h>

#include <atomic>

namespace castor::shim {
namespace {

std::atomic<int> forks{0};

}  // namespace

int ForksSinceStart() {
  static const int registered = pthread_atfork(
      nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace castor::shim
