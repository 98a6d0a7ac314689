// Opens a data file. An entry that is no file is reported as what it is, never
// as a missing file.
#ifndef CASTOR_BASE_REGULAR_FILE_H_
#define CASTOR_BASE_REGULAR_FILE_H_

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace castor {

// The caller closes `fd`.
struct RegularFile {
  int fd = -1;
  struct stat info = {};
};

// Opens `path` for reading, and never blocks (as on a pipe). NotFound: nothing
// has that name. InvalidArgument: a directory, a pipe, a device, a socket, a
// link that leads to nothing, or a file that may not be read. The message goes
// on after the file's name: "is a directory".
absl::StatusOr<RegularFile> OpenRegularFile(const std::string& path);

// Checks that only the file's owner, who is this process's user or root, may
// write to the open file. InvalidArgument: another user could have put it
// there, or can change it. The message goes on after the file's name.
absl::Status CheckOwnFile(const struct stat& info);

}  // namespace castor

#endif  // CASTOR_BASE_REGULAR_FILE_H_
