// Calls on names.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/faults/interposer/effects.h"
#include "tests/faults/interposer/hook.h"

using namespace castor::faults;  // the hooks are no namespace's

namespace {

int32_t MeetPath(const char* function, const char* path) {
  return Meet(function, ObjectOfPath(path), path, 0);
}

int AfterRename(int result, int from_directory, const char* from,
                int to_directory, const char* to, unsigned flags) {
  if (result == 0) {
    LogTwoPaths(
        (flags & RENAME_EXCHANGE) != 0 ? Effect::kExchange : Effect::kRename,
        from_directory, from, to_directory, to);
  }
  return result;
}

int AfterPath(int result, Effect effect, int directory, const char* path) {
  if (result == 0) LogPath(effect, directory, path, 0, -1);
  return result;
}

}  // namespace

CASTOR_HOOK(int, rename, (const char* from, const char* to)) {
  if (MeetPath("rename", from) > 0) return -1;
  return AfterRename(real_rename(from, to), AT_FDCWD, from, AT_FDCWD, to, 0);
}

CASTOR_HOOK(int, renameat,
            (int from_fd, const char* from, int to_fd, const char* to)) {
  if (MeetPath("renameat", from) > 0) return -1;
  return AfterRename(real_renameat(from_fd, from, to_fd, to), from_fd, from,
                     to_fd, to, 0);
}

CASTOR_HOOK(int, renameat2,
            (int from_fd, const char* from, int to_fd, const char* to,
             unsigned flags)) {
  if (MeetPath("renameat2", from) > 0) return -1;
  return AfterRename(real_renameat2(from_fd, from, to_fd, to, flags), from_fd,
                     from, to_fd, to, flags);
}

CASTOR_HOOK(int, link, (const char* from, const char* to)) {
  if (MeetPath("link", from) > 0) return -1;
  const int result = real_link(from, to);
  if (result == 0) LogTwoPaths(Effect::kLink, AT_FDCWD, from, AT_FDCWD, to);
  return result;
}

CASTOR_HOOK(int, linkat,
            (int from_fd, const char* from, int to_fd, const char* to,
             int flags)) {
  if (MeetPath("linkat", from) > 0) return -1;
  const int result = real_linkat(from_fd, from, to_fd, to, flags);
  if (result == 0) LogTwoPaths(Effect::kLink, from_fd, from, to_fd, to);
  return result;
}

CASTOR_HOOK(int, unlink, (const char* path)) {
  if (MeetPath("unlink", path) > 0) return -1;
  return AfterPath(real_unlink(path), Effect::kUnlink, AT_FDCWD, path);
}

CASTOR_HOOK(int, unlinkat, (int directory, const char* path, int flags)) {
  if (MeetPath("unlinkat", path) > 0) return -1;
  return AfterPath(
      real_unlinkat(directory, path, flags),
      (flags & AT_REMOVEDIR) != 0 ? Effect::kRemoveDirectory : Effect::kUnlink,
      directory, path);
}

CASTOR_HOOK(int, remove, (const char* path)) {
  if (MeetPath("remove", path) > 0) return -1;
  if (real_unlinkat(AT_FDCWD, path, 0) == 0) {
    return AfterPath(0, Effect::kUnlink, AT_FDCWD, path);
  }
  if (errno != EISDIR) return -1;
  return AfterPath(real_unlinkat(AT_FDCWD, path, AT_REMOVEDIR),
                   Effect::kRemoveDirectory, AT_FDCWD, path);
}

CASTOR_HOOK(int, mkdir, (const char* path, mode_t mode)) {
  if (MeetPath("mkdir", path) > 0) return -1;
  return AfterPath(real_mkdir(path, mode), Effect::kMakeDirectory, AT_FDCWD,
                   path);
}

CASTOR_HOOK(int, mkdirat, (int directory, const char* path, mode_t mode)) {
  if (MeetPath("mkdirat", path) > 0) return -1;
  return AfterPath(real_mkdirat(directory, path, mode), Effect::kMakeDirectory,
                   directory, path);
}

CASTOR_HOOK(int, rmdir, (const char* path)) {
  if (MeetPath("rmdir", path) > 0) return -1;
  return AfterPath(real_rmdir(path), Effect::kRemoveDirectory, AT_FDCWD, path);
}

CASTOR_HOOK(int, stat, (const char* path, struct stat* info)) {
  return MeetPath("stat", path) > 0 ? -1 : real_stat(path, info);
}
CASTOR_HOOK_ALIAS(int, stat64, stat, (const char* path, struct stat* info));

CASTOR_HOOK(int, lstat, (const char* path, struct stat* info)) {
  return MeetPath("lstat", path) > 0 ? -1 : real_lstat(path, info);
}
CASTOR_HOOK_ALIAS(int, lstat64, lstat, (const char* path, struct stat* info));

CASTOR_HOOK(int, fstatat,
            (int directory, const char* path, struct stat* info, int flags)) {
  return MeetPath("fstatat", path) > 0
             ? -1
             : real_fstatat(directory, path, info, flags);
}
CASTOR_HOOK_ALIAS(int, fstatat64, fstatat,
                  (int directory, const char* path, struct stat* info,
                   int flags));

CASTOR_HOOK(int, statvfs, (const char* path, struct statvfs* info)) {
  return MeetPath("statvfs", path) > 0 ? -1 : real_statvfs(path, info);
}
CASTOR_HOOK_ALIAS(int, statvfs64, statvfs,
                  (const char* path, struct statvfs* info));

CASTOR_HOOK(int, access, (const char* path, int mode)) {
  return MeetPath("access", path) > 0 ? -1 : real_access(path, mode);
}

CASTOR_HOOK(ssize_t, readlink, (const char* path, char* out, size_t bytes)) {
  return MeetPath("readlink", path) > 0 ? -1 : real_readlink(path, out, bytes);
}

CASTOR_HOOK(char*, realpath, (const char* path, char* out)) {
  return MeetPath("realpath", path) > 0 ? nullptr : real_realpath(path, out);
}

CASTOR_HOOK(char*, getcwd, (char* out, size_t bytes)) {
  return Meet("getcwd", Object::kDirectory, ".", 0) > 0
             ? nullptr
             : real_getcwd(out, bytes);
}

CASTOR_HOOK(DIR*, opendir, (const char* path)) {
  return MeetPath("opendir", path) > 0 ? nullptr : real_opendir(path);
}

CASTOR_HOOK(DIR*, fdopendir, (int fd)) {
  return Meet("fdopendir", fd, 0) > 0 ? nullptr : real_fdopendir(fd);
}

CASTOR_HOOK(dirent*, readdir, (DIR * stream)) {
  return Meet("readdir", dirfd(stream), 0) > 0 ? nullptr : real_readdir(stream);
}
CASTOR_HOOK_ALIAS(dirent*, readdir64, readdir, (DIR * stream));
