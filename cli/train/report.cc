#include "cli/train/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/small_file.h"
#include "base/units.h"
#include "cli/figures/figures.h"
#include "memory/plan/policy/policies.h"

namespace castor::cli {
namespace {

constexpr int64_t kMaxSummaryBytes = int64_t{1} << 30;

std::string FormatSeconds(double seconds) {
  if (seconds < 60) return absl::StrFormat("%.0fs", seconds);
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
}

// The rank that was waited for longest, if any is worth naming.
std::string LateText(const RankFigures& rank) {
  const auto most = std::max_element(rank.late_rank_seconds.begin(),
                                     rank.late_rank_seconds.end());
  if (most == rank.late_rank_seconds.end() || *most < 0.001) return "";
  return absl::StrFormat(", of that %.3f s for rank %d", *most,
                         most - rank.late_rank_seconds.begin());
}

std::string RankText(const RankFigures& rank) {
  return absl::StrFormat(
      "device %s, host %s, network %s out %s in a step, waited %.3f s for "
      "it%s (%s)",
      FormatBytes(rank.device_peak_bytes), FormatBytes(rank.host_peak_bytes),
      FormatBytes(rank.sent_bytes_per_step),
      FormatBytes(rank.received_bytes_per_step), rank.network_wait_seconds,
      LateText(rank), rank.host);
}

// The ranks worth a line each: all of them, or of many those that needed the
// most memory and those that waited for longest.
std::vector<int64_t> ShownRanks(const std::vector<RankFigures>& ranks) {
  constexpr size_t kMostLines = 8;
  std::vector<int64_t> shown;
  const auto add = [&](int64_t rank) {
    if (std::find(shown.begin(), shown.end(), rank) == shown.end()) {
      shown.push_back(rank);
    }
  };
  if (ranks.size() <= kMostLines) {
    for (size_t i = 0; i < ranks.size(); ++i) add(static_cast<int64_t>(i));
    return shown;
  }
  const auto greatest = [&](auto figure) {
    return std::max_element(ranks.begin(), ranks.end(),
                            [&](const RankFigures& a, const RankFigures& b) {
                              return figure(a) < figure(b);
                            }) -
           ranks.begin();
  };
  add(greatest([](const RankFigures& r) { return r.device_peak_bytes; }));
  add(greatest([](const RankFigures& r) { return r.host_peak_bytes; }));
  add(greatest([](const RankFigures& r) { return r.network_wait_seconds; }));
  add(greatest([](const RankFigures& r) { return -r.network_wait_seconds; }));
  std::sort(shown.begin(), shown.end());
  return shown;
}

nlohmann::json RankJson(const RankFigures& rank) {
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"device_peak_bytes", rank.device_peak_bytes},
          {"host_peak_bytes", rank.host_peak_bytes},
          {"network_bytes_per_step",
           rank.sent_bytes_per_step + rank.received_bytes_per_step},
          {"network_sent_bytes_per_step", rank.sent_bytes_per_step},
          {"network_received_bytes_per_step", rank.received_bytes_per_step},
          {"network_wait_seconds", rank.network_wait_seconds},
          {"network_wait_seconds_by_late_rank", rank.late_rank_seconds}};
}

double TokensPerSecond(const RunReport& report, const SteadyFigures& figures) {
  const double tokens =
      figures.tokens > 0 ? figures.tokens : report.tokens_per_step;
  return figures.step_seconds > 0 ? tokens / figures.step_seconds : 0;
}

// "step 40, loss 2.1033".
std::string BestText(const Config& config, const BestState& best) {
  return absl::StrFormat("step %d, %s %.4f", best.step,
                         MetricName(config.checkpoint.best_metric), best.value);
}

nlohmann::json EvaluationJson(const EvaluationFigures& evaluation) {
  nlohmann::json json = {{"step", evaluation.step},
                         {"loss", evaluation.loss},
                         {"perplexity", evaluation.perplexity},
                         {"token_accuracy", evaluation.accuracy}};
  if (!evaluation.terms.empty()) {
    json["loss_terms"] = LossTermsJson(evaluation.terms);
    json["accuracies"] = AccuraciesJson(evaluation.terms);
  }
  return json;
}

double Percent(double part, double whole) {
  return whole > 0 ? 100.0 * part / whole : 0;
}

