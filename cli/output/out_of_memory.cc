#include "cli/output/out_of_memory.h"

#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "base/sanitizers.h"
#include "base/standard_error.h"
#include "cli/output/exit_code.h"

namespace {

// The bytes that this thread was last refused; 0: none.
thread_local size_t refused_bytes = 0;

}  // namespace

// A sanitizer has these itself.
#if !CASTOR_ADDRESS_SANITIZER && !CASTOR_THREAD_SANITIZER

// These do what the library's own do, except that they keep what they cannot
// give. All other forms of new call these; what they give is freed by
// std::free, as the library's forms of delete do.
void* operator new(size_t bytes) {
  while (true) {
    if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) {
      refused_bytes = bytes;
      throw std::bad_alloc();
    }
    handler();
  }
}

void* operator new(size_t bytes, std::align_val_t alignment) {
  const size_t align = static_cast<size_t>(alignment);
  // aligned_alloc wants a multiple of the alignment.
  const size_t whole = (bytes + align - 1) & ~(align - 1);
  while (true) {
    if (whole >= bytes) {
      if (void* const memory =
              std::aligned_alloc(align, whole == 0 ? align : whole)) {
        return memory;
      }
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) {
      refused_bytes = bytes;
      throw std::bad_alloc();
    }
    handler();
  }
}

#endif

namespace castor::cli {
namespace {

constexpr char kNoMemory[] = "RESOURCE_EXHAUSTED";

// Written without an allocation, whoever holds standard error's lock.
void Tell(const char* message, const char* code, int exit_status) {
  char line[512];
  FormatErrorWithoutMemory(message, code, exit_status, line, sizeof(line));
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line, std::strlen(line));
}

[[noreturn]] void OnTerminate() {
  char message[384];
  try {
    if (const std::exception_ptr thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
  } catch (const std::bad_alloc&) {
    std::snprintf(message, sizeof(message),
                  "out of host memory: the system gives no %zu bytes more; "
                  "free memory or raise the process's limit (ulimit -v)",
                  refused_bytes);
    Tell(message, kNoMemory, kFailure);
    _exit(kFailure);
  } catch (const std::length_error& error) {
    std::snprintf(message, sizeof(message),
                  "out of host memory: more was asked for than any allocation "
                  "can hold (%s)",
                  error.what());
    Tell(message, kNoMemory, kFailure);
    _exit(kFailure);
  } catch (const std::exception& error) {
    std::snprintf(message, sizeof(message), "internal error: %s", error.what());
    Tell(message, "INTERNAL", InterruptedBy(SIGABRT));
  } catch (...) {
  }
  std::abort();
}

}  // namespace

void TellWhenOutOfMemory() { std::set_terminate(OnTerminate); }

}  // namespace castor::cli
