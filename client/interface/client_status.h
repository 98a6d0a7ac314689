// Tells callers of the C interface why calls failed.
#ifndef CASTOR_CLIENT_INTERFACE_CLIENT_STATUS_H_
#define CASTOR_CLIENT_INTERFACE_CLIENT_STATUS_H_

#include "absl/status/status.h"
#include "client/client_run.h"
#include "client/interface/castor_client.h"

namespace castor {

// Returns `status` as the caller is told. Unless it is OK, castor_error has its
// text from now on, in this thread, and castor_last_refusal the numbers of
// `refused`, if it is a refusal that has any.
castor_status Tell(const absl::Status& status,
                   const ClientRun::Refused* refused = nullptr);

}  // namespace castor

#endif  // CASTOR_CLIENT_INTERFACE_CLIENT_STATUS_H_
