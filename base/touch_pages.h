// Commits memory that the system has only promised.
#ifndef CASTOR_BASE_TOUCH_PAGES_H_
#define CASTOR_BASE_TOUCH_PAGES_H_

#include <cstdint>

#include "base/thread_pool.h"

namespace castor {

// Makes the system provide every page of [data, data + size_bytes) now, on all
// threads of the pool. The system clears each page, which takes longer than the
// program's first write to it, and on one thread some seconds for ten
// gigabytes. Overwrites a byte of each page with 0; the rest stays.
void TouchPages(ThreadPool& pool, void* data, int64_t size_bytes);

}  // namespace castor

#endif  // CASTOR_BASE_TOUCH_PAGES_H_
