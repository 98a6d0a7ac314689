#include "cli/plan/plan_command.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/figures/figures.h"
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
#include "run/optim/optimizers.h"

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

// What is planned, and what became of it.
struct Planned {
  Config config;  // on the machine
  std::optional<PlannedMachine> machine;
  std::unique_ptr<Session> session;
  // What this machine's disks have no room for; "": nothing, or not looked at.
  std::string missing_room;

  // The host memory that all ranks of one machine take at most.
  int64_t MachineHostBytes() const {
    const int ranks = machine.has_value() ? machine->ranks : 1;
    return ranks * session->trainer().admission().forecast.host_peak_bytes;
  }
};

std::string MachineText(const AdmissionReport& admission) {
  if (admission.machine_needed_bytes <= admission.machine_bytes) return "";
  return absl::StrCat(
      "not on this machine, which has ", FormatBytes(admission.machine_bytes),
      " of memory: the run takes ", FormatBytes(admission.machine_needed_bytes),
      " of its machine's");
}

// What there is to say of a plan beside its figures, a line each.
std::vector<std::string> NotesOn(const Planned& planned, bool by_shape) {
  std::vector<std::string> notes;
  if (planned.machine.has_value() && planned.machine->ranks > 1) {
    notes.push_back(absl::StrCat(
        "a machine's ", planned.machine->ranks, " ranks take ",
        FormatBytes(planned.MachineHostBytes()), " of its host memory"));
  }
  if (std::string text = MachineText(planned.session->trainer().admission());
      !text.empty()) {
    notes.push_back(std::move(text));
  }
  if (!planned.missing_room.empty()) {
    notes.push_back(
        absl::StrCat("not on this machine: ", planned.missing_room));
  }
  for (const std::string& note : planned.config.notes.lines) {
    notes.push_back(absl::StrCat("note: ", note));
  }
  if (by_shape) return notes;
  const Session& session = *planned.session;
  if (std::string line = EpochLine(session.config(), session.epoch());
      !line.empty()) {
    notes.push_back(std::move(line));
  }
  for (const std::string& note : RateNotes(session.config())) {
    notes.push_back(absl::StrCat("note: ", note));
  }
  return notes;
}

void PrintPlan(const Planned& planned, bool by_shape) {
  const Trainer& trainer = planned.session->trainer();
  const AdmissionReport& admission = trainer.admission();
  std::fputs(FormatAdmission(admission).c_str(), stdout);
  std::printf("it fits; a step moves %s to the device and %s from it\n",
              FormatBytes(admission.h2d_bytes_per_step).c_str(),
              FormatBytes(admission.d2h_bytes_per_step).c_str());
  std::printf("%s\n", BytesAtHome(trainer.layout().dtype, trainer.accumulate(),
                                  *planned.config.optimizer.rule)
                          .c_str());
  std::printf("%s\n", ForecastLine(planned.config, admission.forecast,
                                   planned.session->tokens_per_step())
                          .c_str());
  for (const std::string& note : NotesOn(planned, by_shape)) {
    std::printf("%s\n", note.c_str());
  }
}

// What of a plan is known before it is made.
nlohmann::json AskedJson(const Config& config,
                         const std::optional<PlannedMachine>& machine) {
  nlohmann::json json = {
      {"policy", std::string(config.memory.placement_policy->name)},
      {"precision", std::string(DTypeName(config.dtype()))},
      {"world_size", config.world_size()},
      {"device_budget_bytes", BudgetJson(config.memory.device_memory)},
      {"host_budget_bytes", BudgetJson(config.memory.host_memory)},
      {"train_batch_size", config.train_batch_size},
      {"train_micro_batch_size_per_gpu", config.train_micro_batch_size_per_gpu},
      {"gradient_accumulation_steps", config.gradient_accumulation_steps},
      {"sequence_length", config.data.sequence_length}};
  if (machine.has_value() && machine->gpu.has_value()) {
    json["gpu"] = machine->gpu->key;
    json["host"] = machine->host.key;
    json["nodes"] = CeilDiv(config.world_size(), machine->ranks);
    json["gpus_per_node"] = machine->ranks;
  }
  if (machine.has_value() && machine->ram_bytes > 0) {
    json["ram_bytes"] = machine->ram_bytes;
  }
  return json;
}

