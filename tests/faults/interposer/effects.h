// The log of what calls did to the file tree.
#ifndef CASTOR_TESTS_FAULTS_INTERPOSER_EFFECTS_H_
#define CASTOR_TESTS_FAULTS_INTERPOSER_EFFECTS_H_

#include <stddef.h>
#include <stdint.h>

#include "tests/faults/interposer/control.h"

namespace castor::faults {

// All of these are called after the call that they tell of has succeeded: what
// another process does because of it comes later in the log. They leave errno
// as it is, and do nothing for files that are not under the root.

// `directory` is AT_FDCWD, or the directory that a relative `path` starts from.
void LogPath(Effect effect, int directory, const char* path, int64_t number,
             int fd);
void LogTwoPaths(Effect effect, int from_directory, const char* from,
                 int to_directory, const char* to);
// Logs an effect on an open file: `offset` of kWrite, or a size.
void LogFile(Effect effect, int fd, int64_t offset, const void* data,
             size_t bytes);
// Logs what has just been written at the file's position.
void LogWritten(int fd, const void* data, size_t bytes);

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_INTERPOSER_EFFECTS_H_
