#include "cli/replay/replay_report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "cli/figures/figures.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/policy/policies.h"
#include "run/program/forecast.h"

namespace castor::cli {
namespace {

std::string Ms(int64_t ns) {
  return absl::StrFormat("%.2f ms", static_cast<double>(ns) * 1e-6);
}

std::string Gbps(double bytes_per_s) {
  return absl::StrFormat("%.3g GB/s", bytes_per_s * 1e-9);
}

double TokensPerSecond(const RecordedRun& run, int64_t step_ns) {
  return step_ns > 0 ? static_cast<double>(run.tokens_per_step) * 1e9 /
                           static_cast<double>(step_ns)
                     : 0;
}

std::string Tokens(const RecordedRun& run, int64_t step_ns) {
  if (run.tokens_per_step == 0 || step_ns == 0) return "-";
  return FormatTokensPerSecond(TokensPerSecond(run, step_ns));
}

std::string Percent(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  return absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(part) /
                                        static_cast<double>(whole));
}

std::string Row(absl::string_view name, absl::string_view run,
                absl::string_view replay) {
  return absl::StrFormat("  %-26s %18s %18s\n", name, run, replay);
}

// Returns a row that says how many blocks keep their activations, where the
// trace says it.
std::string KeptRow(const StepTrace& run, const StepTrace& replay) {
  if (run.blocks.empty()) return "";
  const auto kept = [](const StepTrace& trace) {
    const BlockCount count = CountBlocks(trace);
    return absl::StrCat(count.kept, " of ", count.blocks);
  };
  const int64_t away = CountBlocks(run).offloaded;
  const int64_t then_away = CountBlocks(replay).offloaded;
  return absl::StrCat(Row("blocks kept", kept(run), kept(replay)),
                      away + then_away == 0
                          ? ""
                          : Row("blocks by way of the host", absl::StrCat(away),
                                absl::StrCat(then_away)));
}

// Returns the meaning of a picture's letters, such as "a auto  c cpu".
std::string Letters(const std::vector<SweepPoint>& sweep) {
  std::vector<std::string> letters;
  const absl::Span<const PlacementPolicy> policies = Policies();
  for (auto policy = policies.rbegin(); policy != policies.rend(); ++policy) {
    const bool shown = std::any_of(
        sweep.begin(), sweep.end(),
        [&](const SweepPoint& point) { return point.policy == &*policy; });
    if (!policy->in_configurations && !shown) continue;
    letters.push_back(
        absl::StrCat(std::string(1, policy->letter), " ", policy->name));
  }
  return absl::StrJoin(letters, "  ");
}

}  // namespace

