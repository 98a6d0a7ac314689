// How `castor` ends.
#ifndef CASTOR_CLI_OUTPUT_EXIT_CODE_H_
#define CASTOR_CLI_OUTPUT_EXIT_CODE_H_

namespace castor::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;    // the machine's or our own
inline constexpr int kUserError = 2;  // a bad request; nothing was done

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_EXIT_CODE_H_
