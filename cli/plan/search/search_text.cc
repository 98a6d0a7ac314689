#include "cli/plan/search/search_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/dtype.h"
#include "base/units.h"
#include "cli/figures/figures.h"
#include "run/optim/optimizers.h"

namespace castor::cli {
namespace {

using Line = std::vector<std::string>;

// The columns side by side, each as wide as its widest text.
std::string Table(const std::vector<Line>& lines) {
  std::vector<size_t> widths(lines.front().size(), 0);
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) {
      absl::StrAppendFormat(&row, "  %*s", static_cast<int>(widths[i]),
                            line[i]);
    }
    absl::StrAppend(&text, row, "\n");
  }
  return text;
}

std::string Seconds(double seconds) {
  return seconds < 100 ? absl::StrFormat("%.3g s", seconds)
                       : absl::StrFormat("%.0f s", seconds);
}

// "30/0/2": kept on the device, by way of the host, made again.
std::string Blocks(const BlockCount& blocks) {
  if (blocks.blocks == 0) return "-";
  return absl::StrCat(blocks.kept, "/", blocks.offloaded, "/",
                      blocks.blocks - blocks.kept - blocks.offloaded);
}

std::string Binds(const Forecast& forecast) {
  return absl::StrFormat("%s %.0f%%", ResourceName(forecast.binds),
                         100 * BusyShare(forecast, forecast.binds));
}

// As a shell reads it back.
std::string Quoted(const std::string& word) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_./=:,+-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
    return word;
  }
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

// Returns the settings that distinguish the candidate in its row; "" for the
// first.
std::string Placement(const FoundRow& row) {
  const size_t shared = row.row.first.settings.size();
  const std::vector<std::string>& settings = row.plan.candidate.settings;
  return absl::StrJoin(
      std::vector<std::string>(settings.begin() + shared, settings.end()), " ");
}

std::string Ranks(const CandidateRow& row) {
  return row.nodes > 1 ? absl::StrCat(row.nodes, "x", row.gpus_per_node)
                       : absl::StrCat(row.ranks);
}

}  // namespace

std::string DescribeSearch(const PlanArguments& arguments,
                           const Candidates& candidates) {
  const Config& config = candidates.asked;
  const auto source = [&](absl::string_view key) {
    if (Sets(arguments.overrides, key)) return "--set";
    return arguments.by_shape() ? "the default" : "the configuration's";
  };
  return absl::StrCat(
      "search: ",
      arguments.by_shape()
          ? absl::StrCat(arguments.model, ", ", config.model.type, ", ",
                         config.model.architecture->Describe())
          : arguments.config_path,
      "; steps of train_batch_size ", config.train_batch_size, " (",
      source("train_batch_size"), ") samples of data.sequence_length ",
      config.data.sequence_length, " (", source("data.sequence_length"),
      ") tokens; ", DTypeName(config.dtype()), ", ",
      config.optimizer.rule->name(),
      "\nover: ", absl::StrJoin(candidates.searched, ", "),
      " (--set holds what it gives)\n");
}

std::string FormatCounts(const SearchResult& result) {
  return absl::StrCat(
      result.candidates, " candidates: ", result.not_fitting, " do not fit, ",
      result.too_slow, " cannot be among the fastest by their bounds, ",
      result.planned, " were planned",
      result.cut > 0
          ? absl::StrCat("; ", result.cut, " were left out for time's sake")
          : "",
      "\n");
}

