#include "cli/resize/memory_requests.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "cli/resize/control_socket.h"

namespace castor::cli {
namespace {

class MemoryRequestsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_RUNTIME_DIR", directory_.path().c_str(), /*overwrite=*/1);
  }
  std::string Folder() const { return directory_.path() + "/castor"; }
  std::string Own() const { return absl::StrCat(Folder(), "/", getpid()); }
  // The run's side: answers the next request.
  static void AnswerNext(MemoryRequests& requests,
                         const ControlAnswer& answer) {
    while (requests.asked()->load() == 0) std::this_thread::yield();
    requests.Answer(requests.asked()->load(), answer);
  }

  // A socket's path has to be short.
  const int short_paths_ = setenv("TEST_TMPDIR", "/tmp", /*overwrite=*/1);
  const TemporaryDirectory directory_;
};

TEST_F(MemoryRequestsTest, AreAskedAndAnswered) {
  MemoryRequests requests;
  ASSERT_TRUE(requests.Open().ok());
  struct stat folder = {};
  ASSERT_EQ(lstat(Folder().c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700u);
  for (const bool done : {true, false}) {
    std::thread run(
        [&] { AnswerNext(requests, {.done = done, .line = "a line"}); });
    const auto answer = AskProcess(getpid(), MemoryRequest(1 << 20));
    run.join();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->done, done);
    EXPECT_EQ(answer->line, "a line");
    EXPECT_EQ(requests.asked()->load(), 0);
  }
  // Another request than the one at hand is not answered.
  std::thread run([&] {
    while (requests.asked()->load() == 0) std::this_thread::yield();
    requests.Answer(4, {.done = true, .line = "not this one"});
    requests.Answer(5, {.done = true, .line = "this one"});
  });
  const auto answer = AskProcess(getpid(), MemoryRequest(5));
  run.join();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->line, "this one");
  const auto unknown = AskProcess(getpid(), "host_memory 12");
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_FALSE(unknown->done);
}

TEST_F(MemoryRequestsTest, OfARunThatEndsAreTold) {
  MemoryRequests requests;
  ASSERT_TRUE(requests.Open().ok());
  std::thread run([&] {
    while (requests.asked()->load() == 0) std::this_thread::yield();
    requests.Close();
  });
  const auto answer = AskProcess(getpid(), MemoryRequest(5));
  run.join();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->done);
  EXPECT_TRUE(absl::StrContains(answer->line, "ended")) << answer->line;
  EXPECT_NE(access(Own().c_str(), F_OK), 0);
  EXPECT_TRUE(
      absl::IsNotFound(AskProcess(getpid(), MemoryRequest(5)).status()));
}

TEST_F(MemoryRequestsTest, AreNotTakenInAFolderThatOthersMayEnter) {
  ASSERT_EQ(mkdir(Folder().c_str(), 0755), 0);
  for (const absl::Status& status :
       {MemoryRequests().Open(), AskProcess(1, MemoryRequest(5)).status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "0755")) << status;
  }
  ASSERT_EQ(rmdir(Folder().c_str()), 0);
  // A link to a folder that would do.
  const std::string other = directory_.path() + "/other";
  ASSERT_EQ(mkdir(other.c_str(), 0700), 0);
  ASSERT_EQ(symlink(other.c_str(), Folder().c_str()), 0);
  const absl::Status status = MemoryRequests().Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "a link")) << status;
}

TEST_F(MemoryRequestsTest, CleanSocketsOfEndedRunsAway) {
  ASSERT_EQ(mkdir(Folder().c_str(), 0700), 0);
  // Bound by two processes that are gone, one of which had this one's number.
  for (const std::string& path : {Own(), Folder() + "/99999999"}) {
    const Socket gone(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.c_str(), path.size());
    ASSERT_EQ(bind(gone.fd(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
  }
  WriteFile(Folder() + "/notes", "mine");
  EXPECT_TRUE(
      absl::IsNotFound(AskProcess(99999999, MemoryRequest(5)).status()));
  MemoryRequests requests;
  ASSERT_TRUE(requests.Open().ok());
  EXPECT_NE(access((Folder() + "/99999999").c_str(), F_OK), 0);
  EXPECT_EQ(access((Folder() + "/notes").c_str(), F_OK), 0);
  std::thread run(
      [&] { AnswerNext(requests, {.done = true, .line = "here"}); });
  const auto answer = AskProcess(getpid(), MemoryRequest(5));
  run.join();
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(MemoryRequestsTest, NeedAPathThatASocketCanHave) {
  const std::string deep = directory_.path() + "/" + std::string(100, 'd');
  ASSERT_EQ(mkdir(deep.c_str(), 0700), 0);
  setenv("XDG_RUNTIME_DIR", deep.c_str(), /*overwrite=*/1);
  const absl::Status status = MemoryRequests().Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "too long")) << status;
}

}  // namespace
}  // namespace castor::cli
