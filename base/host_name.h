// The machine's name.
#ifndef CASTOR_BASE_HOST_NAME_H_
#define CASTOR_BASE_HOST_NAME_H_

#include <unistd.h>

#include <string>

namespace castor {

// Returns the machine's name; "" if it has none.
inline std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace castor

#endif  // CASTOR_BASE_HOST_NAME_H_
