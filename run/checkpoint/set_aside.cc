#include "run/checkpoint/set_aside.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/directory_entry.h"
#include "base/disk_room.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor {
namespace {

namespace fs = std::filesystem;

// A file of this name lies in the directories that MoveLaterAside made.
constexpr char kMark[] = "castor.aside";

// Returns the directory's name without the slashes at its end; of a link that
// of what it leads to, since nothing can be moved to another file system.
std::string BaseOf(const CheckpointDir& directory) {
  fs::path path = fs::path(directory.directory()).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::error_code error;
  if (fs::is_symlink(path, error)) {
    const fs::path target = fs::canonical(path, error);
    if (!error) path = target;
  }
  return path.string();
}

std::string MarkOf(const std::string& directory) {
  return absl::StrCat(directory, "/", kMark);
}

// Returns the N of everything that is called BASE.N, of any kind, in ascending
// order.
absl::StatusOr<std::vector<int64_t>> NumbersBeside(const std::string& base) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ListDirectory(ParentDirectory(base)));
  const std::string prefix =
      absl::StrCat(fs::path(base).filename().string(), ".");
  std::vector<int64_t> numbers;
  for (const std::string& name : names) {
    int64_t number = 0;
    if (!absl::StartsWith(name, prefix)) continue;
    const std::string digits = name.substr(prefix.size());
    if (absl::SimpleAtoi(digits, &number) && number > 0 &&
        absl::StrCat(number) == digits) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::Status Mark(const std::string& directory) {
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> mark,
                          AtomicFile::Create(MarkOf(directory)));
  return mark->Commit();
}

int64_t BytesOf(const std::vector<CheckpointEntry>& entries) {
  int64_t bytes = 0;
  for (const CheckpointEntry& entry : entries) {
    bytes += BytesOnDisk(entry.path);
  }
  return bytes;
}

// Removes the mark last: what a kill leaves is removed the next time.
absl::Status Remove(const std::string& path,
                    const std::vector<CheckpointEntry>& entries) {
  for (const CheckpointEntry& entry : entries) {
    CASTOR_RETURN_IF_ERROR(RemoveEntry(entry.path));
  }
  CASTOR_RETURN_IF_ERROR(RemoveEntry(MarkOf(path)));
  // A directory with other things in it stays, with those.
  if (rmdir(path.c_str()) == 0 || errno == ENOTEMPTY || errno == EEXIST) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(path, " cannot be removed: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<AsideDirectory> MoveLaterAside(const CheckpointDir& directory,
                                              int64_t step) {
  CASTOR_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> later, directory.List());
  std::erase_if(later, [&](const auto& entry) { return entry.step <= step; });
  AsideDirectory aside;
  if (later.empty()) return aside;
  const std::string base = BaseOf(directory);
  CASTOR_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                          NumbersBeside(base));
  // A number that was taken is never used again, so that the order is that of
  // time.
  aside.path =
      absl::StrCat(base, ".", numbers.empty() ? 1 : numbers.back() + 1);
  aside.bytes = BytesOf(later);
  CASTOR_RETURN_IF_ERROR(MakeDirectories(aside.path).status());
  CASTOR_RETURN_IF_ERROR(Mark(aside.path));
  for (const CheckpointEntry& entry : later) {
    std::error_code error;
    fs::rename(entry.path,
               absl::StrCat(aside.path, "/", CheckpointName(entry.step)),
               error);
    if (error) {
      // Nothing was moved yet: nothing stays of it.
      if (&entry == &later.front()) Remove(aside.path, {}).IgnoreError();
      return absl::PermissionDeniedError(absl::StrCat(
          entry.path, " is of another run and cannot be moved to ", aside.path,
          ": ", error.message(),
          "; move or remove it, go on from it with --resume latest, or name "
          "another checkpoint.dir"));
    }
  }
  CASTOR_RETURN_IF_ERROR(SyncDirectory(aside.path));
  CASTOR_RETURN_IF_ERROR(SyncDirectory(directory.directory()));
  return aside;
}

std::string Describe(const AsideDirectory& moved) {
  return absl::StrCat("checkpoints of an earlier run moved to ", moved.path,
                      " (", FormatBytes(moved.bytes), ")");
}

absl::StatusOr<std::vector<AsideDirectory>> RemoveOldAside(
    const CheckpointDir& directory, int64_t keep, absl::Status* problem) {
  const std::string base = BaseOf(directory);
  CASTOR_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                          NumbersBeside(base));
  std::vector<AsideDirectory> removed;
  int64_t kept = 0;
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    const std::string path = absl::StrCat(base, ".", *number);
    std::error_code error;
    if (!fs::is_directory(fs::symlink_status(path, error)) ||
        !fs::exists(MarkOf(path), error)) {
      continue;
    }
    if (kept++ < keep) continue;
    const auto entries = CheckpointDir(path).List();
    if (!entries.ok()) {
      problem->Update(entries.status());
      continue;
    }
    const int64_t bytes = BytesOf(*entries);
    const absl::Status status = Remove(path, *entries);
    problem->Update(status);
    if (status.ok()) removed.push_back({path, bytes});
  }
  return removed;
}

absl::Status NoLongerAside(const CheckpointDir& directory) {
  const std::string mark = MarkOf(directory.directory());
  std::error_code error;
  return fs::exists(mark, error) ? RemoveEntry(mark) : absl::OkStatus();
}

}  // namespace castor
