// Castor's version, as python/castor/VERSION has it.
#ifndef CASTOR_CLI_OUTPUT_VERSION_H_
#define CASTOR_CLI_OUTPUT_VERSION_H_

namespace castor::cli {

extern const char kVersion[];  // "0.1.0"

}  // namespace castor::cli

#endif  // CASTOR_CLI_OUTPUT_VERSION_H_
