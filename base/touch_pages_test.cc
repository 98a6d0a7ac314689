#include "base/touch_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace castor {
namespace {

// A range of pages that nothing has touched yet.
class Mapped {
 public:
  explicit Mapped(int64_t bytes) : bytes_(bytes) {
    data_ =
        static_cast<unsigned char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void*>(data_), MAP_FAILED);
    madvise(data_, bytes, MADV_NOHUGEPAGE);
  }
  ~Mapped() { munmap(data_, bytes_); }

  unsigned char* data() { return data_; }
  // The numbers of the pages that the system has given.
  std::vector<int64_t> Given() {
    const int64_t page = sysconf(_SC_PAGESIZE);
    std::vector<unsigned char> in_memory(bytes_ / page);
    EXPECT_EQ(mincore(data_, bytes_, in_memory.data()), 0);
    std::vector<int64_t> given;
    for (size_t i = 0; i < in_memory.size(); ++i) {
      if ((in_memory[i] & 1) != 0) given.push_back(static_cast<int64_t>(i));
    }
    return given;
  }

 private:
  const int64_t bytes_;
  unsigned char* data_ = nullptr;
};

TEST(TouchPages, GivesThePagesOfTheRangeAndNoOther) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    Mapped memory(2000 * page);
    // From within page 3 to within page 1400, over several of the tasks.
    TouchPages(pool, memory.data() + 3 * page + 17, 1397 * page);
    const std::vector<int64_t> given = memory.Given();
    ASSERT_EQ(given.size(), 1398u);
    EXPECT_EQ(given.front(), 3);
    EXPECT_EQ(given.back(), 1400);
  }
}

TEST(TouchPages, OverwritesNothingOutsideOfTheRange) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  ThreadPool pool(2);
  std::vector<unsigned char> bytes(5 * page, 0xAB);
  TouchPages(pool, bytes.data() + 100, 3 * page);
  for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(bytes[i], 0xAB);
  for (int64_t i = 100 + 3 * page; i < 5 * page; ++i) {
    ASSERT_EQ(bytes[i], 0xAB);
  }
  TouchPages(pool, bytes.data(), 0);
  EXPECT_EQ(bytes[0], 0xAB);
}

}  // namespace
}  // namespace castor
