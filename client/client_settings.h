// What of a client's options ranks must share.
#ifndef CASTOR_CLIENT_CLIENT_SETTINGS_H_
#define CASTOR_CLIENT_CLIENT_SETTINGS_H_

#include <string>
#include <vector>

#include "base/settings.h"
#include "client/client_options.h"

namespace castor {

// All that decides a run's maths or its plans, by the names of a
// configuration's keys where it has them. The learning rates are not among
// them: each step compares its own.
Settings ClientSettings(const std::vector<ClientParameter>& parameters,
                        const ClientOptions& options);

// Equal for equal rates only.
std::string RateText(double rate);

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_SETTINGS_H_
