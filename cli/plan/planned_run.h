// One run that is planned: `castor plan` prints it, and its search and its
// advice compare several.
#ifndef CASTOR_CLI_PLAN_PLANNED_RUN_H_
#define CASTOR_CLI_PLAN_PLANNED_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/machine/planned_machine.h"
#include "cli/plan/plan_arguments.h"
#include "cli/run/session.h"
#include "run/config/config.h"

namespace castor::cli {

// How the machine of a plan differs from the one that was asked for, to find
// what another machine would gain. Factors are of rates.
struct MachineChange {
  int64_t more_device_bytes = 0;
  double bus = 1;
  double host = 1;     // of the host's memory
  double network = 1;  // and of links between GPUs
};

struct PlannedRun {
  Config asked;   // as it was read
  Config config;  // on the machine
  std::optional<PlannedMachine> machine;
  // Null until PlanRun.
  std::unique_ptr<Session> session;
  // Says what this machine's disks have no room for; "": nothing, or not looked
  // at.
  std::string missing_room;

  const AdmissionReport& admission() const {
    return session->trainer().admission();
  }
  int ranks_of_machine() const {
    return machine.has_value() ? machine->ranks : 1;
  }
  // Returns the most host memory that all ranks of one machine take together.
  int64_t MachineHostBytes() const;
  double StepSeconds() const;
  double TokensPerSecond() const;
};

// Reads the configuration that is asked for, and finds the machine.
// InvalidArgument, NotFound, FailedPrecondition: as ConfigOfShape, LoadConfig,
// FindMachine and PutOn.
absl::StatusOr<PlannedRun> ReadRun(const PlanArguments& arguments,
                                   const MachineChange& change = {});

// Makes the session. ResourceExhausted: it does not fit; `refused` (may be
// null) says why. `say` as Session::Options::say.
absl::Status MakePlan(const PlanArguments& arguments, AdmitDepth depth,
                      std::function<void(absl::string_view)> say,
                      PlannedRun* run, std::optional<RefusedRun>* refused);

// Calls ReadRun and MakePlan, which then say nothing.
absl::StatusOr<PlannedRun> PlanOf(const PlanArguments& arguments,
                                  AdmitDepth depth,
                                  const MachineChange& change = {},
                                  std::optional<RefusedRun>* refused = nullptr);

// Returns notes on a plan beside its figures, a line each.
std::vector<std::string> NotesOn(const PlannedRun& run, bool by_shape);

// Return what is known of a plan before it is made, and its results
// (docs/json.md).
nlohmann::json AskedJson(const Config& config,
                         const std::optional<PlannedMachine>& machine);
nlohmann::json PlanJson(const PlannedRun& run, bool by_shape);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_PLANNED_RUN_H_
