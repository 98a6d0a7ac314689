#include "tests/faults/interposer/effects.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "tests/faults/interposer/meet.h"

namespace castor::faults {
namespace {

// Reads a link of the library's own, without going through any hook.
bool ReadLink(const char* link, char* out) {
  const long n = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX);
  if (n < 0) return false;
  out[n] = '\0';
  return true;
}

// Without "." and doubled slashes; ".." stays, nobody uses it.
void Absolute(int directory, const char* path, char* out) {
  char from[PATH_MAX + 1] = "";
  if (path[0] != '/') {
    char link[32] = "/proc/self/cwd";
    if (directory != AT_FDCWD) {
      snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
    }
    ReadLink(link, from);
  }
  size_t n = strlen(from);
  memcpy(out, from, n);
  for (const char* at = path; *at != '\0';) {
    const char* const end = strchrnul(at, '/');
    const size_t size = static_cast<size_t>(end - at);
    if (size > 0 && !(size == 1 && *at == '.') && n + size + 1 < PATH_MAX) {
      out[n++] = '/';
      memcpy(out + n, at, size);
      n += size;
    }
    at = *end == '/' ? end + 1 : end;
  }
  out[n] = '\0';
}

// `path` relative to the root, or null.
const char* UnderRoot(const char* path) {
  const size_t n = strlen(control()->root);
  if (n == 0 || strncmp(path, control()->root, n) != 0) return nullptr;
  if (path[n] == '\0') return path + n;
  return path[n] == '/' ? path + n + 1 : nullptr;
}

void Put(EffectHeader header, const char* path, const char* other,
         const void* data) {
  Control* const shared = control();
  header.path_bytes = static_cast<uint32_t>(strlen(path));
  header.other_bytes = static_cast<uint32_t>(strlen(other));
  header.role = Role();
  const size_t bytes = sizeof(header) + header.path_bytes + header.other_bytes +
                       header.data_bytes;
  header.size_bytes = static_cast<uint32_t>((bytes + 7) / 8 * 8);
  const uint64_t at = shared->log_end.fetch_add(header.size_bytes);
  if (at + header.size_bytes > kLogBytes) {
    shared->log_lost.fetch_add(1);
    return;
  }
  char* out = shared->log + at;
  EffectHeader* const to = reinterpret_cast<EffectHeader*>(out);
  memcpy(out, &header, sizeof(header));
  out += sizeof(header);
  memcpy(out, path, header.path_bytes);
  memcpy(out + header.path_bytes, other, header.other_bytes);
  memcpy(out + header.path_bytes + header.other_bytes, data, header.data_bytes);
  std::atomic_ref<uint32_t>(to->ready).store(1);
}

EffectHeader NewHeader(Effect effect) {
  EffectHeader header = {};
  header.effect = effect;
  return header;
}

uint64_t InodeOf(int fd) {
  struct stat info;
  return syscall(SYS_fstat, fd, &info) == 0 ? info.st_ino : 0;
}

bool Skips() { return control() == nullptr || IsOwn(); }

}  // namespace

void LogPath(Effect effect, int directory, const char* path, int64_t number,
             int fd) {
  if (Skips()) return;
  const Own own;
  const int error = errno;
  char name[PATH_MAX + 1];
  Absolute(directory, path, name);
  if (const char* const under = UnderRoot(name)) {
    EffectHeader header = NewHeader(effect);
    header.number = number;
    if (fd >= 0) header.inode = InodeOf(fd);
    Put(header, under, "", "");
  }
  errno = error;
}

void LogTwoPaths(Effect effect, int from_directory, const char* from,
                 int to_directory, const char* to) {
  if (Skips()) return;
  const Own own;
  const int error = errno;
  char from_name[PATH_MAX + 1], to_name[PATH_MAX + 1];
  Absolute(from_directory, from, from_name);
  Absolute(to_directory, to, to_name);
  const char* const under_from = UnderRoot(from_name);
  const char* const under_to = UnderRoot(to_name);
  if (under_from != nullptr && under_to != nullptr) {
    Put(NewHeader(effect), under_from, under_to, "");
  }
  errno = error;
}

void LogFile(Effect effect, int fd, int64_t offset, const void* data,
             size_t bytes) {
  if (Skips()) return;
  const Own own;
  const int error = errno;
  EffectHeader header = NewHeader(effect);
  header.data_bytes = static_cast<uint32_t>(bytes);
  if (fd == STDOUT_FILENO || fd == STDERR_FILENO) {
    if (effect == Effect::kWrite) {
      header.effect = Effect::kOutput;
      header.number = fd;
      Put(header, "", "", data);
    }
  } else {
    char link[32], name[PATH_MAX + 1];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const char* under = nullptr;
    if (ReadLink(link, name)) under = UnderRoot(name);
    if (under != nullptr) {
      header.inode = InodeOf(fd);
      header.offset = offset;
      Put(header, under, "", data);
    }
  }
  errno = error;
}

void LogWritten(int fd, const void* data, size_t bytes) {
  if (Skips()) return;
  const int error = errno;
  const int64_t end = syscall(SYS_lseek, fd, 0, SEEK_CUR);
  errno = error;
  LogFile(Effect::kWrite, fd, end - static_cast<int64_t>(bytes), data, bytes);
}

}  // namespace castor::faults
