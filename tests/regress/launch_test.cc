// Ranks that are started, and those that cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "device/comm/socket.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LaunchRegress : public CliTest {
 protected:
  static Json Config() {
    Json config = SmallConfig();
    config["checkpoint"] = {{"dir", "out"}};
    config.erase("gradient_accumulation_steps");
    config["train_batch_size"] = 4;
    config["steps"] = 2;
    config["network"] = {{"start_seconds", 20}};
    return config;
  }

  ProcessResult LaunchOn(const std::string& hostfile,
                         const std::string& shell = "/no/such/shell") const {
    WriteFile(Path("hosts"), hostfile);
    return Castor({"launch", "--hostfile", "hosts", "--rsh", shell, "run.json",
                   "--summary", "launched.json"});
  }

  // A script in the test's folder, as a remote shell.
  std::string RemoteShell(const std::string& script) const {
    WriteFile(Path("rsh"), "#!/bin/sh\n" + script);
    EXPECT_EQ(chmod(Path("rsh").c_str(), 0700), 0);
    return Path("rsh");
  }

  // Two ranks that are started with torchrun's variables; each with one more
  // assignment of a shell's. Gives "0: CODE\n1: CODE\n" as standard output.
  ProcessResult StartTwo(const std::string& zero,
                         const std::string& one) const {
    const int port = LocalAddress(ListenAt(Loopback(), 1)->fd()).port();
    return RunCastor(
        {"train", "run.json"}, directory(), 0,
        "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
        "MASTER_PORT=" +
            std::to_string(port) + "\nRANK=1 LOCAL_RANK=1 " + one +
            " \"$@\" >out1 2>err1 & RANK=0 LOCAL_RANK=0 " + zero +
            " \"$@\" >out0 2>err0; echo 0: $?; wait $!; echo 1: $?");
  }

  static int Lines(const std::string& text) {
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
};

// A hostfile with a machine that does not answer gave ssh's own line once for
// each rank, a word of each rank that waited for them, and exit code 255.
TEST_F(LaunchRegress, MachinesThatCannotBeReachedAreNamedInOneLine) {
  WriteConfig(Config());
  const std::string shell = RemoteShell(
      "echo \"ssh: connect to host $1 port 22: Connection refused\" >&2\n"
      "exit 255\n");
  const ProcessResult result = LaunchOn(
      "node7.invalid slots=4\nlocalhost\nnode9.invalid slots=4\n", shell);
  ExpectUserError(result);
  EXPECT_THAT(
      result.err,
      HasSubstr("2 of the run's 2 other machines cannot start ranks: "
                "node7.invalid (ssh: connect to host node7.invalid port 22: "
                "Connection refused), node9.invalid (ssh: "));
  EXPECT_EQ(result.out, "");
  EXPECT_FALSE(Exists("launched.json"));
}

TEST_F(LaunchRegress, MachineWithoutTheFolderIsNamedInOneLine) {
  WriteConfig(Config());
  const ProcessResult result = LaunchOn(
      "localhost\nnode7.invalid\n",
      RemoteShell("sed -e \"s:cd ':cd '/elsewhere:\" | sh -c \"$2\"\n"));
  ExpectUserError(result);
  EXPECT_THAT(result.err,
              HasSubstr("node7.invalid (has no directory " + directory()));
}

// The real ssh, of a name that no machine can have.
TEST_F(LaunchRegress, NameOfNoMachineIsNamedInOneLine) {
  WriteConfig(Config());
  WriteFile(Path("hosts"), "no-such-host.invalid slots=2\n");
  const ProcessResult result =
      Castor({"launch", "--hostfile", "hosts", "run.json"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("no-such-host.invalid ("));
}

// "localhost:2" was taken for a machine of that name, and given to ssh.
TEST_F(LaunchRegress, NumberOfSlotsMayFollowAColon) {
  const Json one = Summary(Config());
  for (const char* hostfile :
       {"localhost:2\n", "127.0.0.1:1\nlocalhost slots=1\n",
        "# all of them\n[127.0.0.1]:2\n"}) {
    const ProcessResult result = LaunchOn(hostfile);
    ASSERT_EQ(result.exit_code, 0) << hostfile << result.err;
    const Json launched = Json::parse(ReadFile(Path("launched.json")));
    EXPECT_EQ(launched["parameters_sha256"], one["parameters_sha256"]);
    EXPECT_THAT(result.out, HasSubstr("2 ranks"));
  }
}

TEST_F(LaunchRegress, NumberOfSlotsThatIsNoneIsRefused) {
  WriteConfig(Config());
  for (const char* hostfile :
       {"localhost:0\n", "localhost:two\n", "localhost:2 slots=2\n"}) {
    const ProcessResult result = LaunchOn(hostfile);
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr("hosts, line 1"));
  }
}

// A rank with another secret was turned away without a word, and said in the
// end that it had not found rank 0.
TEST_F(LaunchRegress, RankWithAnotherSecretIsToldSo) {
  Json config = Config();
  config["network"] = {{"start_seconds", 3}};
  WriteConfig(config);
  const std::string secret = "CASTOR_SECRET=0123456789abcdef0123456789abcdef";
  for (const std::string one :
       {"CASTOR_SECRET=fedcba9876543210fedcba9876543210", "CASTOR_RUN=x"}) {
    const ProcessResult result = StartTwo(secret, one);
    EXPECT_EQ(result.out, "0: 1\n1: 2\n");
    const std::string turned_away = ReadFile(Path("err1"));
    EXPECT_EQ(Lines(turned_away), 1) << turned_away;
    EXPECT_THAT(turned_away, HasSubstr("castor: rank 1 cannot join the run"));
    EXPECT_THAT(turned_away, HasSubstr("CASTOR_SECRET"));
    EXPECT_THAT(turned_away, Not(HasSubstr("0123456789abcdef")));
    const std::string waited = ReadFile(Path("err0"));
    EXPECT_EQ(Lines(waited), 1) << waited;
    EXPECT_THAT(waited, HasSubstr("no connection from rank 1 of 2 within 3 s"));
    EXPECT_THAT(waited, HasSubstr("turned away"));
  }
}

// The other way round: the rank has one, and rank 0 has none.
TEST_F(LaunchRegress, RankZeroWithoutTheSecretIsNotBelieved) {
  Json config = Config();
  config["network"] = {{"start_seconds", 3}};
  WriteConfig(config);
  const ProcessResult result =
      StartTwo("", "CASTOR_SECRET=0123456789abcdef0123456789abcdef");
  EXPECT_EQ(result.out, "0: 1\n1: 2\n");
  EXPECT_THAT(ReadFile(Path("err1")), HasSubstr("the secrets differ"));
}

// One of the ranks is never started: the others waited under MPI for ever, and
// over TCP for a time that nobody could set.
TEST_F(LaunchRegress, RankThatIsNeverStartedIsNamed) {
  Json config = Config();
  config["network"] = {{"start_seconds", 1}};
  WriteConfig(config);
  const ProcessResult result = StartTwo("", "exec true");
  EXPECT_THAT(result.out, HasSubstr("0: 1\n"));
  EXPECT_THAT(ReadFile(Path("err0")),
              HasSubstr("castor: no connection from rank 1 of 2 within 1 s"));
}

}  // namespace
}  // namespace castor::testing
