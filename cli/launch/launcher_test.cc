#include "cli/launch/launcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/test_files.h"
#include "device/comm/socket.h"

namespace castor::cli {
namespace {

// Ranks are small shell scripts; their working directory is the test's.
class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    EXPECT_NE(getcwd(before_, sizeof(before_)), nullptr);
    EXPECT_EQ(chdir(directory_.path().c_str()), 0);
  }
  ~LauncherTest() override { EXPECT_EQ(chdir(before_), 0); }

  // `n` ranks of `script`, on `host`.
  static LaunchPlan Plan(int n, const std::string& script,
                         const std::string& host = "localhost") {
    LaunchPlan plan;
    for (int i = 0; i < n; ++i) {
      plan.ranks.push_back({.host = host, .local_rank = i, .local_size = n});
    }
    plan.program = {"/bin/sh", "-c", script};
    return plan;
  }

  static int Code(const LaunchPlan& plan) {
    const absl::StatusOr<int> code = RunRanks(plan);
    EXPECT_TRUE(code.ok()) << code.status();
    return code.ok() ? *code : -1;
  }

  // Runs the ranks in a process of its own, which can be sent signals.
  static pid_t Fork(const LaunchPlan& plan) {
    const pid_t process = fork();
    if (process == 0) {
      const absl::StatusOr<int> code = RunRanks(plan);
      _exit(code.ok() ? *code : 99);
    }
    return process;
  }
  static int CodeOf(pid_t process) {
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  static void Await(const std::function<bool()>& holds) {
    for (int i = 0; i < 6000 && !holds(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(holds());
  }
  bool Exists(const std::string& name) const {
    return access(Path(name).c_str(), F_OK) == 0;
  }
  // The process that wrote its number into the file is gone.
  bool IsGone(const std::string& name) const {
    const std::string stat = absl::StrCat(
        "/proc/", absl::StripAsciiWhitespace(ReadFile(Path(name))), "/stat");
    // It may go while it is looked at.
    std::ifstream in(stat);
    std::string line;
    return !std::getline(in, line) || absl::StrContains(line, ") Z ");
  }

  // A remote shell that does on this machine what ssh does on another: it gives
  // the command, as one text, to the user's shell there, in another directory
  // and with none of the variables here.
  std::vector<std::string> FakeRemoteShell() const {
    const std::string path = Path("rsh");
    WriteFile(path,
              "#!/bin/sh\n"
              "echo \"$1\" >>" +
                  Path("hosts") + "\necho \"$*\" >>" + Path("ps") +
                  "\n"
                  "cd / && exec env -i PATH=/usr/bin:/bin /bin/sh -c \"$2\"\n");
    EXPECT_EQ(chmod(path.c_str(), 0700), 0);
    return {path};
  }

 private:
  const TemporaryDirectory directory_;
  char before_[4096];
};

constexpr char kSayAll[] =
    "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR "
    "$MASTER_PORT $CASTOR_RUN_ID >rank$RANK; pwd >>rank$RANK; "
    "mv rank$RANK said$RANK";

TEST_F(LauncherTest, EveryRankIsToldWhoItIs) {
  EXPECT_EQ(Code(Plan(3, kSayAll)), 0);
  std::set<std::string> ports, runs;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string said = ReadFile(Path(absl::StrCat("said", rank)));
    const std::vector<std::string> words =
        absl::StrSplit(said, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    ASSERT_EQ(words.size(), 6u) << said;
    EXPECT_EQ(words[0], absl::StrCat(rank, "/3"));
    EXPECT_EQ(words[1], absl::StrCat(rank, "/3"));
    EXPECT_EQ(words[2], "127.0.0.1");
    ports.insert(words[3]);
    runs.insert(words[4]);
  }
  EXPECT_EQ(ports.size(), 1u);
  EXPECT_EQ(runs.size(), 1u);
  EXPECT_GE(runs.begin()->size(), 32u);
}

TEST_F(LauncherTest, RankZeroIsGivenTheSocketAtWhichItListens) {
  // The descriptor is open in rank 0 and in no other.
  EXPECT_EQ(Code(Plan(2,
                      "if [ $RANK = 0 ]; then "
                      "readlink /proc/self/fd/$CASTOR_MASTER_SOCKET >said; "
                      "else [ -z \"$CASTOR_MASTER_SOCKET\" ]; fi")),
            0);
  EXPECT_TRUE(absl::StartsWith(ReadFile(Path("said")), "socket:"));
}

TEST_F(LauncherTest, PortThatIsTakenIsRefused) {
  auto other = ListenAt(Loopback(), 1);
  ASSERT_TRUE(other.ok());
  LaunchPlan plan = Plan(2, "touch started");
  plan.master_port = LocalAddress(other->fd()).port();
  const absl::Status status = RunRanks(plan).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(absl::StrContains(status.message(), "--master-port")) << status;
  EXPECT_FALSE(Exists("started"));
}

TEST_F(LauncherTest, ProgramThatIsNotThereIsNamed) {
  LaunchPlan plan = Plan(2, "");
  plan.program = {"/no/such/program"};
  const absl::Status status = RunRanks(plan).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "/no/such/program"))
      << status;
}

TEST_F(LauncherTest, CodeIsTheFirstFailedRanks) {
  EXPECT_EQ(Code(Plan(3, "[ $RANK = 1 ] && exit 7; exit 0")), 7);
  EXPECT_EQ(Code(Plan(2,
                      "if [ $RANK = 1 ]; then touch first; exit 5; fi; "
                      "while [ ! -e first ]; do sleep 0.01; done; sleep 0.3; "
                      "exit 6")),
            5);
  EXPECT_EQ(Code(Plan(2, "[ $RANK = 1 ] && kill -9 $$; exit 0")), 128 + 9);
  // The rank that died is the cause, though the others' exits may be found
  // before.
  EXPECT_EQ(Code(Plan(2,
                      "if [ $RANK = 0 ]; then touch gone; exit 1; fi; "
                      "while [ ! -e gone ]; do sleep 0.01; done; sleep 0.2; "
                      "kill -9 $$")),
            128 + 9);
}

TEST_F(LauncherTest, FailureThatRankZeroDoesNotKnowOfIsTold) {
  ::testing::internal::CaptureStderr();
  EXPECT_NE(Code(Plan(3, "exit $RANK")), 0);
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::StartsWith(said, "castor launch: rank ")) << said;
  EXPECT_TRUE(absl::EndsWith(said, " but rank 0 with 0, as if all were well\n"))
      << said;
  // A rank that failed itself has said so.
  ::testing::internal::CaptureStderr();
  EXPECT_NE(Code(Plan(2, "exit 1")), 0);
  said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said, "");
}

