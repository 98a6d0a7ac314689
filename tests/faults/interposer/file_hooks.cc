// Calls on open files.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/faults/interposer/effects.h"
#include "tests/faults/interposer/hook.h"

namespace castor::faults {
namespace {

Object ObjectOfOpen(const char* path, int flags) {
  const Object object = ObjectOfPath(path);
  if (object == Object::kSystem) return object;
  if ((flags & O_CREAT) != 0) return Object::kNewFile;
  return (flags & O_DIRECTORY) != 0 ? Object::kDirectory : Object::kFile;
}

void AfterOpen(int directory, const char* path, int flags, int fd) {
  if (fd >= 0 && (flags & (O_CREAT | O_TRUNC)) != 0) {
    LogPath(Effect::kOpen, directory, path, flags, fd);
  }
}

// Returns half of `bytes`, at least 1 unless there are none.
size_t Half(size_t bytes) { return bytes > 1 ? bytes / 2 : bytes; }

// Returns half of the number of buffers, at least 1 unless there are none.
int HalfOf(int count) { return count > 1 ? count / 2 : count; }

bool SkipsDisk() { return control() != nullptr && !control()->sync_to_disk; }

}  // namespace
}  // namespace castor::faults

using namespace castor::faults;  // the hooks are no namespace's

CASTOR_HOOK(int, open, (const char* path, int flags, ...)) {
  va_list list;
  va_start(list, flags);
  const mode_t mode =
      (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (Meet("open", ObjectOfOpen(path, flags), path, flags) > 0) return -1;
  const int fd = reinterpret_cast<int (*)(const char*, int, mode_t)>(
      real_open.get())(path, flags, mode);
  AfterOpen(AT_FDCWD, path, flags, fd);
  return fd;
}
CASTOR_HOOK_ALIAS(int, open64, open, (const char* path, int flags, ...));

CASTOR_HOOK(int, openat, (int directory, const char* path, int flags, ...)) {
  va_list list;
  va_start(list, flags);
  const mode_t mode =
      (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (Meet("openat", ObjectOfOpen(path, flags), path, flags) > 0) return -1;
  const int fd = reinterpret_cast<int (*)(int, const char*, int, mode_t)>(
      real_openat.get())(directory, path, flags, mode);
  AfterOpen(directory, path, flags, fd);
  return fd;
}
CASTOR_HOOK_ALIAS(int, openat64, openat,
                  (int directory, const char* path, int flags, ...));

// Whatever close says, the descriptor is gone.
CASTOR_HOOK(int, close, (int fd)) {
  const int32_t fault = Meet("close", fd, 0);
  const int result = real_close(fd);
  if (fault <= 0) return result;
  errno = fault;
  return -1;
}

CASTOR_HOOK(ssize_t, read, (int fd, void* data, size_t bytes)) {
  const int32_t fault = Meet("read", fd, static_cast<int64_t>(bytes));
  if (fault > 0) return -1;
  if (fault == kEnd) return 0;
  return real_read(fd, data, fault == kShort ? Half(bytes) : bytes);
}

CASTOR_HOOK(ssize_t, pread, (int fd, void* data, size_t bytes, off_t offset)) {
  const int32_t fault = Meet("pread", fd, static_cast<int64_t>(bytes));
  if (fault > 0) return -1;
  if (fault == kEnd) return 0;
  return real_pread(fd, data, fault == kShort ? Half(bytes) : bytes, offset);
}
CASTOR_HOOK_ALIAS(ssize_t, pread64, pread,
                  (int fd, void* data, size_t bytes, off_t offset));

CASTOR_HOOK(ssize_t, readv, (int fd, const iovec* buffers, int count)) {
  const int32_t fault = Meet("readv", fd, count);
  if (fault > 0) return -1;
  if (fault == kEnd) return 0;
  return real_readv(fd, buffers, fault == kShort ? HalfOf(count) : count);
}

CASTOR_HOOK(ssize_t, write, (int fd, const void* data, size_t bytes)) {
  const int32_t fault = Meet("write", fd, static_cast<int64_t>(bytes));
  if (fault > 0) return -1;
  const ssize_t written =
      real_write(fd, data, fault == kShort ? Half(bytes) : bytes);
  if (written > 0) LogWritten(fd, data, static_cast<size_t>(written));
  return written;
}

CASTOR_HOOK(ssize_t, pwrite,
            (int fd, const void* data, size_t bytes, off_t offset)) {
  const int32_t fault = Meet("pwrite", fd, static_cast<int64_t>(bytes));
  if (fault > 0) return -1;
  const ssize_t written =
      real_pwrite(fd, data, fault == kShort ? Half(bytes) : bytes, offset);
  if (written > 0) {
    LogFile(Effect::kWrite, fd, offset, data, static_cast<size_t>(written));
  }
  return written;
}
CASTOR_HOOK_ALIAS(ssize_t, pwrite64, pwrite,
                  (int fd, const void* data, size_t bytes, off_t offset));

CASTOR_HOOK(ssize_t, writev, (int fd, const iovec* buffers, int count)) {
  const int32_t fault = Meet("writev", fd, count);
  if (fault > 0) return -1;
  if (fault == kShort) count = HalfOf(count);
  const off_t before = lseek(fd, 0, SEEK_CUR);
  const ssize_t written = real_writev(fd, buffers, count);
  off_t at = before;
  ssize_t left = written;
  for (int i = 0; i < count && left > 0; ++i) {
    const size_t n = static_cast<size_t>(left) < buffers[i].iov_len
                         ? static_cast<size_t>(left)
                         : buffers[i].iov_len;
    LogFile(Effect::kWrite, fd, at, buffers[i].iov_base, n);
    at += static_cast<off_t>(n);
    left -= static_cast<ssize_t>(n);
  }
  return written;
}

CASTOR_HOOK(int, fsync, (int fd)) {
  if (Meet("fsync", fd, 0) > 0) return -1;
  const int result = SkipsDisk() ? 0 : real_fsync(fd);
  if (result == 0) LogFile(Effect::kSync, fd, 0, "", 0);
  return result;
}

CASTOR_HOOK(int, fdatasync, (int fd)) {
  if (Meet("fdatasync", fd, 0) > 0) return -1;
  const int result = SkipsDisk() ? 0 : real_fdatasync(fd);
  if (result == 0) LogFile(Effect::kSync, fd, 0, "", 0);
  return result;
}

CASTOR_HOOK(int, ftruncate, (int fd, off_t size)) {
  if (Meet("ftruncate", fd, size) > 0) return -1;
  const int result = real_ftruncate(fd, size);
  if (result == 0) LogFile(Effect::kTruncate, fd, size, "", 0);
  return result;
}
CASTOR_HOOK_ALIAS(int, ftruncate64, ftruncate, (int fd, off_t size));

CASTOR_HOOK(int, posix_fallocate, (int fd, off_t offset, off_t size)) {
  if (const int32_t fault = Meet("posix_fallocate", fd, size); fault > 0) {
    return fault;
  }
  const int result = real_posix_fallocate(fd, offset, size);
  if (result == 0) LogFile(Effect::kExtend, fd, offset + size, "", 0);
  return result;
}
CASTOR_HOOK_ALIAS(int, posix_fallocate64, posix_fallocate,
                  (int fd, off_t offset, off_t size));

CASTOR_HOOK(int, fallocate, (int fd, int mode, off_t offset, off_t size)) {
  if (Meet("fallocate", fd, size) > 0) return -1;
  const int result = real_fallocate(fd, mode, offset, size);
  if (result == 0 && mode == 0) {
    LogFile(Effect::kExtend, fd, offset + size, "", 0);
  }
  return result;
}
CASTOR_HOOK_ALIAS(int, fallocate64, fallocate,
                  (int fd, int mode, off_t offset, off_t size));

CASTOR_HOOK(int, flock, (int fd, int operation)) {
  return Meet("flock", fd, operation) > 0 ? -1 : real_flock(fd, operation);
}

// All of its commands take a third argument as wide as a register, or none.
CASTOR_HOOK(int, fcntl, (int fd, int command, ...)) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  const bool locks = command == F_SETLK || command == F_SETLKW ||
                     command == F_OFD_SETLK || command == F_OFD_SETLKW;
  if (Meet(locks ? "fcntl(lock)" : "fcntl", fd, command) > 0) return -1;
  return reinterpret_cast<int (*)(int, int, void*)>(real_fcntl.get())(
      fd, command, argument);
}
CASTOR_HOOK_ALIAS(int, fcntl64, fcntl, (int fd, int command, ...));

CASTOR_HOOK(off_t, lseek, (int fd, off_t offset, int whence)) {
  return Meet("lseek", fd, offset) > 0 ? -1 : real_lseek(fd, offset, whence);
}
CASTOR_HOOK_ALIAS(off_t, lseek64, lseek, (int fd, off_t offset, int whence));

CASTOR_HOOK(int, fstat, (int fd, struct stat* info)) {
  return Meet("fstat", fd, 0) > 0 ? -1 : real_fstat(fd, info);
}
CASTOR_HOOK_ALIAS(int, fstat64, fstat, (int fd, struct stat* info));

CASTOR_HOOK(int, fstatvfs, (int fd, struct statvfs* info)) {
  return Meet("fstatvfs", fd, 0) > 0 ? -1 : real_fstatvfs(fd, info);
}
CASTOR_HOOK_ALIAS(int, fstatvfs64, fstatvfs, (int fd, struct statvfs* info));

CASTOR_HOOK(int, dup2, (int fd, int to)) {
  return Meet("dup2", fd, to) > 0 ? -1 : real_dup2(fd, to);
}

CASTOR_HOOK(int, pipe2, (int* fds, int flags)) {
  return Meet("pipe2", Object::kPipe, nullptr, flags) > 0
             ? -1
             : real_pipe2(fds, flags);
}

CASTOR_HOOK(int, pipe, (int* fds)) {
  return Meet("pipe", Object::kPipe, nullptr, 0) > 0 ? -1 : real_pipe(fds);
}
