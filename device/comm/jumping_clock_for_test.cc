// Preloaded (LD_PRELOAD): the system's clock jumps by a day, forth and back,
// each time that it is looked at, as if somebody kept setting it. Steady clocks
// go on as they are.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

constexpr time_t kDay = 86'400;

time_t Jump() {
  static std::atomic<unsigned> looks{0};
  return looks.fetch_add(1) % 2 == 0 ? kDay : -kDay;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t id, timespec* now) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, id, now));
  if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += Jump();
  }
  return result;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec fine;
  const int result = clock_gettime(CLOCK_REALTIME, &fine);
  now->tv_sec = fine.tv_sec;
  now->tv_usec = fine.tv_nsec / 1000;
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
