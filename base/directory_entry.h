// Atomic replacement of a directory's entries, which are files or directories:
// at every instant, even if the machine stops, a name refers to the whole
// former entry or to the whole new one.
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

// Returns the `attempt`th temporary name of this process for `path`.
std::string TemporaryName(absl::string_view path, int attempt);

// Return the final name that a temporary's name was made for ("a" of
// "a.tmp-12-0"), or "" if `name` is not a temporary's; AsideTarget does so for
// "a.old-12-0".
absl::string_view TemporaryTarget(absl::string_view name);
absl::string_view AsideTarget(absl::string_view name);

// Renames `temporary` to `path`, and removes the former entry of that name.
// Returns when that is durable. After a failure `path` is the former entry; but
// if that was a file, or nothing, and the last write to the disk failed, it may
// be the whole new entry.
absl::Status TakeName(const std::string& temporary, const std::string& path);
// Does the same on file systems that cannot exchange two names: if it is killed
// in between, the former entry is `path`.old-*, which RestoreAside brings back.
absl::Status TakeNameInTwoSteps(const std::string& temporary,
                                const std::string& path);
// Renames `name` (X.old-*) in `directory` back to its AsideTarget if nothing
// has that name, and removes it otherwise.
absl::Status RestoreAside(const std::string& directory,
                          const std::string& name);

// Removes a file, or a directory with its content; the directory loses its name
// before its first file is removed. OK if there is no such entry.
absl::Status RemoveEntry(const std::string& path);

// Returns the names in `directory`, without "." and "..", sorted.
absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& directory);

// Forces a directory's entries to the disk.
absl::Status SyncDirectory(const std::string& directory);

// Makes the directory `path` and its missing parents, durably. Returns the
// names of the directories that were made, the topmost first.
absl::StatusOr<std::vector<std::string>> MakeDirectories(
    const std::string& path);

// Returns the parent; "." for a name without a slash.
std::string ParentDirectory(const std::string& path);

}  // namespace castor

#endif  // CASTOR_BASE_DIRECTORY_ENTRY_H_