// "" where nobody knows how much an epoch is.
std::string EpochText(const RunReport& report, int64_t step) {
  return report.epoch.steps > 0
             ? absl::StrFormat("epoch %.2f", EpochAt(report, step))
             : "";
}

}  // namespace

double EvaluationFigures::Of(BestMetric metric) const {
  switch (metric) {
    case BestMetric::kLoss:
      return loss;
    case BestMetric::kPerplexity:
      return perplexity;
    case BestMetric::kAccuracy:
      return accuracy;
  }
  return loss;
}

int64_t TokensPerStep(const Config& config) {
  return config.train_batch_size * config.data.sequence_length;
}

std::string ForecastLine(const Config& config, const Forecast& forecast,
                         double tokens) {
  const std::string addresses = FormatAddresses(forecast);
  return absl::StrCat(
      "predicted step: ", FormatForecast(forecast, std::llround(tokens)),
      config.memory.activation_checkpointing == ActivationCheckpointing::kAuto
          ? absl::StrCat(
                "; ", forecast.blocks.kept, " of ", forecast.blocks.blocks,
                " blocks keep their activations",
                forecast.blocks.offloaded > 0
                    ? absl::StrCat(", those of ", forecast.blocks.offloaded,
                                   " go to the host")
                    : "")
          : "",
      addresses.empty() ? "" : "; ", addresses,
      forecast.measured ? " (durations as measured)"
                        : " (durations as estimated before any is measured)");
}

std::string ResizedLine(const Config& config, int64_t device_budget_bytes,
                        const Forecast& forecast, double tokens) {
  return absl::StrCat("device memory ", FormatBytes(device_budget_bytes), " (",
                      device_budget_bytes, " bytes), predicted peak ",
                      FormatBytes(forecast.device_peak_bytes), "; ",
                      ForecastLine(config, forecast, tokens));
}

double EpochAt(const RunReport& report, int64_t step) {
  return report.epoch.steps > 0 ? static_cast<double>(step) /
                                      static_cast<double>(report.epoch.steps)
                                : 0;
}

std::string EpochLine(const Config& config, const EpochSize& epoch) {
  if (epoch.samples == 0) {
    return config.steps > 0
               ? ""
               : absl::StrFormat(
                     "an epoch: its steps are known when the data are "
                     "tokenised; the run is %g of them",
                     config.num_train_epochs);
  }
  const double epochs =
      static_cast<double>(config.steps) / static_cast<double>(epoch.steps);
  return absl::StrCat(
      "an epoch: ",
      epoch.records > 0
          ? absl::StrCat(epoch.records, " samples in ", epoch.samples, " rows")
          : absl::StrCat(epoch.samples, " samples"),
      ", ", epoch.tokens, " tokens",
      epoch.learned.has_value()
          ? absl::StrCat(" (", *epoch.learned, " learned)")
          : "",
      ", ", epoch.steps, " steps of ", config.train_batch_size,
      "; the run: ", config.steps, " steps, ", absl::StrFormat("%.4g", epochs),
      epochs == 1 ? " epoch" : " epochs");
}

std::string EvaluationLine(const EvaluationFigures& evaluation, bool best) {
  return absl::StrCat(
      absl::StrFormat("step %d  validation loss %.4f%s  perplexity %.4g",
                      evaluation.step, evaluation.loss,
                      LossTermsText(evaluation.terms), evaluation.perplexity),
      std::isnan(evaluation.accuracy)
          ? ""
          : absl::StrFormat("  token accuracy %.4f", evaluation.accuracy),
      best ? "  (the best so far)" : "");
}

std::string EarlyStopLine(const Config& config, const RunReport& report) {
  const BestState& best = report.best;
  return absl::StrFormat(
      "ended early after step %d: none of the last %d evaluations was better "
      "than the best before it%s (early_stopping_patience); the best: %s",
      report.last_step, best.without_gain,
      config.early_stopping_threshold > 0
          ? absl::StrFormat(" by more than %g", config.early_stopping_threshold)
          : "",
      best.step > 0 ? BestText(config, best) : "none");
}