std::string ReplayTable(const RecordedRun& run, const ReplayResult& result) {
  const PlanRequest& was = run.training.request;
  const PlanRequest& now = result.request;
  const MeasuredSteps& measured = run.measured;
  const PlanCost& cost = result.cost;
  const auto of_run = [&](std::string text) {
    return measured.steps > 0 ? text : std::string("-");
  };
  std::string text;
  absl::StrAppend(
      &text, Row("", "recorded run", "replay"),
      Row("policy", run.policy->name, result.policy->name),
      Row("device memory", FormatBytes(was.device_budget_bytes),
          FormatBytes(now.device_budget_bytes)),
      Row("host memory", FormatBytes(was.host_budget_bytes),
          FormatBytes(now.host_budget_bytes)),
      Row("bus to the device", Gbps(was.bus.h2d_bytes_per_s),
          Gbps(now.bus.h2d_bytes_per_s)),
      Row("bus from the device", Gbps(was.bus.d2h_bytes_per_s),
          Gbps(now.bus.d2h_bytes_per_s)),
      Row("prefetch", was.prefetch ? "on" : "off", now.prefetch ? "on" : "off"),
      KeptRow(run.training.trace, *result.trace),
      Row("step time", of_run(Ms(measured.step_ns)), Ms(cost.step_ns)),
      Row("tokens/s", of_run(Tokens(run, measured.step_ns)),
          Tokens(run, cost.step_ns)),
      Row("waiting", of_run(Percent(measured.stall_ns, measured.step_ns)),
          Percent(cost.stall_ns, cost.step_ns)),
      Row("device peak", of_run(FormatBytes(measured.device_peak_bytes)),
          FormatBytes(cost.device_peak_bytes)),
      Row("device peak, bytes",
          of_run(absl::StrCat(measured.device_peak_bytes)),
          absl::StrCat(cost.device_peak_bytes)),
      Row("host memory in use", "", FormatBytes(cost.host_bytes)),
      Row("to the device a step", of_run(FormatBytes(measured.h2d_bytes)),
          FormatBytes(cost.h2d_bytes)),
      Row("  the least possible", "", FormatBytes(result.least_h2d_bytes)),
      Row("from the device a step", of_run(FormatBytes(measured.d2h_bytes)),
          FormatBytes(cost.d2h_bytes)));
  absl::StrAppend(&text, "  the device is fullest at ", result.peak_operator,
                  "; ", result.device_sides, " of ", result.plan.side.size(),
                  " chunks have their optimizer states on it\n");
  absl::StrAppend(&text, "  predicted step: ",
                  FormatForecast(ForecastOf(cost, now), run.tokens_per_step),
                  "\n");
  if (result.own && measured.steps > 0 && measured.step_ns > 0) {
    absl::StrAppendFormat(
        &text,
        "  the run's own plan under its own conditions: predicted %.3f of the "
        "measured step time (median of %d traced steps)\n",
        static_cast<double>(cost.step_ns) /
            static_cast<double>(measured.step_ns),
        measured.steps);
  } else if (measured.steps == 0 && !run.training.trace.measured) {
    absl::StrAppend(&text,
                    "  no step was measured: times are estimated from shapes "
                    "and assumed speeds\n");
  }
  return text;
}

nlohmann::json ReplayJson(const RecordedRun& run, const ReplayResult& result) {
  const PlanCost& cost = result.cost;
  const PlanRequest& request = result.request;
  nlohmann::json json = ForecastJson(ForecastOf(cost, request));
  json.erase("planned_addresses");  // a replay plans none
  json.update({
      {"fits", true},
      {"policy", std::string(result.policy->name)},
      {"device_budget_bytes", BudgetJson(request.device_budget_bytes)},
      {"host_budget_bytes", BudgetJson(request.host_budget_bytes)},
      {"predicted_tokens_per_second", TokensPerSecond(run, cost.step_ns)},
      {"predicted_stall_seconds_per_step",
       static_cast<double>(cost.stall_ns) * 1e-9},
      {"predicted_device_peak_bytes", cost.device_peak_bytes},
      {"peak_operator", result.peak_operator},
      {"h2d_bytes_per_step", cost.h2d_bytes},
      {"least_h2d_bytes_per_step", result.least_h2d_bytes},
      {"d2h_bytes_per_step", cost.d2h_bytes},
      {"chunks", result.plan.side.size()},
      {"device_side_chunks", result.device_sides},
      {"durations_measured", run.training.trace.measured},
      {"as_recorded", result.own},
  });
  const MeasuredSteps& measured = run.measured;
  if (result.own && measured.steps > 0) {
    json["step_seconds"] = static_cast<double>(measured.step_ns) * 1e-9;
    json["device_peak_bytes"] = measured.device_peak_bytes;
  }
  return json;
}

std::string SweepTable(const RecordedRun& run,
                       const std::vector<SweepPoint>& sweep) {
  std::string text =
      absl::StrFormat("  %13s %-6s %11s %9s %8s %10s %10s %10s %6s\n",
                      "device memory", "policy", "step time", "tokens/s",
                      "waiting", "to device", "(least)", "from it", "states");
  for (const SweepPoint& point : sweep) {
    const PlanCost& cost = point.result.cost;
    absl::StrAppendFormat(
        &text, "  %13s %-6s %11s %9s %8s %10s %10s %10s %6s%s\n",
        FormatBytes(point.device_bytes), point.policy->name, Ms(cost.step_ns),
        Tokens(run, cost.step_ns), Percent(cost.stall_ns, cost.step_ns),
        FormatBytes(cost.h2d_bytes), FormatBytes(point.result.least_h2d_bytes),
        FormatBytes(cost.d2h_bytes),
        absl::StrCat(point.result.device_sides, "/",
                     point.result.plan.side.size()),
        point.result.own ? "  as recorded" : "");
  }
  return text;
}

