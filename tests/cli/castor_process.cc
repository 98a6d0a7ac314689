#include "tests/cli/castor_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/test_files.h"
#include "device/comm/mpi/mpirun_for_test.h"

namespace castor::testing {
namespace {

// The time after which mpirun gives up: a test that hangs should fail by
// itself.
constexpr int kLimitSeconds = 240;

// Where Bazel starts a test, its data lie at their own paths.
const std::string& Binary() {
  static const std::string& path =
      *new std::string(std::filesystem::absolute("castor").string());
  return path;
}

// A process may end at any time.
std::string ReadIfThere(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  // An iterator would throw where the process ends while it is read.
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

CastorProcess::CastorProcess(const std::vector<std::string>& args,
                             const std::string& directory, int ranks,
                             const std::string& wrapper)
    : out_path_(directory + "/stdout.txt"),
      err_path_(directory + "/stderr.txt") {
  std::vector<std::string> words = {Binary()};
  words.insert(words.end(), args.begin(), args.end());
  if (!wrapper.empty()) {
    words.insert(words.begin(), {"/bin/sh", "-c", wrapper, "sh"});
  }
  if (ranks > 0) {
    SetMpirunEnvironment();
    words = MpirunWords(ranks, kLimitSeconds, words);
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  CASTOR_CHECK(posix_spawn_file_actions_init(&actions) == 0);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, 1, out_path_.c_str(), kFlags,
                                   0644);
  posix_spawn_file_actions_addopen(&actions, 2, err_path_.c_str(), kFlags,
                                   0644);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  const int error =
      posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  CASTOR_CHECK(error == 0);
}

CastorProcess::~CastorProcess() {
  if (!Running()) return;
  Signal(SIGKILL);
  waitpid(pid_, &status_, 0);
}

bool CastorProcess::Running() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

bool CastorProcess::WaitForOutput(const std::string& text) {
  while (true) {
    // Asked first: what it wrote before its end is then in the file.
    const bool running = Running();
    if (ReadFile(out_path_).find(text) != std::string::npos) return true;
    if (!running) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool CastorProcess::EndsWithin(int seconds) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (Running()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void CastorProcess::Signal(int signal) const { kill(pid_, signal); }

std::map<int, pid_t> CastorProcess::RankPids() const {
  constexpr char kVariable[] = "OMPI_COMM_WORLD_RANK=";
  std::map<int, pid_t> pids;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    // "pid (name) state parent ...", and variables each with a zero after it.
    const std::string stat = ReadIfThere(entry.path() / "stat");
    const size_t name_end = stat.rfind(") ");
    if (name_end == std::string::npos || stat[name_end + 2] == 'Z' ||
        std::atoi(stat.c_str() + name_end + 4) != pid_) {
      continue;
    }
    const std::string variables = ReadIfThere(entry.path() / "environ");
    const size_t at = variables.find(kVariable);
    if (at == std::string::npos) continue;
    pids[std::atoi(variables.c_str() + at + sizeof(kVariable) - 1)] = pid;
  }
  return pids;
}

ProcessResult CastorProcess::Wait() {
  if (!ended_) {
    CASTOR_CHECK(waitpid(pid_, &status_, 0) == pid_);
    ended_ = true;
  }
  ProcessResult result;
  if (WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) result.signal = WTERMSIG(status_);
  result.out = ReadFile(out_path_);
  result.err = ReadFile(err_path_);
  return result;
}

ProcessResult RunCastor(const std::vector<std::string>& args,
                        const std::string& directory, int ranks,
                        const std::string& wrapper) {
  return CastorProcess(args, directory, ranks, wrapper).Wait();
}

}  // namespace castor::testing