std::string LiveLine(const Config& config, const RunReport& report,
                     const StepFigures& recent, int columns) {
  const StepReport& last = recent.last();
  const SteadyFigures now = recent.Steady();
  enum Part { kEpoch, kStep, kLoss, kRate, kTokens, kMemory, kLeft };
  std::vector<std::string> parts = {
      EpochText(report, last.step),
      absl::StrFormat("step %d/%d", last.step, config.steps),
      absl::StrFormat("loss %.4f", last.loss),
      absl::StrFormat("lr %.3g", last.learning_rate),
      absl::StrCat(FormatTokensPerSecond(TokensPerSecond(report, now)),
                   " tokens/s"),
      absl::StrCat("mem ", FormatBytes(report.device_peak_bytes)),
      absl::StrCat(FormatSeconds(static_cast<double>(config.steps - last.step) *
                                 now.step_seconds),
                   " left")};
  const auto line = [&] {
    std::string text;
    for (const std::string& part : parts) {
      if (part.empty()) continue;
      absl::StrAppend(&text, text.empty() ? "" : "  ", part);
    }
    return text;
  };
  for (const Part part : {kMemory, kRate, kTokens, kLeft, kEpoch, kLoss}) {
    if (static_cast<int>(line().size()) <= columns) break;
    parts[part].clear();
  }
  return line().substr(0, static_cast<size_t>(columns));
}

std::string ProgressLine(const Config& config, const RunReport& report,
                         const StepFigures& recent) {
  const StepReport& last = recent.last();
  const SteadyFigures now = recent.Steady();
  const std::string epoch = EpochText(report, last.step);
  return absl::StrFormat(
      "step %d/%d  loss %.4f%s  lr %.3g  %s%s%s tokens/s  "
      "device %s of %s  bus in %s out %s a step  waiting %.1f%%  %s left%s%s",
      last.step, config.steps, last.loss,
      LossTermsText(NameTerms(config.model, last.terms)), last.learning_rate,
      epoch, epoch.empty() ? "" : "  ",
      FormatTokensPerSecond(TokensPerSecond(report, now)),
      FormatBytes(report.device_peak_bytes),
      FormatBytes(report.device_budget_bytes), FormatBytes(now.h2d_bytes),
      FormatBytes(now.d2h_bytes), Percent(now.stall_seconds, now.step_seconds),
      FormatSeconds(static_cast<double>(config.steps - last.step) *
                    now.step_seconds),
      config.fp16.enabled
          ? absl::StrFormat("  loss scale %.12g", last.next_loss_scale)
          : "",
      last.warmup ? "  (warm-up)" : "");
}

std::string OverflowLine(const Config& config, const StepReport& step) {
  if (!config.fp16.enabled) {
    return absl::StrFormat(
        "step %d  skipped: the gradient of \"%s\" is not finite", step.step,
        step.overflow);
  }
  return absl::StrFormat(
      "step %d  skipped: the gradient of \"%s\" is not finite at a loss scale "
      "of %.12g%s",
      step.step, step.overflow, step.loss_scale,
      step.next_loss_scale == step.loss_scale
          ? "; the scale stays"
          : absl::StrFormat("; it becomes %.12g", step.next_loss_scale));
}

