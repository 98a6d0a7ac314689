#include "cli/launch/launch_command.h"

#include <limits.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/annotate.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "cli/launch/hostfile.h"
#include "cli/launch/launcher.h"
#include "cli/output/fail.h"
#include "cli/output/json_errors.h"

namespace castor::cli {
namespace {

constexpr int kMaxGraceSeconds = 1'000'000;

absl::StatusOr<int> Number(absl::string_view option, const std::string& text,
                           int most) {
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 1 || value > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", text, ": not a number from 1 to ", most));
  }
  return value;
}

absl::StatusOr<LaunchPlan> MakePlan(const LaunchArguments& arguments) {
  LaunchPlan plan;
  int num_ranks = 0;
  if (!arguments.num_ranks.empty()) {
    CASTOR_ASSIGN_OR_RETURN(num_ranks,
                            Number("--nproc", arguments.num_ranks, kMaxRanks));
  }
  if (!arguments.master_port.empty()) {
    CASTOR_ASSIGN_OR_RETURN(
        plan.master_port,
        Number("--master-port", arguments.master_port, 65535));
  }
  if (!arguments.remote_shell.empty()) {
    plan.remote_shell =
        absl::StrSplit(arguments.remote_shell, ' ', absl::SkipEmpty());
    if (plan.remote_shell.empty()) {
      return absl::InvalidArgumentError("--rsh: it names no command");
    }
  }
  if (!arguments.grace.empty()) {
    CASTOR_ASSIGN_OR_RETURN(
        const int seconds,
        Number("--grace", arguments.grace, kMaxGraceSeconds));
    plan.signal_patience_ns = int64_t{seconds} * 1'000'000'000;
  }
  plan.exported = arguments.exported;
  std::vector<HostSlots> hosts;
  if (!arguments.hostfile.empty()) {
    auto read = ReadHostfile(arguments.hostfile);
    CASTOR_RETURN_IF_ERROR(Annotate("--hostfile", read.status()));
    hosts = *std::move(read);
  } else if (num_ranks > 0) {
    hosts = {{.host = "localhost", .slots = num_ranks}};
  } else {
    return absl::InvalidArgumentError(
        "how many ranks? --nproc N, or --hostfile FILE");
  }
  auto places = PlaceRanks(hosts, num_ranks);
  CASTOR_RETURN_IF_ERROR(Annotate("--nproc", places.status()));
  plan.ranks = *std::move(places);
  char self[PATH_MAX + 1] = "";
  if (readlink("/proc/self/exe", self, PATH_MAX) < 0) {
    return absl::InternalError("this program's own file cannot be found");
  }
  plan.program = {self, "train"};
  plan.program.insert(plan.program.end(), arguments.train.begin(),
                      arguments.train.end());
  if (ErrorsAreJson()) plan.program.push_back(kJsonErrors);
  return plan;
}

absl::StatusOr<int> MakePlanAndRun(const LaunchArguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(const LaunchPlan plan, MakePlan(arguments));
  return RunRanks(plan);
}

}  // namespace

int Launch(const LaunchArguments& arguments) {
  const absl::StatusOr<int> code = MakePlanAndRun(arguments);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace castor::cli
