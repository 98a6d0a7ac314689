#include "tracer/mapped_window.h"

#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <mutex>

namespace castor {
namespace {

// The window that this thread copies into. A signal's handler reads it, so it
// must be there before a copy begins, which sets it. (Its TLS model is the
// compiler's choice: "initial-exec" in a library that is opened at run time, as
// Python's core is, made glibc free its list of thread-local destructors
// twice.)
thread_local constinit MappedWindow* copied_into = nullptr;

// The handler that SIGBUS had before.
struct sigaction previous;

void OnBusError(int number, siginfo_t* info, void* context) {
  MappedWindow* const window = copied_into;
  if (window != nullptr && window->TakeOver(info->si_addr)) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  } else {
    // Ends the process when this returns.
    signal(number, SIG_DFL);
    raise(number);
  }
}

// Installs the handler, also when somebody else's has taken the place
// meanwhile.
void InstallHandler() {
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  struct sigaction now = {};
  sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == OnBusError) {
    return;
  }
  previous = now;
  struct sigaction ours = {};
  ours.sa_sigaction = OnBusError;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, &ours, nullptr);
}

}  // namespace

int MappedWindow::Map(int fd, int64_t offset) {
  Unmap();
  InstallHandler();
  void* const data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                          fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return errno;
  data_ = static_cast<char*>(data);
  lost_.store(false, std::memory_order_relaxed);
  return 0;
}

void MappedWindow::Unmap() {
  if (data_ != nullptr) munmap(data_, kBytes);
  data_ = nullptr;
}

bool MappedWindow::Copy(int64_t at, absl::string_view text) {
  if (text.empty()) return true;
  char* const to = data_ + at;
  const size_t last = text.size() - 1;
  copied_into = this;
  // The handler must find it, and nothing may be copied after it is gone.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, text.data(), last);
  std::atomic_ref<char>(to[last]).store(text[last], std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  copied_into = nullptr;
  return !lost_.load(std::memory_order_relaxed);
}

bool MappedWindow::TakeOver(const void* address) {
  const char* const byte = static_cast<const char*>(address);
  if (byte < data_ || byte >= data_ + kBytes) return false;
  const int error = errno;
  void* const memory =
      mmap(data_, kBytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, /*fd=*/-1, 0);
  errno = error;
  if (memory == MAP_FAILED) return false;
  lost_.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace castor