std::string FinalTable(const Config& config, const AdmissionReport& admission,
                       const RunReport& report) {
  const SteadyFigures steady = report.steps.Steady();
  std::string text;
  const auto row = [&](absl::string_view name, absl::string_view value) {
    absl::StrAppend(&text, absl::StrFormat("  %-26s %s\n", name, value));
  };
  text = "summary\n";
  row("steps", absl::StrFormat("%d of %d", report.last_step, config.steps));
  if (!report.steps.empty()) {
    row("loss, first and last",
        absl::StrFormat("%.4f  %.4f", report.steps.losses().front(),
                        report.steps.losses().back()));
  }
  if (!report.evaluations.empty()) {
    row("validation loss, last",
        absl::StrFormat("%.4f", report.evaluations.back().loss));
  }
  if (report.best.step > 0) {
    row("best evaluation", BestText(config, report.best));
  }
  if (!report.best_checkpoint.empty()) {
    row("  checkpoint", report.best_checkpoint);
  }
  if (!config.fp16.enabled && report.steps.skipped() > 0) {
    row("steps skipped", absl::StrCat(report.steps.skipped()));
  }
  if (config.fp16.enabled && !report.steps.empty()) {
    row("loss scale, last", absl::StrFormat("%.12g (%d steps skipped)",
                                            report.steps.last().next_loss_scale,
                                            report.steps.skipped()));
  }
  row("tokens per second",
      absl::StrCat(
          FormatTokensPerSecond(TokensPerSecond(report, steady)),
          report.tokens_per_step < static_cast<double>(TokensPerStep(config))
              ? " (padding is not counted)"
              : ""));
  const auto lengths = report.steps.lengths();
  row(lengths.size() > 1 ? "step, mean of medians" : "step, median",
      absl::StrFormat("%.3f s", steady.step_seconds));
  for (const auto& [length, of] : lengths) {
    row(absl::StrCat("  of length ", length),
        absl::StrFormat("%.3f s, %d steps", of.step_seconds, of.steps));
  }
  if (report.plans > 0) {
    const double predicted =
        static_cast<double>(report.forecast.step_ns) * 1e-9;
    row("  predicted",
        absl::StrFormat("%.3f s (%.0f%% of it), bound by %s", predicted,
                        Percent(predicted, steady.step_seconds),
                        ResourceName(report.forecast.binds)));
  }
  row("  waiting for the bus",
      absl::StrFormat("%.3f s (%.1f%%)", steady.stall_seconds,
                      Percent(steady.stall_seconds, steady.step_seconds)));
  if (report.data_wait_seconds.has_value()) {
    row("waiting for data",
        absl::StrFormat("%.3f s of the run", *report.data_wait_seconds));
  }
  row("device peak", absl::StrFormat("%s of a budget of %s",
                                     FormatBytes(report.device_peak_bytes),
                                     FormatBytes(report.device_budget_bytes)));
  const auto predicted = [&](int64_t bytes) {
    if (report.plans == 0) return;
    row("  predicted", absl::StrFormat("%s, the most of %d plans",
                                       FormatBytes(bytes), report.plans));
  };
  predicted(report.predicted_device_peak_bytes);
  row("  unmanaged it would take",
      absl::StrFormat(
          "%s (budget: %.0f%% of it)",
          FormatBytes(admission.unmanaged_device_bytes),
          Percent(static_cast<double>(report.device_budget_bytes),
                  static_cast<double>(admission.unmanaged_device_bytes))));
  row("host peak", FormatBytes(report.host_peak_bytes));
  predicted(report.predicted_host_peak_bytes);
  row("bus per step", absl::StrFormat("%s to the device, %s from it",
                                      FormatBytes(steady.h2d_bytes),
                                      FormatBytes(steady.d2h_bytes)));
  if (!report.ranks.empty()) {
    const std::vector<int64_t> shown = ShownRanks(report.ranks);
    row("ranks", shown.size() == report.ranks.size()
                     ? absl::StrCat(report.ranks.size())
                     : absl::StrCat(report.ranks.size(),
                                    "; those with the most, and the least "
                                    "waiting:"));
    for (const int64_t rank : shown) {
      row(absl::StrCat("  rank ", rank), RankText(report.ranks[rank]));
    }
  }
  if (!report.parameters_sha256.empty()) {
    row("parameters' sha256", report.parameters_sha256);
  }
  return text;
}

