#include "text/data/parquet_rows.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/printable.h"
#include "base/status_macros.h"

extern char** environ;

namespace castor {
namespace {

// The descriptor at which the program finds the file. It opens the file again,
// so that where it reads is its own.
constexpr int kFileOfProgram = 3;
constexpr int kNoPyarrow = 3;  // its exit status

// Prints the number of rows, then the rows.
constexpr char kProgram[] = R"py(
import json, math, sys
try:
    import pyarrow.parquet
except ImportError:
    sys.exit(3)
def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
def other(value):
    if isinstance(value, bytes):
        raise ValueError("a column holds bytes, which are no JSON")
    return str(value)
try:
    file = pyarrow.parquet.ParquetFile("/proc/self/fd/3")
    print(file.metadata.num_rows)
    for batch in file.iter_batches(batch_size=256):
        for row in batch.to_pylist():
            print(json.dumps(plain(row), ensure_ascii=False, default=other))
    sys.stdout.flush()
except Exception as error:
    sys.exit(str(error))
)py";

std::string Interpreter() {
  const char* const named = std::getenv("CASTOR_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

class ParquetRows : public SourceBytes {
 public:
  ParquetRows(int fd, int64_t size_bytes, int64_t* taken_bytes)
      : fd_(fd), size_bytes_(size_bytes), taken_bytes_(taken_bytes) {}
  ~ParquetRows() override {
    if (rows_ >= 0) close(rows_);
    if (process_ > 0) {
      kill(process_, SIGKILL);
      Wait();
    }
    if (said_ >= 0) close(said_);
  }

  absl::StatusOr<int64_t> Read(char* out, int64_t most) override {
    if (!started_) {
      started_ = true;
      CASTOR_RETURN_IF_ERROR(Start());
      CASTOR_RETURN_IF_ERROR(ReadNumberOfRows());
    }
    CASTOR_ASSIGN_OR_RETURN(const int64_t n, ReadPipe(out, most));
    if (n == 0) {
      if (process_ > 0) CASTOR_RETURN_IF_ERROR(HowItEnded(Wait()));
      if (given_ != num_rows_) {
        return Unreadable(
            absl::StrCat(given_, " of ", num_rows_, " rows came"));
      }
    }
    given_ += std::count(out, out + n, '\n');
    if (taken_bytes_ != nullptr) {
      *taken_bytes_ =
          given_ >= num_rows_
              ? size_bytes_
              : static_cast<int64_t>(static_cast<double>(size_bytes_) *
                                     static_cast<double>(given_) /
                                     static_cast<double>(num_rows_));
    }
    return n;
  }

 private:
  static absl::Status Unreadable(absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot be read by pyarrow: ", why));
  }

  absl::Status NoPyarrow(absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "is a Parquet file, which castor reads by Python's pyarrow, and ", why,
        ": pip install pyarrow, set CASTOR_PYTHON to a Python that has it, or "
        "write the rows as JSON lines"));
  }

  absl::Status Start() {
    int ends[2];
    said_ = memfd_create("castor parquet", MFD_CLOEXEC);
    if (said_ < 0 || pipe2(ends, O_CLOEXEC) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot be read: no pipe: ", std::strerror(errno)));
    }
    rows_ = ends[0];
    std::string name = Interpreter(), flag = "-c", program = kProgram;
    char* const arguments[] = {name.data(), flag.data(), program.data(),
                               nullptr};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    CASTOR_CHECK(posix_spawn_file_actions_init(&files) == 0 &&
                 posix_spawnattr_init(&attributes) == 0);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, said_, STDERR_FILENO);
    // Last: this process may have something else at that number, which is one
    // of the above then and no longer needed.
    posix_spawn_file_actions_adddup2(&files, fd_, kFileOfProgram);
    // Signals of the terminal are for castor, which ends this process itself.
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    const int error = posix_spawnp(&process_, arguments[0], &files, &attributes,
                                   arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    if (error == 0) return absl::OkStatus();
    process_ = -1;
    return NoPyarrow(absl::StrCat("\"", Printable(name),
                                  "\" cannot be started (",
                                  std::strerror(error), ")"));
  }

  absl::StatusOr<int64_t> ReadPipe(char* out, int64_t most) const {
    ssize_t n;
    do {
      n = read(rows_, out, static_cast<size_t>(most));
    } while (n < 0 && errno == EINTR);
    if (n < 0) return Unreadable(std::strerror(errno));
    return n;
  }

  absl::Status ReadNumberOfRows() {
    std::string line;
    for (char c = '\0'; line.size() < 20;) {
      CASTOR_ASSIGN_OR_RETURN(const int64_t n, ReadPipe(&c, 1));
      if (n == 0) CASTOR_RETURN_IF_ERROR(HowItEnded(Wait()));
      if (n == 0 || c == '\n') break;
      line.push_back(c);
    }
    if (absl::SimpleAtoi(line, &num_rows_) && num_rows_ >= 0) {
      return absl::OkStatus();
    }
    return Unreadable(absl::StrCat("\"", Printable(line),
                                   "\" came in place of the number of rows"));
  }

  int Wait() {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    return status;
  }

  absl::Status HowItEnded(int status) const {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoPyarrow) {
      return NoPyarrow(
          absl::StrCat("\"", Printable(Interpreter()), "\" has none"));
    }
    std::string text(1024, '\0');
    const ssize_t n = pread(said_, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, n)));
    const absl::string_view said = absl::StripAsciiWhitespace(text);
    if (!said.empty()) return Unreadable(Printable(said));
    return Unreadable(
        WIFSIGNALED(status)
            ? absl::StrCat("it ended by signal ", WTERMSIG(status))
            : absl::StrCat("it ended with exit status ", WEXITSTATUS(status)));
  }

  const int fd_;
  const int64_t size_bytes_;
  int64_t* const taken_bytes_;
  bool started_ = false;
  pid_t process_ = -1;  // -1: it has not begun, or has ended
  int rows_ = -1;       // the end of the pipe at which they arrive
  int said_ = -1;       // a file in memory: the process's standard error
  int64_t num_rows_ = 0, given_ = 0;
};

}  // namespace

bool IsParquet(absl::string_view head) {
  return absl::StartsWith(head, "PAR1");
}

std::unique_ptr<SourceBytes> RowsOfParquet(int fd, int64_t size_bytes,
                                           int64_t* taken_bytes) {
  return std::make_unique<ParquetRows>(fd, size_bytes, taken_bytes);
}

}  // namespace castor
