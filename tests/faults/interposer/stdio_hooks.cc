// The C library's streams call the system from within the library, where no
// hook stands. So the standard streams, and those that are opened, are made of
// functions of ours, which call the hooks.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "tests/faults/interposer/hook.h"

using namespace castor::faults;  // the hooks are no namespace's

namespace {

// A stream of ours and its descriptor. No more are open at a time.
struct Stream {
  std::atomic<FILE*> file{nullptr};
  int fd = 0;
};
constinit Stream streams[256];  // ready before any constructor

// A number that fits a pointer stands for the descriptor.
int FdOf(void* cookie) {
  return static_cast<int>(reinterpret_cast<intptr_t>(cookie));
}

ssize_t ReadFrom(void* cookie, char* data, size_t bytes) {
  return read(FdOf(cookie), data, bytes);
}
// The stream writes the rest of a short write, as glibc's own do.
ssize_t WriteTo(void* cookie, const char* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = write(FdOf(cookie), data + done, bytes - done);
    if (n < 0) break;
    done += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(done);  // 0 is an error
}
int SeekIn(void* cookie, off64_t* offset, int whence) {
  const off_t at = lseek(FdOf(cookie), *offset, whence);
  if (at < 0) return -1;
  *offset = at;
  return 0;
}
int Close(void* cookie) { return close(FdOf(cookie)); }

FILE* StreamOf(int fd, const char* mode) {
  FILE* const file =
      fopencookie(reinterpret_cast<void*>(static_cast<intptr_t>(fd)), mode,
                  {ReadFrom, WriteTo, SeekIn, Close});
  if (file == nullptr) return nullptr;
  for (Stream& stream : streams) {
    FILE* none = nullptr;
    // A closed stream's place is its successor's at the same address.
    if (stream.file.load() == file ||
        stream.file.compare_exchange_strong(none, file)) {
      stream.fd = fd;
      return file;
    }
  }
  abort();
}

int FlagsOf(const char* mode) {
  const bool both = strchr(mode, '+') != nullptr;
  const int access = both ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
  const int create = mode[0] == 'r'   ? 0
                     : mode[0] == 'w' ? O_CREAT | O_TRUNC
                                      : O_CREAT | O_APPEND;
  return access | create | (strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0) |
         (strchr(mode, 'x') != nullptr ? O_EXCL : 0);
}

__attribute__((constructor)) void ReplaceStandardStreams() {
  if (getenv(kControlVariable) == nullptr) return;
  const Own own;
  stdout = StreamOf(STDOUT_FILENO, "w");
  stderr = StreamOf(STDERR_FILENO, "w");
  setvbuf(stderr, nullptr, _IONBF, 0);
}

}  // namespace

CASTOR_HOOK(FILE*, fopen, (const char* path, const char* mode)) {
  if (control() == nullptr) return real_fopen(path, mode);
  const int fd = open(path, FlagsOf(mode), 0666);
  if (fd < 0) return nullptr;
  FILE* const file = StreamOf(fd, mode);
  if (file == nullptr) close(fd);
  return file;
}
CASTOR_HOOK_ALIAS(FILE*, fopen64, fopen, (const char* path, const char* mode));

CASTOR_HOOK(FILE*, fdopen, (int fd, const char* mode)) {
  return control() == nullptr ? real_fdopen(fd, mode) : StreamOf(fd, mode);
}

CASTOR_HOOK(int, fileno, (FILE * file)) {
  for (const Stream& stream : streams) {
    if (stream.file.load() == file) return stream.fd;
  }
  return real_fileno(file);
}

// The descriptor of a stream of ours stays; what it leads to changes.
CASTOR_HOOK(FILE*, freopen, (const char* path, const char* mode, FILE* file)) {
  if (control() == nullptr || path == nullptr) {
    return real_freopen(path, mode, file);
  }
  fflush(file);
  const int fd = open(path, FlagsOf(mode), 0666);
  if (fd < 0) return nullptr;
  const int moved = dup2(fd, fileno(file));
  close(fd);
  return moved < 0 ? nullptr : file;
}
CASTOR_HOOK_ALIAS(FILE*, freopen64, freopen,
                  (const char* path, const char* mode, FILE* file));
