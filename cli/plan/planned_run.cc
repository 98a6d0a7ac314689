#include "cli/plan/planned_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/figures/figures.h"
#include "cli/plan/model_by_shape.h"
#include "cli/run/checkpoint_place.h"
#include "cli/train/report.h"
#include "models/families.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_size.h"
#include "run/config/rate_notes.h"

namespace castor::cli {
namespace {

absl::StatusOr<Config> ConfigOf(const PlanArguments& arguments) {
  if (arguments.by_shape() == !arguments.config_path.empty()) {
    return absl::InvalidArgumentError(
        arguments.by_shape()
            ? "--model plans without a configuration: give one of the two"
            : "CONFIG is required, or --model NAME (see castor plan "
              "--help)");
  }
  return arguments.by_shape()
             ? ConfigOfShape(arguments.model, arguments.overrides,
                             arguments.world_size)
             : LoadConfig(models::Reader(), arguments.config_path,
                          arguments.overrides, arguments.world_size);
}

void Apply(const MachineChange& change, PlannedMachine* machine) {
  machine->host.bytes_per_s *= change.host;
  machine->host.network_bytes_per_s *= change.network;
  if (!machine->gpu.has_value()) return;
  GpuSpec& gpu = *machine->gpu;
  gpu.reported_bytes += change.more_device_bytes;
  gpu.h2d_bytes_per_s *= change.bus;
  gpu.d2h_bytes_per_s *= change.bus;
  gpu.link_bytes_per_s *= change.network;
}

std::string MachineText(const AdmissionReport& admission) {
  if (admission.machine_needed_bytes <= admission.machine_bytes) return "";
  return absl::StrCat(
      "not on this machine, which has ", FormatBytes(admission.machine_bytes),
      " of memory: the run takes ", FormatBytes(admission.machine_needed_bytes),
      " of its machine's");
}

}  // namespace

int64_t PlannedRun::MachineHostBytes() const {
  return ranks_of_machine() * admission().forecast.host_peak_bytes;
}

double PlannedRun::StepSeconds() const {
  return static_cast<double>(admission().forecast.step_ns) * 1e-9;
}

double PlannedRun::TokensPerSecond() const {
  const double seconds = StepSeconds();
  return seconds > 0 ? session->tokens_per_step() / seconds : 0;
}

absl::StatusOr<PlannedRun> ReadRun(const PlanArguments& arguments,
                                   const MachineChange& change) {
  PlannedRun run;
  CASTOR_ASSIGN_OR_RETURN(run.machine, FindMachine(arguments.machine));
  if (run.machine.has_value()) Apply(change, &*run.machine);
  CASTOR_ASSIGN_OR_RETURN(run.asked, ConfigOf(arguments));
  run.config = run.asked;
  if (run.machine.has_value()) {
    CASTOR_RETURN_IF_ERROR(PutOn(*run.machine, &run.config));
  }
  // A bus that the configuration gives, or that of the emulated device.
  run.config.device.bus_gbps *= change.bus;
  return run;
}

absl::Status MakePlan(const PlanArguments& arguments, AdmitDepth depth,
                      std::function<void(absl::string_view)> say,
                      PlannedRun* run, std::optional<RefusedRun>* refused) {
  const Config& config = run->config;
  Session::Options options;
  options.machine = run->machine;
  options.without_data = arguments.by_shape();
  options.ranks.world_size = arguments.world_size;
  options.admit_only = true;
  options.admit_depth = depth;
  options.say = std::move(say);
  options.check = [&](const Parameters& parameters) {
    const CheckpointConfig& checkpoint = config.checkpoint;
    // Another machine has other disks.
    if (checkpoint.dir.empty() || run->machine.has_value()) {
      return absl::OkStatus();
    }
    const CheckpointDir directory(checkpoint.dir);
    absl::Status checked = directory.CheckCanBeMade();
    if (checked.ok()) {
      auto missing = directory.MissingRoom(
          LeastCheckpointBytes(parameters, config.optimizer.rule->states()),
          SavesFrom(config, /*step=*/0), KeptCheckpoints(config),
          /*last_step=*/-1);
      checked = missing.status();
      if (missing.ok()) run->missing_room = *std::move(missing);
    }
    return OfPlace(checked, config, arguments.config_path);
  };
  CASTOR_ASSIGN_OR_RETURN(run->session,
                          Session::Create(config, std::move(options), refused));
  return absl::OkStatus();
}

absl::StatusOr<PlannedRun> PlanOf(const PlanArguments& arguments,
                                  AdmitDepth depth, const MachineChange& change,
                                  std::optional<RefusedRun>* refused) {
  CASTOR_ASSIGN_OR_RETURN(PlannedRun run, ReadRun(arguments, change));
  CASTOR_RETURN_IF_ERROR(
      MakePlan(arguments, depth, /*say=*/nullptr, &run, refused));
  return run;
}

std::vector<std::string> NotesOn(const PlannedRun& run, bool by_shape) {
  std::vector<std::string> notes;
  if (run.ranks_of_machine() > 1) {
    notes.push_back(absl::StrCat(
        "a machine's ", run.ranks_of_machine(), " ranks take ",
        FormatBytes(run.MachineHostBytes()), " of its host memory"));
  }
  if (std::string text = MachineText(run.admission()); !text.empty()) {
    notes.push_back(std::move(text));
  }
  if (!run.missing_room.empty()) {
    notes.push_back(absl::StrCat("not on this machine: ", run.missing_room));
  }
  for (const std::string& note : run.config.notes.lines) {
    notes.push_back(absl::StrCat("note: ", note));
  }
  if (by_shape) return notes;
  const Session& session = *run.session;
  if (std::string line = EpochLine(session.config(), session.epoch());
      !line.empty()) {
    notes.push_back(std::move(line));
  }
  for (const std::string& note : RateNotes(session.config())) {
    notes.push_back(absl::StrCat("note: ", note));
  }
  return notes;
}

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

nlohmann::json PlanJson(const PlannedRun& run, bool by_shape) {
  const AdmissionReport& admission = run.admission();
  nlohmann::json json = AskedJson(run.session->config(), run.machine);
  json.update(ForecastJson(admission.forecast));
  json.update({
      {"fits", true},
      {"parameters", admission.parameter_elements},
      {"predicted_tokens_per_second", run.TokensPerSecond()},
      {"durations_measured", admission.forecast.measured},
      {"predicted_device_peak_bytes", admission.device.total()},
      {"predicted_machine_host_bytes", run.MachineHostBytes()},
      {"smallest_device_budget_bytes", admission.smallest_device_budget_bytes},
      {"unmanaged_device_bytes", admission.unmanaged_device_bytes},
      {"h2d_bytes_per_step", admission.h2d_bytes_per_step},
      {"d2h_bytes_per_step", admission.d2h_bytes_per_step},
      {"notes", NotesOn(run, by_shape)},
  });
  return json;
}

}  // namespace castor::cli