std::string FormatSearch(const SearchResult& result) {
  const size_t shown = std::min<size_t>(kShownRows, result.rows.size());
  bool cards = false, ranks = false, prices = false, placements = false;
  bool masters = false, others = false;
  for (size_t i = 0; i < shown; ++i) {
    const FoundRow& row = result.rows[i];
    cards |= row.row.gpu != result.rows[0].row.gpu;
    ranks |= row.row.ranks > 1;
    prices |= row.row.price > 0;
    placements |= !Placement(row).empty();
    masters |= row.row.formats.master != MasterFormat::kFloat32;
    others |= row.row.other_results;
  }
  Line head = {"",      "tokens/s", "step",  "device", "host",
               "binds", "micro",    "accum", "blocks", "moments"};
  if (masters) head.push_back("masters");
  if (cards) head.push_back("gpu");
  if (ranks) head.push_back("ranks");
  if (prices) head.push_back("$/1e9 tokens");
  if (placements) head.push_back("placement");
  std::vector<Line> lines = {head};
  for (size_t i = 0; i < shown; ++i) {
    const FoundRow& row = result.rows[i];
    const FoundPlan& plan = row.plan;
    Line line = {absl::StrCat(i + 1, row.on_frontier ? "=" : " ",
                              row.row.other_results ? "*" : " "),
                 FormatTokensPerSecond(plan.tokens_per_second),
                 Seconds(plan.step_seconds),
                 FormatBytes(plan.device_peak_bytes),
                 FormatBytes(plan.host_peak_bytes),
                 Binds(plan.forecast),
                 absl::StrCat(row.row.micro_batch),
                 absl::StrCat(row.row.accumulation),
                 Blocks(plan.forecast.blocks),
                 std::string(MomentFormatName(row.row.formats.moments))};
    if (masters) {
      line.push_back(std::string(MasterFormatName(row.row.formats.master)));
    }
    if (cards) line.push_back(row.row.gpu);
    if (ranks) line.push_back(Ranks(row.row));
    if (prices) {
      line.push_back(absl::StrFormat("%.0f", row.DollarsPerBillionTokens()));
    }
    if (placements) line.push_back(Placement(row));
    lines.push_back(std::move(line));
  }
  std::string text = Table(lines);
  absl::StrAppend(
      &text,
      "blocks: kept on the device / by way of the host / made again; =: no "
      "other row is faster without more memory\n",
      others ? "*: other results than with the states that were asked for\n"
             : "");
  if (result.rows.size() > shown) {
    absl::StrAppend(&text, result.rows.size() - shown,
                    " slower ones were planned, too\n");
  }
  if (result.with_less_memory.empty()) return text;
  absl::StrAppend(&text, "row 1 with less device memory:\n");
  lines = {{"device", "host", "step", "tokens/s", "binds", "blocks"}};
  for (const FoundPlan& plan : result.with_less_memory) {
    lines.push_back({FormatBytes(plan.device_peak_bytes),
                     FormatBytes(plan.host_peak_bytes),
                     Seconds(plan.step_seconds),
                     FormatTokensPerSecond(plan.tokens_per_second),
                     Binds(plan.forecast), Blocks(plan.forecast.blocks)});
  }
  return absl::StrCat(text, Table(lines));
}

std::string FormatCommand(const FoundRow& best) {
  const PlanArguments& its = best.plan.candidate.arguments;
  std::vector<std::string> words = {"castor", "plan"};
  const auto add = [&](const std::string& option, const std::string& value) {
    if (value.empty()) return;
    if (!option.empty()) words.push_back(option);
    words.push_back(Quoted(value));
  };
  add("", its.config_path);
  add("--model", its.model);
  add("--gpu", its.machine.gpu);
  add("--ram", its.machine.ram);
  add("--host", its.machine.host);
  add("--machine", its.machine.file);
  if (best.row.nodes > 0) {
    add("--nodes", absl::StrCat(best.row.nodes));
    add("--gpus-per-node", absl::StrCat(best.row.gpus_per_node));
  } else if (its.world_size > 1) {
    add("--world-size", absl::StrCat(its.world_size));
  }
  for (size_t i = 0; i < its.overrides.size(); ++i) {
    const std::string& setting = its.overrides[i];
    // A later setting of the same key counts.
    const std::vector<std::string> later(its.overrides.begin() + i + 1,
                                         its.overrides.end());
    if (!Sets(later, setting.substr(0, setting.find('=')))) {
      add("--set", setting);
    }
  }
  return absl::StrCat("row 1 alone: ", absl::StrJoin(words, " "), "\n");
}

nlohmann::json SearchJson(const SearchResult& result) {
  nlohmann::json json = {{"candidates", result.candidates},
                         {"not_fitting", result.not_fitting},
                         {"too_slow", result.too_slow},
                         {"planned", result.planned},
                         {"not_planned", result.cut},
                         {"rows", nlohmann::json::array()},
                         {"with_less_memory", nlohmann::json::array()}};
  const auto of_plan = [](const FoundPlan& plan) {
    nlohmann::json row = plan.figures;
    row["settings"] = plan.candidate.settings;
    row["chunk_bytes"] = plan.chunk_bytes;
    return row;
  };
  for (const FoundRow& row : result.rows) {
    nlohmann::json& object = json["rows"].emplace_back(of_plan(row.plan));
    object["moments"] = std::string(MomentFormatName(row.row.formats.moments));
    object["master"] = std::string(MasterFormatName(row.row.formats.master));
    object["other_results"] = row.row.other_results;
    object["on_frontier"] = row.on_frontier;
    object["dollars_per_billion_tokens"] =
        row.row.price > 0 ? nlohmann::json(row.DollarsPerBillionTokens())
                          : nlohmann::json();
  }
  for (const FoundPlan& plan : result.with_less_memory) {
    json["with_less_memory"].push_back(of_plan(plan));
  }
  return json;
}

}  // namespace castor::cli