std::string SummaryJson(const Config& config, const AdmissionReport& admission,
                        const RunReport& report,
                        const std::optional<Refusal>& refusal) {
  using nlohmann::json;
  json summary;
  summary["policy"] = std::string(config.memory.placement_policy->name);
  summary["precision"] = std::string(DTypeName(config.dtype()));
  summary["device_budget_bytes"] = BudgetJson(report.device_budget_bytes);
  summary["smallest_device_budget_bytes"] =
      admission.smallest_device_budget_bytes;
  summary["unmanaged_device_bytes"] = admission.unmanaged_device_bytes;
  summary["warmup_steps"] = config.memory.warmup_steps;
  summary["world_size"] = report.world_size;
  summary["ended"] = report.ended;
  if (!report.error.empty()) summary["error"] = report.error;
  if (refusal.has_value()) {
    summary.update(RefusalJson(*refusal));
    summary["steps"] = 0;
    return JsonText(summary);
  }
  summary["fits"] = true;
  const SteadyFigures steady = report.steps.Steady();
  summary["steps"] = report.last_step;
  if (!report.steps.empty()) {
    summary["first_loss"] = report.steps.losses().front();
    summary["final_loss"] = report.steps.losses().back();
  }
  summary["losses"] = report.steps.losses();
  const auto& terms = report.steps.terms();
  for (size_t k = 0; k < terms.size(); ++k) {
    const std::string name(config.model.architecture->loss_terms()[k]);
    summary["loss_terms"][name] = terms[k];
  }
  if (config.fp16.enabled && !report.steps.empty()) {
    summary["loss_scale"] = report.steps.last().next_loss_scale;
  }
  if (config.undoes_nonfinite()) {
    summary["skipped_steps"] = report.steps.skipped();
  }
  json evaluations = json::array();
  for (const EvaluationFigures& evaluation : report.evaluations) {
    evaluations.push_back(EvaluationJson(evaluation));
  }
  summary["evaluations"] = evaluations;
  if (report.best.step > 0) {
    summary["best"] = {
        {"step", report.best.step},
        {"metric", std::string(MetricName(config.checkpoint.best_metric))},
        {"value", report.best.value}};
    if (!report.best_checkpoint.empty()) {
      summary["best"]["checkpoint"] = report.best_checkpoint;
    }
  }
  summary["steps_per_epoch"] = report.epoch.steps;
  summary["epochs"] = EpochAt(report, report.last_step);
  if (!report.parameters_sha256.empty()) {
    summary["parameters_sha256"] = report.parameters_sha256;
  }
  summary["device_peak_bytes"] = report.device_peak_bytes;
  summary["host_peak_bytes"] = report.host_peak_bytes;
  summary.update(ForecastJson(report.forecast));
  summary["predicted_device_peak_bytes"] = report.predicted_device_peak_bytes;
  summary["predicted_host_peak_bytes"] = report.predicted_host_peak_bytes;
  summary["plans"] = report.plans;
  if (report.resizes > 0) summary["resizes"] = report.resizes;
  summary["speculative_updates"] =
      report.speculation.committed + report.speculation.repeated;
  summary["speculative_updates_repeated"] = report.speculation.repeated;
  summary["h2d_bytes_per_step"] = steady.h2d_bytes;
  summary["d2h_bytes_per_step"] = steady.d2h_bytes;
  summary["stall_seconds_per_step"] = steady.stall_seconds;
  for (const auto& [length, of] : report.steps.lengths()) {
    summary["lengths"].push_back({{"length", length},
                                  {"steps", of.steps},
                                  {"step_seconds", of.step_seconds}});
  }
  if (report.data_wait_seconds.has_value()) {
    summary["data_wait_seconds"] = *report.data_wait_seconds;
  }
  summary["step_seconds"] = steady.step_seconds;
  summary["tokens_per_second"] = TokensPerSecond(report, steady);
  if (!report.ranks.empty()) {
    json ranks = json::array();
    int64_t sent = 0;
    for (const RankFigures& rank : report.ranks) {
      ranks.push_back(RankJson(rank));
      sent += rank.sent_bytes_per_step;
    }
    summary["ranks"] = ranks;
    // Each byte once: what is sent is what others receive.
    summary["network_bytes_per_step"] = sent;
  }
  return JsonText(summary);
}

std::string SummaryJson(absl::string_view ended, absl::string_view error) {
  const nlohmann::json summary = {{"ended", std::string(ended)},
                                  {"error", std::string(error)},
                                  {"steps", 0}};
  return JsonText(summary);
}

bool IsSummaryOf(const std::string& path,
                 const std::string& parameters_sha256) {
  const auto text = ReadSmallFile(path, kMaxSummaryBytes);
  if (!text.ok() || parameters_sha256.empty()) return false;
  const auto json = nlohmann::json::parse(*text, nullptr,
                                          /*allow_exceptions=*/false);
  const nlohmann::json none;
  return json.is_object() && json.value("ended", none) == kFinished &&
         json.value("parameters_sha256", none) == parameters_sha256;
}

bool IsSummary(const std::string& path) {
  const auto text = ReadSmallFile(path, kMaxSummaryBytes);
  if (!text.ok()) return absl::IsNotFound(text.status());
  const auto json = nlohmann::json::parse(*text, nullptr,
                                          /*allow_exceptions=*/false);
  return text->empty() || (json.is_object() && json.contains("ended"));
}

}  // namespace castor::cli
