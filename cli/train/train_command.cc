#include "cli/train/train_command.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/annotate.h"
#include "base/signals.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/machine/host_card.h"
#include "cli/machine/placement.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/output_file.h"
#include "cli/output/standard_output.h"
#include "cli/resize/memory_requests.h"
#include "cli/run/look_at_data.h"
#include "cli/run/ranks.h"
#include "cli/run/session.h"
#include "cli/train/report.h"
#include "cli/train/run_checkpoints.h"
#include "cli/train/trace_request.h"
#include "cli/train/train_run.h"
#include "device/comm/launch_env.h"
#include "models/families.h"
#include "run/config/time_limits.h"
#include "run/gpu_ranks.h"
#include "run/report/run_trace.h"

namespace castor::cli {
namespace {

// Checks that the files that the run writes replace none that it reads, nor
// each other.
absl::Status CheckOutputs(const TrainArguments& arguments,
                          const Config& config) {
  std::vector<OtherFile> others = FilesRead(config.model, config.data);
  others.push_back({"the configuration", arguments.config_path});
  for (const auto& [name, path] :
       {std::pair("--trace", &arguments.trace_path),
        std::pair("--summary", &arguments.summary_path),
        std::pair("--log-json", &arguments.log_path)}) {
    if (path->empty()) continue;
    CASTOR_RETURN_IF_ERROR(Annotate(name, CheckReplacesNone(*path, others)));
    others.push_back({name, *path});
  }
  return absl::OkStatus();
}

// Reads and checks what was asked for.
absl::StatusOr<Config> CheckArguments(TrainArguments& arguments,
                                      const LaunchEnv& launch) {
  CASTOR_ASSIGN_OR_RETURN(Config config,
                          LoadConfig(models::Reader(), arguments.config_path,
                                     arguments.overrides, launch.world_size));
  if (launch.rank == 0) {
    CASTOR_RETURN_IF_ERROR(CheckOutputs(arguments, config));
  }
  if (!arguments.summary_path.empty() && launch.rank == 0) {
    arguments.summary_path = LinkTarget(arguments.summary_path);
    CASTOR_RETURN_IF_ERROR(
        Annotate("--summary", CheckWritable(arguments.summary_path)));
  }
  if (!arguments.log_path.empty() && launch.rank == 0) {
    CASTOR_RETURN_IF_ERROR(
        Annotate("--log-json", CheckRegular(LinkTarget(arguments.log_path))));
  }
  if (!arguments.trace_steps.empty() && arguments.trace_path.empty()) {
    return absl::InvalidArgumentError("--trace-steps: needs --trace FILE");
  }
  CASTOR_RETURN_IF_ERROR(Annotate(
      "--trace-steps",
      WindowOf(arguments.trace_steps, /*first=*/1, config.memory.warmup_steps)
          .status()));
  CASTOR_RETURN_IF_ERROR(CheckLiveOptions(arguments.live));
  return config;
}

// Writes the request of a refused run, for tools that look at it.
absl::Status WriteRefusal(const TrainArguments& arguments, const Config& config,
                          const RefusedRun& refused,
                          absl::string_view message) {
  RunReport nothing;
  nothing.ended = kRefused;
  nothing.error = std::string(message);
  nothing.device_budget_bytes = config.memory.device_memory;
  CASTOR_RETURN_IF_ERROR(
      WriteSummary(arguments.summary_path,
                   SummaryJson(config, {}, nothing, refused.refusal)));
  if (arguments.trace_path.empty()) return absl::OkStatus();
  return AsUsersError(
      "--trace",
      RunTrace::WriteRefused(
          arguments.trace_path,
          DescribeRun(config, static_cast<double>(TokensPerStep(config))),
          refused, std::string(message)));
}

// Until the ranks have their communicator, each may find something wrong that
// the others do not: wherever they go on together they first agree that all are
// well. What one of them met is then every rank's failure.
//
// The exit code. *has_summary is as TrainRun::Run's.
absl::StatusOr<int> TrainOnRank(const TrainArguments& arguments,
                                absl::StatusOr<Config> config, RankGroup& group,
                                bool* has_summary) {
  CASTOR_RETURN_IF_ERROR(group.Agree("arguments", config.status()));
  CASTOR_RETURN_IF_ERROR(CheckSameConfig(group, *config));
  RunCheckpoints checkpoints(arguments.resume, arguments.resume_changed,
                             arguments.config_path, &*config,
                             group.rank() == 0);
  CASTOR_RETURN_IF_ERROR(
      group.Agree("checkpoint directory", checkpoints.Claim()));
  std::vector<std::string> notes;
  CASTOR_ASSIGN_OR_RETURN(const RankShare share,
                          TakeShare(group, &*config, &notes));
  for (const std::string& note : notes) {
    std::printf("note: %s\n", note.c_str());
  }
  if (config->device.type == DeviceType::kCuda && group.world_size() > 1 &&
      config->memory.device_memory >= kUnlimitedBytes) {
    CASTOR_ASSIGN_OR_RETURN(config->memory.device_memory,
                            FirstBudgetOfGpus(group, share.local_rank,
                                              config->memory.follows_device));
  }
  if (config->device.memory > 0 && group.world_size() > 1 &&
      config->memory.follows_device) {
    CASTOR_ASSIGN_OR_RETURN(
        config->memory.device_memory,
        LeastOfRanks(group, "room for a budget",
                     FirstBudgetOnCard(config->device, share.local_rank)));
  }
  bool agreed = false;
  MemoryRequests requests;
  Session::Options options = {.ranks = {.rank = group.rank(),
                                        .world_size = group.world_size(),
                                        .join = {}},
                              .local_rank = share.local_rank,
                              .machine_share_bytes = share.machine_bytes,
                              .say = PrintLine,
                              .from_checkpoint = checkpoints.Resumes(),
                              .stop = StopSignal(),
                              .device_memory_request = requests.asked(),
                              .check = [&](const Parameters& parameters) {
                                return checkpoints.CheckRoom(parameters);
                              }};
  if (group.world_size() > 1) {
    options.ranks.join =
        [&](Device* device) -> absl::StatusOr<std::unique_ptr<Communicator>> {
      agreed = true;
      CASTOR_RETURN_IF_ERROR(group.Agree("start", absl::OkStatus()));
      std::unique_ptr<DeviceParts> gpu_parts;
      if (config->device.type == DeviceType::kCuda) {
        CASTOR_ASSIGN_OR_RETURN(gpu_parts, JoinGpus(group, share.local_rank));
      }
      return group.MakeCommunicator(device, std::move(gpu_parts));
    };
  }
  std::optional<RefusedRun> refused;
  const auto session = Session::Create(*config, std::move(options), &refused);
  if (!session.ok()) {
    absl::Status why = session.status();
    if (refused.has_value() && group.rank() == 0) {
      const absl::Status written =
          WriteRefusal(arguments, *config, *refused, why.message());
      *has_summary = written.ok();
      if (!written.ok()) why = written;
    }
    return agreed ? why : group.Agree("start", why);
  }
  // Where epochs give the steps, the session has found how many.
  config->steps = (*session)->config().steps;
  StopOnSignals();
  return TrainRun(arguments, checkpoints, requests, **session).Run(has_summary);
}

// The summary of a run that came to no figures, where one was asked for.
void WriteSummaryOf(const TrainArguments& arguments,
                    const absl::Status& status) {
  const std::string path = LinkTarget(arguments.summary_path);
  if (path.empty() || !IsSummary(path) ||
      !CheckReplacesNone(path, {{"the configuration", arguments.config_path},
                                {"--trace", arguments.trace_path}})
           .ok()) {
    return;
  }
  WriteSummary(path, SummaryJson(EndedBy(status, /*came_to_a_step=*/false),
                                 status.message()))
      .IgnoreError();
}

}  // namespace

int Train(const TrainArguments& arguments) {
  const absl::StatusOr<LaunchEnv> launch = DetectLaunch(CurrentEnvironment());
  if (!launch.ok()) return Fail(launch.status());
  // It says how long ranks wait for each other, also where they meet.
  TrainArguments checked = arguments;
  absl::StatusOr<Config> config = CheckArguments(checked, *launch);
  auto group = JoinRanks(*launch, config.ok() ? TimeLimitsOf(config->network)
                                              : CommunicatorOptions());
  if (!group.ok()) return Fail(group.status());
  bool has_summary = false;
  const absl::StatusOr<int> code =
      TrainOnRank(checked, std::move(config), **group, &has_summary);
  if ((*group)->rank() > 0) {
    if (code.ok() && *code == kSuccess) return kSuccess;
    LetFirstRankSpeak(*std::move(group));
    return code.ok() ? *code : ExitCode(code.status());
  }
  if (code.ok()) return *code;
  if (!has_summary) WriteSummaryOf(arguments, code.status());
  return Fail(code.status());
}

}  // namespace castor::cli
