// Locks that nobody holds, and caches that nobody may trust.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RegressLocks : public CliTest {
 protected:
  RegressLocks() {
    std::string lines;
    for (int i = 0; i < 16; ++i) {
      lines += Json({{"input_ids", {i, 1, 2, 3}}}).dump() + "\n";
    }
    WriteFile(Path("a.jsonl"), lines);
  }
  static Json Config() {
    Json config = SmallConfig();
    config["model"] = {{"type", "gpt2"}, {"vocab_size", 64},
                       {"n_layer", 1},   {"n_head", 1},
                       {"n_embd", 8},    {"n_positions", 8}};
    config["data"] = {{"train", "a.jsonl"}, {"sequence_length", 4}};
    config["steps"] = 1;
    return config;
  }
  // The name of the only file of tokens.
  std::string Cache() const {
    for (const std::string& name : List("")) {
      if (name.find(".castor-tokens-") != std::string::npos) return name;
    }
    ADD_FAILURE() << "no tokens are kept";
    return "";
  }
  // Holds the lock file `name` as this process until it is closed.
  int Hold(const std::string& name, const std::string& text) const {
    WriteFile(Path(name), text);
    const int fd = open(Path(name).c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
  }
};

// A directory of a lock's name was waited for, for ever, as if another process
// tokenised; and a run was told that one trains in the directory.
TEST_F(RegressLocks, ADirectoryInALocksPlaceIsNoLock) {
  ASSERT_EQ(Train(Config()).exit_code, 0);
  const std::string lock = Cache() + ".lock";
  std::filesystem::remove(Path(Cache()));
  std::filesystem::create_directory(Path(lock));
  const ProcessResult data = Train(Config());
  ExpectUserError(data);
  EXPECT_THAT(data.err, AllOf(HasSubstr("data.train"), HasSubstr(lock),
                              HasSubstr("no regular file: remove it")));
  std::filesystem::remove(Path(lock));
  std::filesystem::create_directory(Path("out/castor.lock"));
  const ProcessResult checkpoint = Train(Config());
  ExpectUserError(checkpoint);
  EXPECT_THAT(
      checkpoint.err,
      AllOf(HasSubstr("checkpoint.dir"), HasSubstr("castor.lock"),
            HasSubstr("no regular file: remove it"), Not(HasSubstr("in use"))));
}

// A run that waits says for which other, and does not wait for ever.
TEST_F(RegressLocks, AWaitHasAnEndAndAName) {
  ASSERT_EQ(Train(Config()).exit_code, 0);
  const std::string cache = Cache();
  std::filesystem::remove(Path(cache));
  const std::string me = std::to_string(getpid());
  const int data =
      Hold(cache + ".lock", "{\"host\": \"far\", \"process\": 12}");
  const ProcessResult result =
      Train(Config(), {"--set", "data.cache_timeout_seconds=0.2"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, AllOf(HasSubstr("process 12 on host \"far\""),
                                HasSubstr("data.cache_timeout_seconds")));
  EXPECT_THAT(result.out, HasSubstr("data.train: another process tokenises"));
  close(data);
  std::filesystem::remove(Path(cache + ".lock"));

  const int run =
      Hold("out/castor.lock", "{\"host\": \"far\", \"process\": 7}");
  const ProcessResult refused = Train(Config());
  ExpectUserError(refused);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("in use by process 7 on host"),
                                 HasSubstr("checkpoint.lock_timeout_seconds")));
  WriteConfig(Config());
  CastorProcess waits(
      {"train", "run.json", "--set", "checkpoint.lock_timeout_seconds=3600"},
      directory());
  EXPECT_TRUE(waits.WaitForOutput("waiting for process 7"));
  close(run);
  EXPECT_EQ(waits.Wait().exit_code, 0);
}

// A file that another user had put under the name of a run's tokens, in a
// folder that all may write to, was learned without a word: its checksums can
// be computed.
TEST_F(RegressLocks, TokensOfAnotherUserAreNotLearned) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  Json config = Config();
  config["checkpoint"] = false;
  const Json own = Summary(config);
  const std::string cache = Cache();
  if (chown(Path(cache).c_str(), 65534, 65534) != 0) {
    GTEST_SKIP() << "there is no other user here";
  }
  chmod(directory().c_str(), 01777);
  const ProcessResult result = Train(config, {"--summary", "s.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr(cache + "\" belongs to another user"),
                                HasSubstr(cache + "-u0\" takes its place"),
                                HasSubstr("data.train: tokenised")));
  EXPECT_EQ(Json::parse(ReadFile(Path("s.json")))["parameters_sha256"],
            own["parameters_sha256"]);
}

// The same of tokens that others may write to; the umask had let them.
TEST_F(RegressLocks, TokensThatOthersMayWriteAreMadeAnew) {
  Json config = Config();
  config["checkpoint"] = false;
  ASSERT_EQ(Train(config).exit_code, 0);
  ASSERT_EQ(chmod(Path(Cache()).c_str(), 0666), 0);
  const ProcessResult result = Train(config);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("can be written to by other users: it is "
                                    "made anew"));
  EXPECT_THAT(Train(config).out, Not(HasSubstr("made anew")));
}

}  // namespace
}  // namespace castor::testing