TEST_F(LauncherTest, UsersErrorIsTwoWhoeverFailsFirst) {
  EXPECT_EQ(Code(Plan(2,
                      "if [ $RANK = 1 ]; then touch first; exit 1; fi; "
                      "while [ ! -e first ]; do sleep 0.01; done; exit 2")),
            2);
}

TEST_F(LauncherTest, RanksThatDoNotEndByThemselvesAreEnded) {
  // One heeds a SIGTERM, the other does not.
  LaunchPlan plan = Plan(3,
                         "echo $$ >pid$RANK; mv pid$RANK is$RANK; "
                         "case $RANK in "
                         "0) trap '' TERM;; "
                         "1) trap 'touch heeded; exit 0' TERM;; "
                         "2) while [ ! -e is0 -o ! -e is1 ]; do sleep 0.01; "
                         "done; exit 4;; esac; "
                         "while :; do sleep 0.05; done");
  plan.patience_ns = plan.last_patience_ns = 500'000'000;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Code(plan), 4);
  // They may not have come to say anything.
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* words :
       {"castor launch: rank 2 has failed (exit code 4), and 2 of the others "
        "do not end: they get SIGTERM\n",
        "of the others do not end: they get SIGKILL\n"}) {
    EXPECT_TRUE(absl::StrContains(said, words)) << said;
  }
  EXPECT_TRUE(Exists("heeded"));
  EXPECT_TRUE(IsGone("is0"));
  EXPECT_TRUE(IsGone("is1"));
}

constexpr char kUntilSignal[] =
    "trap 'touch int$RANK; exit 0' INT; trap 'touch term$RANK; exit 0' TERM; "
    "echo $$ >pid$RANK; mv pid$RANK is$RANK; while :; do sleep 0.05; done";

TEST_F(LauncherTest, SignalsArePassedOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t launcher = Fork(Plan(2, kUntilSignal));
    Await([&] { return Exists("is0") && Exists("is1"); });
    kill(launcher, signal);
    EXPECT_EQ(CodeOf(launcher), 0);
    for (const char* rank : {"0", "1"}) {
      EXPECT_TRUE(
          Exists(absl::StrCat(signal == SIGINT ? "int" : "term", rank)));
      EXPECT_EQ(unlink(Path(absl::StrCat("is", rank)).c_str()), 0);
    }
  }
}

