#include "cli/plan/search/search_command.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "cli/figures/figures.h"
#include "cli/output/output_file.h"
#include "cli/plan/advice/change.h"
#include "cli/plan/advice/what_would_fit.h"
#include "cli/plan/advice/what_would_help.h"
#include "cli/plan/planned_run.h"
#include "cli/plan/search/candidates.h"
#include "cli/plan/search/search_text.h"

namespace castor::cli {
namespace {

// A line on a terminal that changes, or one every few seconds elsewhere.
class SearchLine {
 public:
  void Tell(const SearchProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const auto wait = live_ ? std::chrono::milliseconds(100)
                            : std::chrono::milliseconds(5000);
    if (now - told_ < wait) return;
    told_ = now;
    std::string text =
        absl::StrCat("searching: ", progress.candidates,
                     " candidates looked at, ", progress.planned, " planned");
    if (progress.best_tokens_per_second > 0) {
      absl::StrAppend(&text, ", best ",
                      FormatTokensPerSecond(progress.best_tokens_per_second),
                      " tokens/s");
    }
    std::fprintf(stderr, live_ ? "\r\x1b[K%s" : "%s\n", text.c_str());
    shown_ = live_;
  }
  void Clear() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
  }

 private:
  const bool live_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point told_ =
      std::chrono::steady_clock::now();
};

absl::Status CheckFree(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--write: ", path, " is there already; name another file"));
  }
  return Annotate("--write", CheckWritable(path));
}

// The configuration of `best`, for castor train: paths are absolute, and the
// budgets are those of the plan.
absl::Status Write(const PlanArguments& arguments, const FoundRow& best) {
  PlanArguments its = best.plan.candidate.arguments;
  if (!its.by_shape()) {
    its.config_path = std::filesystem::absolute(its.config_path).string();
  }
  CASTOR_ASSIGN_OR_RETURN(PlannedRun run, ReadRun(its));
  Config config = run.asked;
  config.device.type = run.config.device.type;
  config.device.memory = run.config.device.memory;
  config.device.memory_dir = run.config.device.memory_dir;
  config.memory.device_memory = run.config.memory.device_memory;
  if (run.config.memory.host_memory < kUnlimitedBytes) {
    config.memory.host_memory =
        run.ranks_of_machine() * run.config.memory.host_memory;
  }
  OrderedJson json = OrderedJson::parse(ConfigToJson(config));
  // A plan by name saves nothing; a run does.
  if (its.by_shape()) json.erase("checkpoint");
  return Annotate("--write",
                  WriteWhole(arguments.write,
                             json.dump(2, ' ', false,
                                       OrderedJson::error_handler_t::replace) +
                                 "\n"));
}

absl::Status NothingFits(const PlanArguments& arguments,
                         const Candidates& candidates,
                         const SearchResult& result, std::string* after) {
  const absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "none of ", result.candidates,
      " candidates fits; of the one that takes the least: ", result.error));
  const PlanArguments& last = candidates.rows.back().first.arguments;
  if (!result.refusal.has_value()) return status;
  CASTOR_ASSIGN_OR_RETURN(const PlannedRun run, ReadRun(last));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Change> changes,
                          WhatWouldFit(last, run, *result.refusal));
  if (arguments.json) {
    nlohmann::json json = AskedJson(run.config, run.machine);
    json["would_fit"] = ChangesJson(changes);
    json["search"] = SearchJson(result);
    PrintRefusal(result.refusal, status, std::move(json));
  } else {
    *after = FormatFits(changes);
  }
  return status;
}

}  // namespace

absl::Status SearchPlans(const PlanArguments& arguments, std::string* after) {
  CASTOR_RETURN_IF_ERROR(CheckFree(arguments.write));
  CASTOR_ASSIGN_OR_RETURN(const Candidates candidates, CandidatesOf(arguments));
  if (!arguments.json) {
    std::fputs(DescribeSearch(arguments, candidates).c_str(), stdout);
    std::optional<std::string> gpu;
    for (const CandidateRow& row : candidates.rows) {
      if (gpu == row.gpu) continue;
      gpu = row.gpu;
      CASTOR_ASSIGN_OR_RETURN(const PlannedRun run,
                              ReadRun(row.first.arguments));
      if (!run.machine.has_value()) continue;
      std::fputs(Describe(*run.machine, run.config).c_str(), stdout);
    }
  }
  SearchLine line;
  const absl::StatusOr<SearchResult> result = SearchCandidates(
      candidates, [&](const SearchProgress& progress) { line.Tell(progress); });
  line.Clear();
  CASTOR_RETURN_IF_ERROR(result.status());
  if (!arguments.json) std::fputs(FormatCounts(*result).c_str(), stdout);
  if (result->rows.empty()) {
    return NothingFits(arguments, candidates, *result, after);
  }
  const FoundRow& best = result->rows.front();
  const PlanArguments& its = best.plan.candidate.arguments;
  std::vector<Change> helps;
  if (arguments.advise) {
    CASTOR_ASSIGN_OR_RETURN(const PlannedRun run, ReadRun(its));
    CASTOR_ASSIGN_OR_RETURN(helps,
                            WhatWouldHelp(its, run, best.plan.step_seconds));
  }
  if (!arguments.write.empty()) {
    CASTOR_RETURN_IF_ERROR(Write(arguments, best));
  }
  if (arguments.json) {
    nlohmann::json json = best.plan.figures;
    json["search"] = SearchJson(*result);
    if (arguments.advise) json["would_help"] = ChangesJson(helps);
    PrintJson(json);
    return absl::OkStatus();
  }
  std::fputs(FormatSearch(*result).c_str(), stdout);
  std::fputs(FormatBinding(best.plan.forecast).c_str(), stdout);
  if (arguments.advise) {
    std::fputs(FormatHelps(helps, best.plan.step_seconds).c_str(), stdout);
  }
  std::fputs(FormatCommand(best).c_str(), stdout);
  if (!arguments.write.empty()) {
    std::printf(
        "%s has row 1's configuration%s\n", arguments.write.c_str(),
        arguments.by_shape()
            ? "; before castor train, give it data.train, steps and, to start "
              "from weights, model.pretrained in model's place"
            : "");
  }
  return absl::OkStatus();
}

}  // namespace castor::cli
