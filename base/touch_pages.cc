#include "base/touch_pages.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace castor {

void TouchPages(ThreadPool& pool, void* data, int64_t size_bytes) {
  if (size_bytes <= 0) return;
  static const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  // A huge page is given whole to the first who touches it, so that two threads
  // within one would wait for each other.
  constexpr int64_t kTaskBytes = int64_t{2} << 20;
  const int64_t begin = reinterpret_cast<int64_t>(data);
  const int64_t end = begin + size_bytes;
  const int64_t first = begin / kTaskBytes;
  pool.ParallelFor((end - 1) / kTaskBytes - first + 1, [&](int64_t task,
                                                           int /*thread*/) {
    const int64_t from = std::max(begin, (first + task) * kTaskBytes);
    const int64_t to = std::min(end, (first + task + 1) * kTaskBytes);
    for (int64_t at = from; at < to; at = (at / page_bytes + 1) * page_bytes) {
      *reinterpret_cast<volatile std::byte*>(at) = std::byte{0};
    }
  });
}

}  // namespace castor
