// Entries of a directory, files or directories, that change hands at once: who
// looks for a name finds what was there or what is there now, whole, at every
// instant, even if the machine stops.
//
//   X            the entry
//   X.tmp-12-0   being written, or being removed, by process 12
//   X.old-12-0   was X until something else takes the name, which it does at
//                once; only where the file system cannot exchange two names
#ifndef CASTOR_BASE_DIRECTORY_ENTRY_H_
#define CASTOR_BASE_DIRECTORY_ENTRY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

// The `attempt`th temporary name of this process for `path`.
std::string TemporaryName(absl::string_view path, int attempt);

// The final name that a temporary's name was made for ("a" of "a.tmp-12-0"),
// or "" when `name` is not a temporary's. The same for "a.old-12-0".
absl::string_view TemporaryTarget(absl::string_view name);
absl::string_view AsideTarget(absl::string_view name);

// Gives `temporary` the name `path`; what had it before is removed. Returns
// when that is durable. On failure `path` is what it was; but where it was a
// file, or nothing, and the disk failed last of all, it may be the new entry,
// whole.
absl::Status TakeName(const std::string& temporary, const std::string& path);
// The way of file systems that cannot exchange two names: killed in between, it
// leaves the former entry as `path`.old-*, which RestoreAside brings back.
absl::Status TakeNameInTwoSteps(const std::string& temporary,
                                const std::string& path);
// NAME (of an AsideTarget) in `directory` becomes its target again if nothing
// has that name, and is removed otherwise.
absl::Status RestoreAside(const std::string& directory,
                          const std::string& name);

// Removes a file, or a directory with all that is in it, which is gone from
// its name before the first file in it is. OK when there is none.
absl::Status RemoveEntry(const std::string& path);

// Names in `directory`, without "." and "..", sorted.
absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& directory);

// Forces a directory's entries to the disk.
absl::Status SyncDirectory(const std::string& directory);

// Makes the directory `path`, and those above it, where they are missing; what
// is made is there after a loss of power too. Returns the names of those that
// were made, the topmost first.
absl::StatusOr<std::vector<std::string>> MakeDirectories(
    const std::string& path);

// "." for a name without a slash.
std::string ParentDirectory(const std::string& path);

}  // namespace castor

#endif  // CASTOR_BASE_DIRECTORY_ENTRY_H_
