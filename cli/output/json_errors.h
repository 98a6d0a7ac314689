// --json-errors, which every command takes: errors are printed as JSON, for
// machines.
#ifndef CASTOR_CLI_OUTPUT_JSON_ERRORS_H_
#define CASTOR_CLI_OUTPUT_JSON_ERRORS_H_

#include <algorithm>
#include <cstring>

#include "base/standard_error.h"

namespace castor::cli {

inline constexpr char kJsonErrors[] = "--json-errors";

// Takes the option out of the arguments, wherever it stands before a "--", and
// follows it: errors in the other arguments are printed so, too.
inline void TakeJsonErrors(int* argc, char** argv) {
  char** const end = argv + *argc;
  char** const last = std::find_if(
      argv, end, [](const char* word) { return std::strcmp(word, "--") == 0; });
  char** const kept = std::remove_if(argv, last, [](const char* word) {
    return std::strcmp(word, kJsonErrors) == 0;
  });
  if (kept == last) return;
  *argc = static_cast<int>(std::copy(last, end, kept) - argv);
  argv[*argc] = nullptr;
  WriteErrorsAsJson();
}

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_JSON_ERRORS_H_
