#include "tests/cli/castor_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "base/test_files.h"

namespace castor::testing {
namespace {

// Where Bazel starts a test, its data lie at their own paths.
const std::string& Binary() {
  static const std::string& path =
      *new std::string(std::filesystem::absolute("castor").string());
  return path;
}

}  // namespace

CastorProcess::CastorProcess(const std::vector<std::string>& args,
                             const std::string& directory)
    : out_path_(directory + "/stdout.txt"),
      err_path_(directory + "/stderr.txt") {
  std::vector<char*> argv = {const_cast<char*>("castor")};
  for (const std::string& arg : args) {
    argv.push_back(const_cast<char*>(arg.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  CASTOR_CHECK(posix_spawn_file_actions_init(&actions) == 0);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, 1, out_path_.c_str(), kFlags,
                                   0644);
  posix_spawn_file_actions_addopen(&actions, 2, err_path_.c_str(), kFlags,
                                   0644);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  const int error = posix_spawn(&pid_, Binary().c_str(), &actions, nullptr,
                                argv.data(), environ);
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

void CastorProcess::Signal(int signal) const { kill(pid_, signal); }

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
                        const std::string& directory) {
  return CastorProcess(args, directory).Wait();
}

}  // namespace castor::testing
