// The files that a source of data names.
#ifndef CASTOR_TEXT_DATA_FIND_FILES_H_
#define CASTOR_TEXT_DATA_FIND_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

struct FoundFiles {
  std::vector<std::string> paths;
  // How many files of a folder hold no data, judging by their names.
  int64_t passed_over = 0;
};

// Returns, where `path` is a folder, its files whose names say that they hold
// data (ContentByName), without those of its subfolders. Where nothing has that
// name and it has one of * ? [: the files whose names match, as in a shell.
// Else `path` itself, whether it exists or not. Files stand in the order of
// their names' bytes; hidden ones and token caches are never among those of a
// folder or a pattern.
//
// InvalidArgument: there is no such file. Others: the folder cannot be read.
absl::StatusOr<FoundFiles> FindFiles(const std::string& path);

// The files that were named so far, by whatever name.
class NamedFiles {
 public:
  // Adds a file that the configuration's `key` names. Returns what to tell the
  // user of one that was there already; "": it was not. Errors: it cannot be
  // opened (base/regular_file.h).
  absl::StatusOr<std::string> Add(absl::string_view key,
                                  const std::string& path);

 private:
  // By device and inode, the key that named it first.
  std::map<std::pair<dev_t, ino_t>, std::string> keys_;
};

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_FIND_FILES_H_
