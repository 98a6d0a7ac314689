#include "cli/output/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "base/standard_error.h"

namespace castor::cli {

void OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest number that is free is this one. Neither reading nor writing
    // the wrong way round succeeds, so that what is lost is told.
    const int flags = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", flags) != stream) _exit(1);
  }
  // Without a buffer, the C library writes a message in pieces (of 128 bytes
  // since glibc 2.37), and several ranks' pieces get mixed.
  static char line[BUFSIZ];
  std::setvbuf(stderr, line, _IOLBF, sizeof(line));
}

bool FlushOutput() {
  static bool told = false;
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  const int error = errno;  // 0: it was an earlier write
  std::clearerr(stdout);
  if (!told) {
    TellNote("castor",
             absl::StrCat("standard output cannot be written: ",
                          error == 0 ? "a write failed" : std::strerror(error),
                          "; what is printed there is lost from here on"));
    told = true;
  }
  return false;
}

void PrintLine(absl::string_view line) {
  std::printf("%s\n", Printable(line).c_str());
  FlushOutput();
}

}  // namespace castor::cli
