// Functions for a Linux event (eventfd) that a thread or a signal handler
// raises to wake another thread, which polls its descriptor.
#ifndef CASTOR_BASE_EVENT_H_
#define CASTOR_BASE_EVENT_H_

#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace castor {

// Raises the event. A signal handler may call it. An event whose counter is
// full has been raised already: nothing is lost.
inline void RaiseEvent(int event_fd) {
  const int saved = errno;
  const uint64_t one = 1;
  while (write(event_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  errno = saved;
}

// Clears an event, raised or not. For non-blocking descriptors.
inline void ClearEvent(int event_fd) {
  uint64_t count = 0;
  while (read(event_fd, &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

}  // namespace castor

#endif  // CASTOR_BASE_EVENT_H_
