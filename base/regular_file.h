// Opening a file of data: what is there and no file is said to be what it is,
// and never taken for a file that is not there.
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

// Opens `path` for reading, and waits for nothing (a pipe has no end).
// NotFound: there is nothing of that name. InvalidArgument: a directory, a
// pipe, a device, a socket, a link that leads to nothing, or a file that may
// not be read. The message goes on after the file's name: "is a directory".
absl::StatusOr<RegularFile> OpenRegularFile(const std::string& path);

// InvalidArgument: a process of another user could have put the open file
// there, or can change it. Only its owner, who is this process's user or root,
// may write to it. The message goes on after the file's name.
absl::Status CheckOwnFile(const struct stat& info);

}  // namespace castor

#endif  // CASTOR_BASE_REGULAR_FILE_H_