TEST_F(LauncherTest, RanksThatHeedNoSignalAreEndedAfterALimit) {
  LaunchPlan plan = Plan(2,
                         "trap '' INT; trap 'touch term$RANK' TERM; "
                         "echo $$ >pid$RANK; mv pid$RANK is$RANK; "
                         "while :; do sleep 0.05; done");
  plan.signal_patience_ns = 300'000'000;
  const pid_t launcher = Fork(plan);
  Await([&] { return Exists("is0") && Exists("is1"); });
  kill(launcher, SIGINT);
  EXPECT_EQ(CodeOf(launcher), 128 + SIGKILL);
  EXPECT_TRUE(Exists("term0") && Exists("term1"));  // first a SIGTERM
  EXPECT_TRUE(IsGone("is0"));
  EXPECT_TRUE(IsGone("is1"));
}

TEST_F(LauncherTest, RanksThatSaveAreWaitedFor) {
  // Rank 0 saves for several times the limit, and heeds nothing meanwhile; rank
  // 1 waits for it, as in a collective.
  LaunchPlan plan =
      Plan(2,
           "trap '' TERM; trap 'asked=1' INT; echo $$ >pid$RANK; "
           "mv pid$RANK is$RANK; while [ -z \"$asked\" ]; do sleep 0.05; done; "
           "if [ $RANK = 0 ]; then for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "
           "printf %0200000d $i >part; sleep 0.25; done; mv part saved; fi; "
           "while [ ! -e saved ]; do sleep 0.05; done");
  plan.signal_patience_ns = 1'000'000'000;
  const pid_t launcher = Fork(plan);
  Await([&] { return Exists("is0") && Exists("is1"); });
  kill(launcher, SIGINT);
  EXPECT_EQ(CodeOf(launcher), 0);
  EXPECT_TRUE(Exists("saved"));
}

