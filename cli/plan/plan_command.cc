#include "cli/plan/plan_command.h"

#include <cstdio>
#include <memory>
#include <optional>

#include "base/status_macros.h"
#include "base/units.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/standard_output.h"
#include "cli/plan/model_by_shape.h"
#include "cli/run/checkpoint_place.h"
#include "cli/run/session.h"
#include "cli/train/report.h"
#include "models/families.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_size.h"
#include "run/config/rate_notes.h"

namespace castor::cli {
namespace {

absl::StatusOr<Config> ConfigOf(const PlanArguments& arguments) {
  const bool by_shape = !arguments.model.empty();
  if (by_shape == !arguments.config_path.empty()) {
    return absl::InvalidArgumentError(
        by_shape ? "--model plans without a configuration: give one of the two"
                 : "CONFIG is required, or --model NAME (see castor plan "
                   "--help)");
  }
  return by_shape ? ConfigOfShape(arguments.model, arguments.overrides,
                                  arguments.world_size)
                  : LoadConfig(models::Reader(), arguments.config_path,
                               arguments.overrides, arguments.world_size);
}

absl::Status PrintPlan(const PlanArguments& arguments) {
  const bool by_shape = !arguments.model.empty();
  CASTOR_ASSIGN_OR_RETURN(const std::optional<PlannedMachine> machine,
                          FindMachine(arguments.machine));
  CASTOR_ASSIGN_OR_RETURN(Config config, ConfigOf(arguments));
  if (by_shape) {
    std::fputs(DescribeShape(arguments.model, config).c_str(), stdout);
  }
  if (machine.has_value()) {
    CASTOR_RETURN_IF_ERROR(PutOn(*machine, &config));
    std::fputs(Describe(*machine, config).c_str(), stdout);
  }
  Session::Options options;
  options.machine = machine;
  options.without_data = by_shape;
  options.ranks.world_size = arguments.world_size;
  options.admit_only = true;
  std::string missing_room;
  options.check = [&](const Parameters& parameters) {
    const CheckpointConfig& checkpoint = config.checkpoint;
    // Another machine has other disks.
    if (checkpoint.dir.empty() || machine.has_value()) return absl::OkStatus();
    const CheckpointDir directory(checkpoint.dir);
    const int parts = config.optimizer.rule->states().num_parts();
    absl::Status checked = directory.CheckCanBeMade();
    if (checked.ok()) {
      auto missing = directory.MissingRoom(
          LeastCheckpointBytes(parameters, parts),
          SavesFrom(config, /*step=*/0), KeptCheckpoints(config),
          /*last_step=*/-1);
      checked = missing.status();
      if (missing.ok()) missing_room = *std::move(missing);
    }
    return OfPlace(checked, config, arguments.config_path);
  };
  options.say = PrintLine;
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::Create(config, options, nullptr));
  const AdmissionReport& admission = session->trainer().admission();
  std::fputs(FormatAdmission(admission).c_str(), stdout);
  std::printf("it fits; a step moves %s to the device and %s from it\n",
              FormatBytes(admission.h2d_bytes_per_step).c_str(),
              FormatBytes(admission.d2h_bytes_per_step).c_str());
  std::printf("%s\n", ForecastLine(config, admission.forecast,
                                   session->tokens_per_step())
                          .c_str());
  if (admission.machine_needed_bytes > admission.machine_bytes) {
    std::printf(
        "not on this machine, which has %s of memory: the run takes %s of its "
        "machine's\n",
        FormatBytes(admission.machine_bytes).c_str(),
        FormatBytes(admission.machine_needed_bytes).c_str());
  }
  if (!missing_room.empty()) {
    std::printf("not on this machine: %s\n", missing_room.c_str());
  }
  for (const std::string& note : config.notes.lines) {
    std::printf("note: %s\n", note.c_str());
  }
  if (by_shape) return absl::OkStatus();
  if (const std::string line = EpochLine(session->config(), session->epoch());
      !line.empty()) {
    std::printf("%s\n", line.c_str());
  }
  for (const std::string& note : RateNotes(session->config())) {
    std::printf("note: %s\n", note.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int PlanRun(const PlanArguments& arguments) {
  const absl::Status status = PrintPlan(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