nlohmann::json PlanJson(const Planned& planned, bool by_shape) {
  const AdmissionReport& admission = planned.session->trainer().admission();
  nlohmann::json json = AskedJson(planned.session->config(), planned.machine);
  json.update(ForecastJson(admission.forecast));
  const double seconds = json["predicted_step_seconds"];
  const double tokens = planned.session->tokens_per_step();
  json.update({
      {"fits", true},
      {"parameters", admission.parameter_elements},
      {"predicted_tokens_per_second", seconds > 0 ? tokens / seconds : 0},
      {"durations_measured", admission.forecast.measured},
      {"predicted_device_peak_bytes", admission.device.total()},
      {"predicted_machine_host_bytes", planned.MachineHostBytes()},
      {"smallest_device_budget_bytes", admission.smallest_device_budget_bytes},
      {"unmanaged_device_bytes", admission.unmanaged_device_bytes},
      {"h2d_bytes_per_step", admission.h2d_bytes_per_step},
      {"d2h_bytes_per_step", admission.d2h_bytes_per_step},
      {"notes", NotesOn(planned, by_shape)},
  });
  return json;
}

absl::Status MakePlan(const PlanArguments& arguments) {
  const bool by_shape = !arguments.model.empty();
  Planned planned;
  CASTOR_ASSIGN_OR_RETURN(planned.machine, FindMachine(arguments.machine));
  const std::optional<PlannedMachine>& machine = planned.machine;
  CASTOR_ASSIGN_OR_RETURN(planned.config, ConfigOf(arguments));
  Config& config = planned.config;
  if (machine.has_value()) CASTOR_RETURN_IF_ERROR(PutOn(*machine, &config));
  if (!arguments.json && by_shape) {
    std::fputs(DescribeShape(arguments.model, config).c_str(), stdout);
  }
  if (!arguments.json && machine.has_value()) {
    std::fputs(Describe(*machine, config).c_str(), stdout);
  }
  Session::Options options;
  options.machine = machine;
  options.without_data = by_shape;
  options.ranks.world_size = arguments.world_size;
  options.admit_only = true;
  options.check = [&](const Parameters& parameters) {
    const CheckpointConfig& checkpoint = config.checkpoint;
    // Another machine has other disks.
    if (checkpoint.dir.empty() || machine.has_value()) return absl::OkStatus();
    const CheckpointDir directory(checkpoint.dir);
    absl::Status checked = directory.CheckCanBeMade();
    if (checked.ok()) {
      auto missing = directory.MissingRoom(
          LeastCheckpointBytes(parameters, config.optimizer.rule->states()),
          SavesFrom(config, /*step=*/0), KeptCheckpoints(config),
          /*last_step=*/-1);
      checked = missing.status();
      if (missing.ok()) planned.missing_room = *std::move(missing);
    }
    return OfPlace(checked, config, arguments.config_path);
  };
  if (!arguments.json) options.say = PrintLine;
  std::optional<RefusedRun> refused;
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(config, options, &refused);
  if (refused.has_value() && arguments.json) {
    PrintRefusal(refused->refusal, session.status(),
                 AskedJson(config, machine));
  }
  CASTOR_ASSIGN_OR_RETURN(planned.session, std::move(session));
  if (arguments.json) {
    PrintJson(PlanJson(planned, by_shape));
  } else {
    PrintPlan(planned, by_shape);
  }
  return absl::OkStatus();
}

}  // namespace

int PlanRun(const PlanArguments& arguments) {
  const absl::Status status = MakePlan(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