TEST_F(LauncherTest, SecondSignalEndsRanksAtOnce) {
  const pid_t launcher =
      Fork(Plan(2,
                "trap 'touch int$RANK' INT; trap '' HUP; echo $$ >pid$RANK; "
                "mv pid$RANK is$RANK; while :; do sleep 0.05; done"));
  Await([&] { return Exists("is0") && Exists("is1"); });
  // Two at once, as a terminal's end sends them, are one.
  kill(launcher, SIGINT);
  kill(launcher, SIGHUP);
  Await([&] { return Exists("int0") && Exists("int1"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_FALSE(IsGone("is0"));
  kill(launcher, SIGINT);
  EXPECT_EQ(CodeOf(launcher), 128 + SIGKILL);
  EXPECT_TRUE(IsGone("is0"));
  EXPECT_TRUE(IsGone("is1"));
}

TEST_F(LauncherTest, KilledLauncherLeavesNoRank) {
  const pid_t launcher = Fork(Plan(2, kUntilSignal));
  Await([&] { return Exists("is0") && Exists("is1"); });
  kill(launcher, SIGKILL);
  EXPECT_EQ(CodeOf(launcher), 128 + 9);
  Await([&] { return IsGone("is0") && IsGone("is1"); });
}

TEST_F(LauncherTest, RemoteRanksFindDirectoryVariablesAndArguments) {
  setenv("OMP_NUM_THREADS", "it's $two\nlines", 1);
  LaunchPlan plan = Plan(2, kSayAll, "far-away.invalid");
  plan.program.back() +=
      "; printf '%s|' \"$OMP_NUM_THREADS\" \"$0\" \"$1\" "
      ">>said$RANK";
  plan.program.push_back("a 'quoted' word");
  plan.program.push_back("* $HOME\n");
  plan.remote_shell = FakeRemoteShell();
  EXPECT_EQ(Code(plan), 0);
  unsetenv("OMP_NUM_THREADS");
  // Asked once whether it answers, and once for each rank.
  EXPECT_EQ(ReadFile(Path("hosts")),
            "far-away.invalid\nfar-away.invalid\nfar-away.invalid\n");
  for (int rank = 0; rank < 2; ++rank) {
    const std::string said = ReadFile(Path(absl::StrCat("said", rank)));
    EXPECT_TRUE(absl::StartsWith(said, absl::StrCat(rank, "/2 ", rank, "/2 ")))
        << said;
    EXPECT_TRUE(absl::StrContains(said, " far-away.invalid ")) << said;
    EXPECT_TRUE(
        absl::EndsWith(said, "it's $two\nlines|a 'quoted' word|* $HOME\n|"))
        << said;
  }
}

constexpr char kSaySecret[] =
    "printf %s \"$CASTOR_SECRET\" >pid$RANK; tr '\\0' ' ' </proc/$$/cmdline "
    ">>ps; env >env$RANK; mv pid$RANK secret$RANK";

TEST_F(LauncherTest, EveryRunHasASecretOfItsOwn) {
  // Whatever the launcher's own environment has of one.
  setenv("CASTOR_SECRET", "of somebody else's run", 1);
  setenv("CASTOR_SECRET_FILE", "/no/such/file", 1);
  setenv("NVIDIA_API_KEY", "nvapi-123", 1);
  std::set<std::string> secrets;
  for (const char* host : {"localhost", "far-away.invalid"}) {
    LaunchPlan plan = Plan(2, kSaySecret, host);
    plan.remote_shell = FakeRemoteShell();
    EXPECT_EQ(Code(plan), 0);
    const std::string secret = ReadFile(Path("secret0"));
    EXPECT_EQ(secret.size(), 64u);
    EXPECT_EQ(ReadFile(Path("secret1")), secret);
    secrets.insert(secret);
    for (const char* file : {"env0", "env1"}) {
      const std::string environment = ReadFile(Path(file));
      EXPECT_FALSE(absl::StrContains(environment, "CASTOR_SECRET_FILE"));
      EXPECT_EQ(absl::StrContains(environment, "nvapi-123"),
                std::string(host) == "localhost");
    }
    // No command line has it: the rank's own, the remote shell's.
    EXPECT_FALSE(absl::StrContains(ReadFile(Path("ps")), secret));
  }
  unsetenv("CASTOR_SECRET");
  unsetenv("CASTOR_SECRET_FILE");
  unsetenv("NVIDIA_API_KEY");
  EXPECT_EQ(secrets.size(), 2u);
}

TEST_F(LauncherTest, RemoteRanksGetTheVariablesThatAreNamed) {
  setenv("MY_OWN", "and its value", 1);
  LaunchPlan plan = Plan(1, "printf %s \"$MY_OWN\" >said", "far-away.invalid");
  plan.remote_shell = FakeRemoteShell();
  EXPECT_EQ(Code(plan), 0);
  EXPECT_EQ(ReadFile(Path("said")), "");
  plan.exported = {"MY_OWN"};
  EXPECT_EQ(Code(plan), 0);
  EXPECT_EQ(ReadFile(Path("said")), "and its value");
  unsetenv("MY_OWN");
  EXPECT_EQ(RunRanks(plan).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LauncherTest, RemoteRanksGetSignalsAndGiveTheirCode) {
  LaunchPlan plan = Plan(2, kUntilSignal, "far-away.invalid");
  plan.remote_shell = FakeRemoteShell();
  const pid_t launcher = Fork(plan);
  Await([&] { return Exists("is0") && Exists("is1"); });
  kill(launcher, SIGINT);
  EXPECT_EQ(CodeOf(launcher), 0);
  EXPECT_TRUE(Exists("int0"));
  EXPECT_TRUE(Exists("int1"));
  plan = Plan(2, "exit $((RANK + 3))", "far-away.invalid");
  plan.remote_shell = FakeRemoteShell();
  const int code = Code(plan);
  EXPECT_TRUE(code == 3 || code == 4) << code;
}

TEST_F(LauncherTest, RemoteRanksEndWithTheirLauncher) {
  // The remote shell is like ssh: the rank itself is no child of the
  // launcher's, but its input ends.
  LaunchPlan plan = Plan(1, kUntilSignal, "far-away.invalid");
  WriteFile(Path("rsh"),
            "#!/bin/sh\n"
            "cat | setsid /bin/sh -c \"$2\"\n");
  ASSERT_EQ(chmod(Path("rsh").c_str(), 0700), 0);
  plan.remote_shell = {Path("rsh")};
  const pid_t launcher = Fork(plan);
  Await([&] { return Exists("is0"); });
  kill(launcher, SIGKILL);
  EXPECT_EQ(CodeOf(launcher), 128 + 9);
  Await([&] { return Exists("term0"); });
}

// Machines that could not be reached gave a line of ssh's for each rank, and
// its exit code, while the others waited for them.
TEST_F(LauncherTest, MachinesThatDoNotAnswerAreNamedBeforeAnythingStarts) {
  WriteFile(Path("rsh"),
            "#!/bin/sh\n"
            "case $1 in *gone*) echo Welcome >&2; echo \"ssh: connect to host "
            "$1 port 22: Connection refused\" >&2; exit 255;; "
            "deaf*) exec sleep 600;; esac\n"
            "exec /bin/sh -c \"$2\"\n");
  ASSERT_EQ(chmod(Path("rsh").c_str(), 0700), 0);
  LaunchPlan plan = Plan(5, "touch started");
  plan.remote_shell = {Path("rsh")};
  plan.ranks[1].host = "gone1.invalid";
  plan.ranks[2].host = "gone1.invalid";
  plan.ranks[3].host = "somebody@gone2.invalid";
  plan.ranks[4].host = "there.invalid";
  const absl::Status gone = RunRanks(plan).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kFailedPrecondition) << gone;
  for (const char* words :
       {"2 of the run's 3 other machines cannot start ranks: gone1.invalid "
        "(ssh: connect to host gone1.invalid port 22: Connection refused), "
        "somebody@gone2.invalid (ssh: connect to host somebody@gone2.invalid",
        "nothing was started", "rsh HOST true` work without a password"}) {
    EXPECT_TRUE(absl::StrContains(gone.message(), words)) << gone;
  }
  plan.ranks[1].host = plan.ranks[2].host = plan.ranks[3].host = "deaf.invalid";
  plan.host_patience_ns = 1'000'000'000;
  const absl::Status deaf = RunRanks(plan).status();
  EXPECT_TRUE(absl::StrContains(
      deaf.message(),
      "1 of the run's 2 other machines cannot start ranks: deaf.invalid (no "
      "answer within 1 s)"))
      << deaf;
  EXPECT_FALSE(Exists("started"));
}

TEST_F(LauncherTest, MachinesWithoutTheProgramOrTheDirectoryAreNamed) {
  LaunchPlan plan = Plan(1, "touch started", "far-away.invalid");
  plan.remote_shell = FakeRemoteShell();
  plan.program[0] = "/no/such/castor";
  absl::Status status = RunRanks(plan).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_TRUE(absl::StrContains(
      status.message(), "far-away.invalid (has no program /no/such/castor)"))
      << status;
  // The launcher's directory has gone where the rank is to be.
  plan = Plan(1, "touch started", "far-away.invalid");
  WriteFile(Path("gone"),
            "#!/bin/sh\nsed -e \"s:cd ':cd '/no/such:\" | /bin/sh -c "
            "\"$2\"\n");
  ASSERT_EQ(chmod(Path("gone").c_str(), 0700), 0);
  plan.remote_shell = {Path("gone")};
  status = RunRanks(plan).status();
  EXPECT_TRUE(absl::StrContains(status.message(),
                                "far-away.invalid (has no directory /"))
      << status;
  plan.remote_shell = {"/no/such/shell"};
  status = RunRanks(plan).status();
  EXPECT_TRUE(absl::StrContains(status.message(),
                                "cannot start /no/such/shell: No such file"))
      << status;
  EXPECT_FALSE(Exists("started"));
}

TEST_F(LauncherTest, SignalWhileMachinesAreAskedEndsTheLauncher) {
  WriteFile(Path("rsh"),
            "#!/bin/sh\necho $$ >pid; mv pid asks; exec sleep 600\n");
  ASSERT_EQ(chmod(Path("rsh").c_str(), 0700), 0);
  LaunchPlan plan = Plan(1, "touch started", "far-away.invalid");
  plan.remote_shell = {Path("rsh")};
  plan.host_patience_ns = 600'000'000'000;
  const pid_t launcher = Fork(plan);
  Await([&] { return Exists("asks"); });
  kill(launcher, SIGTERM);
  EXPECT_EQ(CodeOf(launcher), 128 + SIGTERM);
  EXPECT_TRUE(IsGone("asks"));
  EXPECT_FALSE(Exists("started"));
}

// A connection that is lost later is told with the machine's name.
TEST_F(LauncherTest, RemoteShellThatFailsUnderWayIsTold) {
  LaunchPlan plan = Plan(1, "exit 255", "far-away.invalid");
  plan.remote_shell = FakeRemoteShell();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Code(plan), 255);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "castor launch: the remote shell of rank 0, on far-away.invalid, "
            "has failed (exit code 255)\n");
}

TEST(IsThisMachine, KnowsItsOwnNames) {
  EXPECT_TRUE(IsThisMachine("localhost"));
  EXPECT_TRUE(IsThisMachine("somebody@127.0.0.1"));
  char name[256] = "";
  ASSERT_EQ(gethostname(name, sizeof(name)), 0);
  EXPECT_TRUE(IsThisMachine(name));
  EXPECT_FALSE(IsThisMachine("no-such-host.invalid"));
  EXPECT_FALSE(IsThisMachine("192.0.2.1"));  // for documentation
}

}  // namespace
}  // namespace castor::cli