std::string SweepPicture(const std::vector<SweepPoint>& sweep) {
  constexpr int kColumns = 64;
  constexpr int kRows = 12;
  const double low = std::log(
      static_cast<double>(std::max<int64_t>(1, sweep.front().device_bytes)));
  const double high = std::log(
      static_cast<double>(std::max<int64_t>(1, sweep.back().device_bytes)));
  int64_t longest = 1;
  for (const SweepPoint& point : sweep) {
    longest = std::max(longest, point.result.cost.step_ns);
  }
  // Where points meet the last policy's letter stays; the table has them all.
  std::vector<std::string> rows(kRows, std::string(kColumns, ' '));
  for (const SweepPoint& point : sweep) {
    const double at =
        std::log(static_cast<double>(std::max<int64_t>(1, point.device_bytes)));
    const double share = high > low ? (at - low) / (high - low) : 0;
    const int column = static_cast<int>(std::lround(share * (kColumns - 1)));
    const double height = static_cast<double>(point.result.cost.step_ns) /
                          static_cast<double>(longest);
    const int row = static_cast<int>(std::lround(height * (kRows - 1)));
    rows[row][column] = point.policy->letter;
  }
  std::string text = "step time over device memory\n";
  for (int row = kRows - 1; row >= 0; --row) {
    std::string& line = rows[row];
    line.erase(line.find_last_not_of(' ') + 1);
    const std::string label = row == kRows - 1 || row == 0 || row == kRows / 2
                                  ? Ms(longest * row / (kRows - 1))
                                  : "";
    absl::StrAppendFormat(&text, "%12s |%s\n", label, line);
  }
  const std::string first = FormatBytes(sweep.front().device_bytes);
  const std::string last = FormatBytes(sweep.back().device_bytes);
  const int gap =
      std::max<int>(1, kColumns - static_cast<int>(first.size() + last.size()));
  absl::StrAppend(&text, std::string(13, ' '), "+", std::string(kColumns, '-'),
                  "\n", std::string(14, ' '), first, std::string(gap, ' '),
                  last, "\n", std::string(14, ' '), Letters(sweep),
                  "; equal steps are equal ratios\n");
  return text;
}

std::string SweepCsv(const RecordedRun& run,
                     const std::vector<SweepPoint>& sweep) {
  std::string text =
      "device_budget_bytes,policy,step_ns,tokens_per_second,stall_ns,"
      "device_peak_bytes,peak_operator,host_bytes,h2d_bytes,least_h2d_bytes,"
      "d2h_bytes,device_side_chunks,chunks,as_recorded,measured_step_ns,"
      "measured_device_peak_bytes\n";
  for (const SweepPoint& point : sweep) {
    const ReplayResult& result = point.result;
    const PlanCost& cost = result.cost;
    // Quoted, as a name may hold anything.
    std::string op = "\"";
    for (const char c : result.peak_operator) {
      if (c == '"') op += '"';
      op += c;
    }
    op += '"';
    absl::StrAppendFormat(
        &text, "%d,%s,%d,%.1f,%d,%d,%s,%d,%d,%d,%d,%d,%d,%d,%s\n",
        point.device_bytes, point.policy->name, cost.step_ns,
        TokensPerSecond(run, cost.step_ns), cost.stall_ns,
        cost.device_peak_bytes, op, cost.host_bytes, cost.h2d_bytes,
        result.least_h2d_bytes, cost.d2h_bytes, result.device_sides,
        result.plan.side.size(), result.own ? 1 : 0,
        result.own && run.measured.steps > 0
            ? absl::StrCat(run.measured.step_ns, ",",
                           run.measured.device_peak_bytes)
            : ",");
  }
  return text;
}

}  // namespace castor::cli
