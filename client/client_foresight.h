// Foresees what a step of a client's run will take, before there is a run.
#ifndef CASTOR_CLIENT_CLIENT_FORESIGHT_H_
#define CASTOR_CLIENT_CLIENT_FORESIGHT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/units.h"
#include "client/client_run.h"

namespace castor {

// A use that a client expects: as a ParameterUse, with the parameters whose
// gradients are handed in while it lasts.
struct ForeseenUse {
  std::string name;
  Phase phase = Phase::kForward;
  std::vector<ParamId> parameters;
  int64_t peak_bytes = 0;
  std::vector<ParamId> hand_ins;
};

struct DeviceBudget {
  int64_t bytes = kUnlimitedBytes;
  double gpu_margin_mem_ratio = 1.0;
};

struct Foreseen {
  int64_t parameters = 0;  // elements of all
  int64_t chunks = 0;
  bool fits = false;
  int64_t device_budget_bytes = 0;
  int64_t smallest_device_budget_bytes = 0;
  // If it fits, the bytes that a step of the plan takes and moves.
  int64_t device_peak_bytes = 0;
  int64_t host_peak_bytes = 0;
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  // The use that takes most beside the parameters that it reads.
  std::string use;
  int64_t peak_bytes = 0;
  int64_t resident_bytes = 0;
};

// Returns what a run of these parameters would take in a step whose micro
// batches are all like this one, under `budget` in place of the options'.
// Nothing is carried out, no memory is taken, and ranks are not joined: only
// their number counts. InvalidArgument: see ClientRun::Create; or there is no
// such parameter.
absl::StatusOr<Foreseen> Foresee(const std::vector<ClientParameter>& parameters,
                                 ClientOptions options,
                                 const std::vector<ForeseenUse>& micro_batch,
                                 const DeviceBudget& budget);

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_FORESIGHT_H_
