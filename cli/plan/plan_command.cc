#include "cli/plan/plan_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/figures/figures.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/output/standard_output.h"
#include "cli/plan/advice/what_would_fit.h"
#include "cli/plan/advice/what_would_help.h"
#include "cli/plan/model_by_shape.h"
#include "cli/plan/planned_run.h"
#include "cli/plan/search/search_command.h"
#include "cli/train/report.h"
#include "run/optim/optimizers.h"

namespace castor::cli {
namespace {

void PrintPlan(const PlannedRun& run, bool by_shape) {
  const Trainer& trainer = run.session->trainer();
  const AdmissionReport& admission = trainer.admission();
  std::fputs(FormatAdmission(admission).c_str(), stdout);
  std::printf("it fits; a step moves %s to the device and %s from it\n",
              FormatBytes(admission.h2d_bytes_per_step).c_str(),
              FormatBytes(admission.d2h_bytes_per_step).c_str());
  std::printf("%s\n", BytesAtHome(trainer.layout().dtype, trainer.accumulate(),
                                  *run.config.optimizer.rule)
                          .c_str());
  std::printf("%s\n", ForecastLine(run.config, admission.forecast,
                                   run.session->tokens_per_step())
                          .c_str());
  for (const std::string& note : NotesOn(run, by_shape)) {
    std::printf("%s\n", note.c_str());
  }
}

// Says of a run that does not fit what would, beside its error: prints it, or
// puts it into `after`, which is printed after the error.
absl::Status TellRefusal(const PlanArguments& arguments, const PlannedRun& run,
                         const Refusal& refusal, const absl::Status& status,
                         std::string* after) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Change> changes,
                          WhatWouldFit(arguments, run, refusal));
  if (arguments.json) {
    nlohmann::json json = AskedJson(run.config, run.machine);
    json["would_fit"] = ChangesJson(changes);
    PrintRefusal(refusal, status, std::move(json));
  } else {
    *after = FormatFits(changes);
  }
  return status;
}

absl::Status PlanOne(const PlanArguments& arguments, std::string* after) {
  const bool by_shape = arguments.by_shape();
  CASTOR_ASSIGN_OR_RETURN(PlannedRun run, ReadRun(arguments));
  if (!arguments.json && by_shape) {
    std::fputs(DescribeShape(arguments.model, run.config).c_str(), stdout);
  }
  if (!arguments.json && run.machine.has_value()) {
    std::fputs(Describe(*run.machine, run.config).c_str(), stdout);
  }
  std::optional<RefusedRun> refused;
  const absl::Status planned =
      MakePlan(arguments, AdmitDepth::kPlan,
               arguments.json ? nullptr : PrintLine, &run, &refused);
  if (refused.has_value()) {
    return TellRefusal(arguments, run, refused->refusal, planned, after);
  }
  CASTOR_RETURN_IF_ERROR(planned);
  if (!arguments.json) {
    PrintPlan(run, by_shape);
    std::fputs(FormatBinding(run.admission().forecast).c_str(), stdout);
  }
  std::vector<Change> helps;
  if (arguments.advise) {
    CASTOR_ASSIGN_OR_RETURN(helps,
                            WhatWouldHelp(arguments, run, run.StepSeconds()));
  }
  if (arguments.json) {
    nlohmann::json json = PlanJson(run, by_shape);
    if (arguments.advise) json["would_help"] = ChangesJson(helps);
    PrintJson(json);
  } else if (arguments.advise) {
    std::fputs(FormatHelps(helps, run.StepSeconds()).c_str(), stdout);
  }
  return absl::OkStatus();
}

}  // namespace

int PlanRun(const PlanArguments& arguments) {
  std::string after;
  const absl::Status status = arguments.search ? SearchPlans(arguments, &after)
                                               : PlanOne(arguments, &after);
  if (status.ok()) return kSuccess;
  const int code = Fail(status);
  std::fputs(after.c_str(), stdout);
  return code;
}

}  // namespace castor::cli
