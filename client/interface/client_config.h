// The run that a client of the C interface asks for, as its configuration says.
#ifndef CASTOR_CLIENT_INTERFACE_CLIENT_CONFIG_H_
#define CASTOR_CLIENT_INTERFACE_CLIENT_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client_run.h"
#include "client/interface/castor_client.h"
#include "run/config/config.h"
#include "run/options.h"

namespace castor {

struct Asked {
  Config config;
  std::vector<ClientParameter> parameters;
  ClientOptions options;
};

// Reads castor_open's arguments, or those of castor_foresee, which opens
// nothing and has no `place`. `local_size`: how many of the ranks share this
// machine. InvalidArgument: the configuration is wrong, or there is no such
// GPU.
absl::StatusOr<Asked> ReadAsked(const char* config_json,
                                const castor_parameter* parameters,
                                int64_t count, const castor_place* place,
                                RankOptions ranks, int local_size);

// Checks the place. InvalidArgument: the configuration's device is not where
// operators run.
absl::Status CheckPlace(const Config& config, const castor_place* place);

// Returns the placement policy's name.
std::string PolicyOf(const Config& config);

}  // namespace castor

#endif  // CASTOR_CLIENT_INTERFACE_CLIENT_CONFIG_H_
