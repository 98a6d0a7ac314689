#ifndef CASTOR_CLI_RUN_INPUT_IDENTITY_H_
#define CASTOR_CLI_RUN_INPUT_IDENTITY_H_

#include <string>

namespace castor::cli {

// The identity of the data that a run reads at a key of its configuration or an
// option. Paths may differ between ranks; this may not.
struct InputIdentity {
  std::string key;       // "data.train"
  std::string identity;  // "4404412 tokens, checksum 90a05d48d78f5526"
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_INPUT_IDENTITY_H_
