#include "base/directory_entry.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor {
namespace {

constexpr absl::string_view kTemporary = ".tmp-";
constexpr absl::string_view kAside = ".old-";
constexpr int kAttempts = 1000;

bool AllDigits(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// "X" of "X.MARK-12-0", else "".
absl::string_view TargetOf(absl::string_view name, absl::string_view mark) {
  const size_t at = name.rfind(mark);
  if (at == absl::string_view::npos || at == 0) return "";
  const absl::string_view tail = name.substr(at + mark.size());
  const size_t dash = tail.find('-');
  if (dash == absl::string_view::npos) return "";
  if (!AllDigits(tail.substr(0, dash)) || !AllDigits(tail.substr(dash + 1))) {
    return "";
  }
  return name.substr(0, at);
}

absl::Status Error(const char* what, absl::string_view path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

// Returns true if rename(2) refused because of the entry in the place.
bool IsInTheWay(int error) {
  return error == EISDIR || error == ENOTDIR || error == ENOTEMPTY ||
         error == EEXIST;
}

// `path` moves to the first free name with `mark`, which is returned.
absl::StatusOr<std::string> MoveTo(const std::string& path,
                                   absl::string_view mark) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string name = absl::StrCat(path, mark, getpid(), "-", attempt);
    struct stat info;
    if (lstat(name.c_str(), &info) == 0) continue;
    if (rename(path.c_str(), name.c_str()) == 0) return name;
    if (!IsInTheWay(errno)) return Error("rename", path, errno);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot rename ", path, ": ", kAttempts,
                   " names are taken; remove ", path, mark, "*"));
}

absl::Status MakeMissing(const std::string& path,
                         std::vector<std::string>* made) {
  const auto is_there = [&] {
    struct stat info;
    return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  };
  if (is_there()) return absl::OkStatus();
  bool is_made = mkdir(path.c_str(), 0777) == 0;
  if (!is_made && errno == ENOENT && ParentDirectory(path) != path) {
    CASTOR_RETURN_IF_ERROR(MakeMissing(ParentDirectory(path), made));
    is_made = mkdir(path.c_str(), 0777) == 0;
  }
  if (!is_made) {
    const int error = errno;
    // Another process may have been first.
    if (error == EEXIST && is_there()) return absl::OkStatus();
    return Error("make the directory", path, error == EEXIST ? ENOTDIR : error);
  }
  made->push_back(path);
  return SyncDirectory(ParentDirectory(path));
}

// Removes an entry that nobody can find by its name any more; what remains of
// it after a failure is a temporary like any other.
void RemoveRest(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

std::string TemporaryName(absl::string_view path, int attempt) {
  return absl::StrCat(path, kTemporary, getpid(), "-", attempt);
}

absl::string_view TemporaryTarget(absl::string_view name) {
  return TargetOf(name, kTemporary);
}

absl::string_view AsideTarget(absl::string_view name) {
  return TargetOf(name, kAside);
}

absl::Status TakeName(const std::string& temporary, const std::string& path) {
  if (rename(temporary.c_str(), path.c_str()) == 0) {
    return SyncDirectory(ParentDirectory(path));
  }
  if (!IsInTheWay(errno)) return Error("rename", temporary, errno);
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(),
                RENAME_EXCHANGE) != 0) {
    // Network file systems, and old ones, cannot do it.
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) {
      return TakeNameInTwoSteps(temporary, path);
    }
    return Error("rename", temporary, errno);
  }
  const absl::Status synced = SyncDirectory(ParentDirectory(path));
  if (!synced.ok()) {
    // The former entry may be all that the disk has.
    static_cast<void>(renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD,
                                path.c_str(), RENAME_EXCHANGE));
    return synced;
  }
  RemoveRest(temporary);
  return absl::OkStatus();
}

absl::Status TakeNameInTwoSteps(const std::string& temporary,
                                const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(const std::string old, MoveTo(path, kAside));
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    // Should that fail as well, RestoreAside does it.
    static_cast<void>(rename(old.c_str(), path.c_str()));
    return Error("rename", temporary, error);
  }
  // Both are kept until the new name is on the disk.
  CASTOR_RETURN_IF_ERROR(SyncDirectory(ParentDirectory(path)));
  RemoveRest(old);
  return absl::OkStatus();
}

absl::Status RestoreAside(const std::string& directory,
                          const std::string& name) {
  const std::string from = absl::StrCat(directory, "/", name);
  const std::string to = absl::StrCat(directory, "/", AsideTarget(name));
  struct stat info;
  if (lstat(to.c_str(), &info) == 0) return RemoveEntry(from);
  if (rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
    return Error("rename", from, errno);
  }
  return SyncDirectory(directory);
}

absl::Status RemoveEntry(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  // Linux says EISDIR, POSIX EPERM.
  if (errno != EISDIR && errno != EPERM) return Error("remove", path, errno);
  std::string gone = path;
  if (TemporaryTarget(path).empty()) {
    CASTOR_ASSIGN_OR_RETURN(gone, MoveTo(path, kTemporary));
  }
  std::error_code error;
  std::filesystem::remove_all(gone, error);
  return error ? Error("remove", gone, error.value()) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& directory) {
  DIR* stream = opendir(directory.c_str());
  if (stream == nullptr) {
    return Error("list the directory", directory, errno);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(stream);
  if (error != 0) return Error("list the directory", directory, error);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status SyncDirectory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Error("open the directory", directory, errno);
  const bool ok = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  // EINVAL: a file system whose directories cannot be synced on their own.
  if (!ok && error != EINVAL) {
    return Error("force to disk the directory", directory, error);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MakeDirectories(
    const std::string& path) {
  std::string bare = path;
  while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
  std::vector<std::string> made;
  CASTOR_RETURN_IF_ERROR(MakeMissing(bare, &made));
  return made;
}

std::string ParentDirectory(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace castor
