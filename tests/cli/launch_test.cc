// castor launch: as many ranks as asked for, the same bits, one voice.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "device/comm/socket.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

class Launched : public CliTest {
 protected:
  // SmallConfig's batch, shared out by the world size.
  static Json Config() {
    Json config = SmallConfig();
    config["checkpoint"] = false;
    config.erase("gradient_accumulation_steps");
    config["train_batch_size"] = 4;
    return config;
  }

  ProcessResult Launch(const std::vector<std::string>& args) const {
    std::vector<std::string> all = {"launch"};
    all.insert(all.end(), args.begin(), args.end());
    return Castor(all);
  }

  // Processes that `parent` has started and that have not ended.
  static std::vector<pid_t> ChildrenOf(pid_t parent) {
    std::vector<pid_t> children;
    DIR* const proc = opendir("/proc");
    while (const dirent* entry = readdir(proc)) {
      int process = 0;
      if (!absl::SimpleAtoi(entry->d_name, &process)) continue;
      std::ifstream in(absl::StrCat("/proc/", process, "/stat"));
      std::string number, name, state;
      pid_t its_parent = 0;
      in >> number >> name >> state >> its_parent;
      if (its_parent == parent && state != "Z") children.push_back(process);
    }
    closedir(proc);
    return children;
  }
};

TEST_F(Launched, GivesTheBitsOfOneRank) {
  const Json one = Summary(Config());
  const ProcessResult result =
      Launch({"--nproc", "2", "run.json", "--summary", "two.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Json two = Json::parse(ReadFile(Path("two.json")));
  EXPECT_EQ(two["losses"], one["losses"]);
  EXPECT_EQ(two["parameters_sha256"], one["parameters_sha256"]);
  // One rank speaks, as it would alone.
  size_t lines = 0;
  for (size_t at = 0;
       (at = result.out.find("\nstep 6/6 ", at)) != std::string::npos; ++at) {
    ++lines;
  }
  EXPECT_EQ(lines, 1u) << result.out;
}

TEST_F(Launched, HostfileOfThisMachineNeedsNoRemoteShell) {
  WriteConfig(Config());
  WriteFile(Path("hosts"), "localhost slots=1\n127.0.0.1 slots=1\n");
  const ProcessResult result =
      Launch({"--hostfile", "hosts", "--rsh", "/no/such/shell", "run.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Launched, BadRequestsGetOneLine) {
  WriteConfig(Config());
  WriteFile(Path("hosts"), "localhost slots=1\n");
  WriteFile(Path("bad"), "localhost slots=1\nlocalhost cores=2\n");
  const struct {
    std::vector<std::string> args;
    std::string words;
  } cases[] = {
      {{}, "CONFIG.json is missing"},
      {{"--nproc", "2"}, "CONFIG.json is missing"},
      {{"run.json"}, "--nproc N"},
      {{"--nproc", "0", "run.json"}, "--nproc 0"},
      {{"--nproc", "two", "run.json"}, "--nproc two"},
      {{"--nproc", "", "run.json"}, "--nproc"},
      {{"--nproc", "2", "--master-port", "65536", "run.json"}, "65536"},
      {{"--nproc", "2", "--hostfile", "none", "run.json"}, "none"},
      {{"--nproc", "2", "--hostfile", "bad", "run.json"}, "bad, line 2"},
      {{"--nproc", "2", "--hostfile", "hosts", "run.json"}, "1 slots"},
      {{"--nproc", "2", "--rsh", " ", "run.json"}, "--rsh"},
      {{"--nproc", "2", "--bogus", "run.json"}, "--bogus"},
      {{"--nproc", "2", "run.json", "--bogus"}, "--bogus"},
      // Errors that the ranks find themselves.
      {{"--nproc", "2", "nosuch.json"}, "nosuch.json"},
      {{"--nproc", "3", "run.json"}, "world size 3"},
      {{"--nproc", "2", "run.json", "--set", "sed=1"}, "seed"},
  };
  for (const auto& each : cases) {
    const ProcessResult result = Launch(each.args);
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr(each.words));
  }
}

TEST_F(Launched, KilledRankEndsAllAndIsNamed) {
  Json config = Config();
  config["steps"] = 1'000'000;
  WriteConfig(config);
  CastorProcess process({"launch", "--nproc", "2", "run.json"}, directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 3/"));
  const std::vector<pid_t> ranks = ChildrenOf(process.pid());
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.err;
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("(process ", ranks[1])));
  EXPECT_THAT(result.err, HasSubstr(" died"));
  EXPECT_NE(kill(ranks[0], 0), 0);
}

TEST_F(Launched, SignalEndsAllInOrder) {
  Json config = Config();
  config["steps"] = 1'000'000;
  WriteConfig(config);
  CastorProcess process({"launch", "--nproc", "2", "run.json"}, directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 3/"));
  process.Signal(SIGTERM);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("interrupted after step "));
}

// Ranks that the user starts, with torchrun's variables.
class StartedByHand : public Launched {
 protected:
  // Starts two ranks by hand. `common` and then `zero` or `one` are a shell's
  // assignments of each rank's variables. Returns the exit code and the output
  // of both.
  ProcessResult StartBoth(const std::string& common, const std::string& zero,
                          const std::string& one) const {
    WriteFile(Path("both"),
              absl::StrCat("exec 2>&1; export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "
                           "MASTER_ADDR=127.0.0.1 MASTER_PORT=",
                           FreePort(), " ", common, "; RANK=1 LOCAL_RANK=1 ",
                           one, " \"$@\" & RANK=0 LOCAL_RANK=0 ", zero,
                           " \"$@\"; zero=$?; wait $!; exit $((zero + $?))"));
    return RunCastor({"train", "run.json"}, directory(), 0, ". ./both");
  }
  static int FreePort() {
    return LocalAddress(ListenAt(Loopback(), 1)->fd()).port();
  }
};

TEST_F(StartedByHand, RanksMeetByASecretFile) {
  WriteConfig(Config());
  WriteFile(Path("secret"), "0123456789abcdef0123456789abcdef\n");
  ASSERT_EQ(chmod(Path("secret").c_str(), 0600), 0);
  const ProcessResult well =
      StartBoth("CASTOR_SECRET_FILE=$PWD/secret", "", "");
  EXPECT_EQ(well.exit_code, 0) << well.out;
  EXPECT_EQ(well.out.find("castor:"), std::string::npos) << well.out;
  ASSERT_EQ(chmod(Path("secret").c_str(), 0644), 0);
  const ProcessResult open =
      StartBoth("CASTOR_SECRET_FILE=$PWD/secret", "", "");
  EXPECT_EQ(open.exit_code, 4) << open.out;
  EXPECT_THAT(open.out, HasSubstr("may be read or written by others"));
}

TEST_F(StartedByHand, RankAboveZeroByAccidentSaysWhyItDoesNothing) {
  WriteConfig(Config());
  WriteFile(Path("alone"),
            "export RANK=3 WORLD_SIZE=4 MASTER_ADDR=x "
            "MASTER_PORT=1; exec \"$@\"");
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"plan", "run.json"},
        std::vector<std::string>{"export", "out", "hf"},
        std::vector<std::string>{"replay", "trace"}}) {
    const ProcessResult result = RunCastor(args, directory(), 0, ". ./alone");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("castor: nothing is done here: RANK=3 of "
                                      "WORLD_SIZE=4"));
  }
}

}  // namespace
}  // namespace castor::testing
