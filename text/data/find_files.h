// The files that a source of data names.
#ifndef CASTOR_TEXT_DATA_FIND_FILES_H_
#define CASTOR_TEXT_DATA_FIND_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

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

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_FIND_FILES_H_
