// Meets each call that castor makes before the system does.
#ifndef CASTOR_TESTS_FAULTS_INTERPOSER_MEET_H_
#define CASTOR_TESTS_FAULTS_INTERPOSER_MEET_H_

#include <stdint.h>

#include "tests/faults/interposer/control.h"

namespace castor::faults {

// Null until the library is ready, and in programs that no test watches.
Control* control();
int Role();

// While one lives, this thread's calls are the library's own: they have no
// site and are not logged.
class Own {
 public:
  Own();
  ~Own();
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
};
bool IsOwn();

// Returns the kind of object that a descriptor stands for.
Object ObjectOf(int fd);
Object ObjectOfPath(const char* path);

// Counts a call of `function` at the site where it is made and returns what is
// to happen to it: an errno (which is also set), kShort, kEnd or kNoFault.
// Calls that no code of the program is behind (constructors of libraries) have
// none.
int32_t Meet(const char* function, Object object, const char* path,
             int64_t bytes);
// The path is looked up only for a site that is new.
int32_t Meet(const char* function, int fd, int64_t bytes);

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_INTERPOSER_MEET_H_
