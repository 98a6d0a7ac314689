// The settings among a client's options that ranks must share.
#ifndef CASTOR_CLIENT_CLIENT_SETTINGS_H_
#define CASTOR_CLIENT_CLIENT_SETTINGS_H_

#include <string>
#include <vector>

#include "base/settings.h"
#include "client/client_options.h"

namespace castor {

// Returns everything that decides a run's maths or its plans, under the names
// of a configuration's keys where there are such. The learning rates are not
// among them: each step compares its own.
Settings ClientSettings(const std::vector<ClientParameter>& parameters,
                        const ClientOptions& options);

// Returns texts that are equal only for equal rates.
std::string RateText(double rate);

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_SETTINGS_H_
