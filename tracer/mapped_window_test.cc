#include "tracer/mapped_window.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/test_files.h"

namespace castor {
namespace {

class File {
 public:
  explicit File(int64_t bytes)
      : fd_(open((directory_.path() + "/file").c_str(),
                 O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    CASTOR_CHECK(fd_ >= 0);
    Resize(bytes);
  }
  ~File() { close(fd_); }

  int fd() const { return fd_; }
  void Resize(int64_t bytes) { CASTOR_CHECK(ftruncate(fd_, bytes) == 0); }
  std::string Bytes() const { return ReadFile(directory_.path() + "/file"); }

 private:
  TemporaryDirectory directory_;
  const int fd_;
};

TEST(MappedWindow, CopiesIntoItsPartOfTheFile) {
  File file(2 * MappedWindow::kBytes);
  MappedWindow window;
  EXPECT_FALSE(window.mapped());
  ASSERT_EQ(window.Map(file.fd(), MappedWindow::kBytes), 0);
  EXPECT_TRUE(window.Copy(5, ""));
  EXPECT_TRUE(window.Copy(5, "a"));
  EXPECT_TRUE(window.Copy(6, "bcd"));
  EXPECT_EQ(file.Bytes().substr(MappedWindow::kBytes + 4, 6),
            std::string("\0abcd\0", 6));
}

TEST(MappedWindow, SaysWhatTheFileDoesNotHave) {
  File file(MappedWindow::kBytes);
  MappedWindow window;
  ASSERT_EQ(window.Map(file.fd(), 0), 0);
  file.Resize(100'000);
  EXPECT_TRUE(window.Copy(0, "there"));
  // This copy goes from pages that are there to pages that are not.
  EXPECT_FALSE(window.Copy(90'000, std::string(100'000, 'x')));
  EXPECT_FALSE(window.Copy(0, "again"));
  EXPECT_EQ(file.Bytes().size(), 100'000u);
  EXPECT_EQ(file.Bytes().substr(0, 5), "there");
  // The window is as good as new with a part of the file that is there.
  file.Resize(MappedWindow::kBytes);
  ASSERT_EQ(window.Map(file.fd(), 0), 0);
  EXPECT_TRUE(window.Copy(0, "again"));
  EXPECT_EQ(file.Bytes().substr(0, 5), "again");
}

// The other handler may also have taken the place after the first window was
// made.
TEST(MappedWindow, HandsOnFaultsOfOthers) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    File file(2 * MappedWindow::kBytes);
    MappedWindow window;
    if (window.Map(file.fd(), 0) != 0) _exit(1);
    signal(SIGBUS, [](int) { _exit(7); });
    if (window.Map(file.fd(), 0) != 0) _exit(2);
    auto* const others = static_cast<volatile char*>(
        mmap(nullptr, MappedWindow::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
             file.fd(), MappedWindow::kBytes));
    file.Resize(0);
    if (window.Copy(0, "lost")) _exit(3);
    others[0] = 'x';
    _exit(4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace castor
