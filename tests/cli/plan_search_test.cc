// `castor plan --search`, and what `castor plan` advises: each claim is
// compared with a plan of its subject.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/plan/planned_run.h"
#include "cli/plan/search/candidates.h"
#include "cli/plan/search/search.h"
#include "nlohmann/json.hpp"
#include "run/optim/formats.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A model of two narrow layers on a GPU with a slow bus, which is short of
// memory.
class PlanSearch : public CliTest {
 protected:
  PlanSearch() {
    std::filesystem::create_directory(Path("tiny"));
    WriteFile(Path("tiny/config.json"),
              R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2,
                  "n_positions": 64, "vocab_size": 256})");
    const Json gpu = {{"name", "Mine"},
                      {"compute_capability", 8.9},
                      {"memory", "16GiB"},
                      {"memory_gbps", 500},
                      {"tflops", {{"fp32", 10}, {"bf16", 20}}},
                      {"to_device_gbps", 2},
                      {"from_device_gbps", 2},
                      {"source", "this test"}};
    Json faster = gpu;
    faster["tflops"]["bf16"] = 40;
    faster["to_device_gbps"] = faster["from_device_gbps"] = 10;
    WriteFile(Path("mine.json"),
              Json({{"gpus", {{"mine", gpu}, {"faster", faster}}}}).dump());
  }

  // The search's arguments, but for --search.
  cli::PlanArguments Arguments(const std::vector<std::string>& more) const {
    cli::PlanArguments arguments;
    arguments.model = Path("tiny");
    arguments.machine.gpu = "mine";
    arguments.machine.file = Path("mine.json");
    arguments.overrides = {"train_batch_size=8"};
    arguments.overrides.insert(arguments.overrides.end(), more.begin(),
                               more.end());
    return arguments;
  }
  ProcessResult Plan(std::vector<std::string> args) const {
    args.insert(args.begin(), "plan");
    if (std::find(args.begin(), args.end(), "--gpu") == args.end()) {
      args.insert(args.end(), {"--gpu", "mine"});
    }
    args.insert(args.end(), {"--machine", "mine.json"});
    return Castor(args);
  }
  Json Figures(std::vector<std::string> args, int exit_code = 0) const {
    args.push_back("--json");
    const ProcessResult plan = Plan(args);
    EXPECT_EQ(plan.exit_code, exit_code) << plan.err;
    const Json json = Json::parse(plan.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << plan.out;
    return json;
  }
};

constexpr char kMemory[] = "memory.device_memory=1700KiB";

TEST_F(PlanSearch, GoesOverTheFormatsThatAreNotGiven) {
  const std::string moments = "optimizer.state_format.moments=";
  const std::string master = "optimizer.state_format.master=";
  const auto formats = [&](std::vector<std::string> given) {
    given.insert(given.end(),
                 {"train_batch_size=1", "train_micro_batch_size_per_gpu=1"});
    const auto candidates = cli::CandidatesOf(Arguments(given));
    EXPECT_TRUE(candidates.ok()) << candidates.status();
    std::vector<std::string> names;
    for (const cli::CandidateRow& row : candidates->rows) {
      names.push_back(absl::StrCat(MasterFormatName(row.formats.master), " ",
                                   MomentFormatName(row.formats.moments)));
      EXPECT_EQ(row.other_results, names.size() > 1);
    }
    return names;
  };
  EXPECT_THAT(formats({}), ElementsAre("fp32 fp32", "fp32 bf16", "fp32 int8",
                                       "split int8", "bf16 int8"));
  EXPECT_THAT(formats({master + "fp32"}),
              ElementsAre("fp32 fp32", "fp32 bf16", "fp32 int8"));
  EXPECT_THAT(formats({moments + "int8"}),
              ElementsAre("fp32 int8", "split int8", "bf16 int8"));
  EXPECT_THAT(formats({moments + "bf16"}),
              ElementsAre("fp32 bf16", "split bf16", "bf16 bf16"));
  EXPECT_THAT(formats({master + "split", moments + "int8"}),
              ElementsAre("split int8"));
  EXPECT_THAT(formats({"bf16.enabled=false"}),
              ElementsAre("fp32 fp32", "fp32 bf16", "fp32 int8"));
}

// Whatever is cut, the table has a row with the results that were asked for.
TEST_F(PlanSearch, KeepsTheResultsThatWereAskedFor) {
  const auto candidates = cli::CandidatesOf(
      Arguments({"train_batch_size=64", "train_micro_batch_size_per_gpu=1",
                 "memory.activation_checkpointing=none",
                 "memory.placement_policy=cpu", "memory.chunk_size=65536"}));
  ASSERT_TRUE(candidates.ok()) << candidates.status();
  ASSERT_EQ(candidates->rows.size(), 5u);
  const auto found = cli::SearchCandidates(*candidates, [](const auto&) {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GT(found->cut, 0);
  ASSERT_GT(found->rows.size(), 1u);
  EXPECT_TRUE(std::any_of(
      found->rows.begin(), found->rows.end(),
      [](const cli::FoundRow& row) { return !row.row.other_results; }));
}

// The formats of a search of which one is given: moments, then masters.
class PlanSearchOf : public PlanSearch,
                     public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Formats, PlanSearchOf,
                         ::testing::Values("optimizer.state_format.master=fp32",
                                           "optimizer.state_format."
                                           "moments=int8"));

TEST_P(PlanSearchOf, FindsTheFastestOfAllThatArePlanned) {
  const auto candidates =
      cli::CandidatesOf(Arguments({"train_batch_size=4", kMemory, GetParam()}));
  ASSERT_TRUE(candidates.ok()) << candidates.status();
  ASSERT_EQ(candidates->rows.size(), 3u * 3u);  // micro batches, formats
  const auto found = cli::SearchCandidates(*candidates, [](const auto&) {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->cut, 0);
  EXPECT_EQ(found->planned + found->not_fitting + found->too_slow,
            found->candidates);
  EXPECT_GT(found->not_fitting, 0);

  // The oracle plans every candidate.
  std::vector<double> rows;  // the shortest step of each
  for (const cli::CandidateRow& row : candidates->rows) {
    EXPECT_EQ(row.micro_batch * row.accumulation, 4);
    const auto layout = cli::PlanOf(row.first.arguments, AdmitDepth::kBound);
    std::vector<cli::Candidate> all = {row.first};
    const int64_t chunk_bytes =
        layout.ok() ? 2 * layout->session->trainer().layout().chunk_elements
                    : int64_t{4} << 20;
    for (const auto& other : cli::OthersOf(row, *candidates, chunk_bytes)) {
      all.push_back(other);
    }
    double shortest = std::numeric_limits<double>::infinity();
    for (const cli::Candidate& each : all) {
      const auto bound = cli::PlanOf(each.arguments, AdmitDepth::kBound);
      const auto plan = cli::PlanOf(each.arguments, AdmitDepth::kPlan);
      ASSERT_EQ(bound.ok(), plan.ok());
      if (!plan.ok()) {
        EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
        continue;
      }
      EXPECT_LE(bound->admission().least_step_ns,
                plan->admission().forecast.step_ns);
      shortest = std::min(shortest, plan->StepSeconds());
    }
    if (shortest < std::numeric_limits<double>::infinity()) {
      rows.push_back(shortest);
    }
  }
  std::sort(rows.begin(), rows.end());
  ASSERT_FALSE(found->rows.empty());
  ASSERT_GT(rows.size(), 3u);
  ASSERT_LE(rows.size(), static_cast<size_t>(cli::kShownRows));
  EXPECT_EQ(found->rows.size(), rows.size());
  std::vector<double> steps;
  for (const cli::FoundRow& row : found->rows) {
    steps.push_back(row.plan.step_seconds);
  }
  // A row of the results that were asked for goes first where it is as fast.
  const double first = steps.front();
  std::sort(steps.begin(), steps.end());
  EXPECT_LE(first, steps.front() / (1 - cli::kLeastGain));
  if (found->rows[0].row.other_results) {
    for (const cli::FoundRow& row : found->rows) {
      if (row.row.other_results) continue;
      EXPECT_GT(row.plan.step_seconds, first / (1 - cli::kLeastGain));
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_LT(i, steps.size());
    EXPECT_LE(steps[i], rows[i] / (1 - cli::kLeastGain) + 1e-12) << i;
  }
  for (const cli::FoundRow& row : found->rows) {
    EXPECT_EQ(row.row.other_results,
              row.row.formats != candidates->rows.front().formats);
    // By its definition.
    bool beaten = false;
    for (const cli::FoundRow& other : found->rows) {
      const cli::FoundPlan& a = other.plan;
      const cli::FoundPlan& b = row.plan;
      const bool no_worse = a.step_seconds <= b.step_seconds &&
                            a.device_peak_bytes <= b.device_peak_bytes &&
                            a.host_peak_bytes <= b.host_peak_bytes;
      const bool better = a.step_seconds < b.step_seconds ||
                          a.device_peak_bytes < b.device_peak_bytes ||
                          a.host_peak_bytes < b.host_peak_bytes;
      beaten |= no_worse && better;
    }
    EXPECT_EQ(row.on_frontier, !beaten);
  }
  // Less memory, which is kept to.
  ASSERT_FALSE(found->with_less_memory.empty());
  int64_t peak = found->rows[0].plan.device_peak_bytes;
  for (const cli::FoundPlan& plan : found->with_less_memory) {
    EXPECT_LT(plan.device_peak_bytes, peak);
    peak = plan.device_peak_bytes;
  }
}

// The first row's settings and its written configuration give its figures.
TEST_F(PlanSearch, WritesAConfigurationOfTheFirstRow) {
  const std::vector<std::string> search = {
      "--search", "--model", "./tiny", "--set", "train_batch_size=2",
      "--set",    kMemory,   "--ram",  "1GiB"};
  std::vector<std::string> writes = search;
  writes.insert(writes.end(), {"--write", "best.json"});
  const Json json = Figures(writes);
  const Json& rows = json["search"]["rows"];
  ASSERT_FALSE(rows.empty());
  const Json& best = rows[0];
  std::vector<std::string> flags = {"--model", "./tiny", "--set",
                                    kMemory,   "--ram",  "1GiB"};
  for (const Json& setting : best["settings"]) {
    flags.insert(flags.end(), {"--set", setting.get<std::string>()});
  }
  const Json alone = Figures(flags);
  const Json written =
      Figures({"best.json", "--set", "data.train=text.txt", "--ram", "1GiB"});
  for (const char* const name :
       {"predicted_step_seconds", "predicted_device_peak_bytes",
        "predicted_host_peak_bytes", "binds", "policy", "kept_blocks",
        "offloaded_blocks", "h2d_bytes_per_step",
        "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    EXPECT_EQ(alone[name], best[name]) << name;
    EXPECT_EQ(written[name], best[name]) << name;
    EXPECT_EQ(json[name], best[name]) << name;
  }
  // Always the same.
  EXPECT_EQ(Figures(search)["search"], json["search"]);

  const std::string before = ReadFile(Path("best.json"));
  writes.push_back("--json");
  const ProcessResult again = Plan(writes);
  ExpectUserError(again);
  EXPECT_THAT(again.err, HasSubstr("best.json is there already"));
  EXPECT_EQ(ReadFile(Path("best.json")), before);
}

TEST_F(PlanSearch, ComparesCardsRanksAndPrices) {
  const Json json = Figures(
      {"--search", "--model", "./tiny", "--gpu", "mine,faster", "--price",
       "1,3.5", "--gpus-per-node", "2", "--set", "train_batch_size=4", "--set",
       "train_micro_batch_size_per_gpu=2", "--set", "optimizer.type=AdamW"});
  std::set<std::string> kinds;
  double last = 0;
  for (const Json& row : json["search"]["rows"]) {
    const std::string gpu = row["gpu"];
    const int64_t ranks = row["world_size"];
    kinds.insert(gpu + std::to_string(ranks));
    EXPECT_EQ(row["gradient_accumulation_steps"].get<int64_t>() * ranks, 2);
    EXPECT_EQ(row["moments"], "fp32");
    EXPECT_EQ(row["master"], "fp32");
    EXPECT_FALSE(row["other_results"].get<bool>());
    EXPECT_GE(row["predicted_step_seconds"].get<double>(), last);
    last = row["predicted_step_seconds"];
    // Dollars an hour, of all ranks, for as many hours as 1e9 tokens take.
    const double hours =
        1e9 / row["predicted_tokens_per_second"].get<double>() / 3600;
    EXPECT_NEAR(row["dollars_per_billion_tokens"].get<double>(),
                hours * static_cast<double>(ranks) * (gpu == "mine" ? 1 : 3.5),
                1e-6 * hours);
  }
  EXPECT_EQ(kinds,
            std::set<std::string>({"mine1", "mine2", "faster1", "faster2"}));
}

TEST_F(PlanSearch, PrintsATable) {
  const ProcessResult search = Plan({"--search", "--model", "./tiny", "--set",
                                     "train_batch_size=2", "--set", kMemory});
  ASSERT_EQ(search.exit_code, 0) << search.err;
  EXPECT_THAT(search.out,
              HasSubstr("steps of train_batch_size 2 (--set) samples of "
                        "data.sequence_length 64 (the default) tokens"));
  EXPECT_THAT(search.out, HasSubstr(" candidates: "));
  EXPECT_THAT(search.out, ContainsRegex("\n +1[= ][* ] .* bf16\n"));
  EXPECT_THAT(search.out, ContainsRegex("\n +2[= ][* ] .* split\n"));
  EXPECT_THAT(search.out, HasSubstr("  moments  masters\n"));
  EXPECT_THAT(search.out, HasSubstr("with less device memory:"));
  EXPECT_THAT(search.out, HasSubstr("\nwhat binds: "));
  EXPECT_THAT(search.out, HasSubstr(" --set train_micro_batch_size_per_gpu="));
  EXPECT_THAT(search.err, Not(HasSubstr("\x1b")));
}

TEST_F(PlanSearch, RefusesWhatCannotBeSearched) {
  const auto refused = [&](std::vector<std::string> args,
                           const std::string& why) {
    const ProcessResult plan = Plan(std::move(args));
    ExpectUserError(plan);
    EXPECT_THAT(plan.err, HasSubstr(why));
  };
  refused({"--model", "./tiny", "--write", "best.json"}, "--search");
  refused({"--model", "./tiny", "--gpu", "mine,faster"}, "there is no GPU");
  refused({"--search", "--model", "./tiny", "--gpu", "mine,mine"}, "twice");
  refused({"--search", "--model", "./tiny", "--price", "1,2"},
          "2 prices for 1 of --gpu");
  refused({"--search", "--model", "./tiny", "--price", "free"},
          "is not what an hour of a GPU costs");
  refused({"--search", "--model", "./tiny", "--write", "none/best.json"},
          "--write");
  refused({"--search"}, "CONFIG is required");
  EXPECT_FALSE(Exists("best.json"));
}

TEST_F(PlanSearch, SaysWhatWouldFitWhereNothingDoes) {
  const Json json =
      Figures({"--search", "--model", "./tiny", "--set", "train_batch_size=8",
               "--set", "memory.device_memory=100KiB", "--write", "b.json"},
              2);
  EXPECT_EQ(json["fits"], false);
  EXPECT_THAT(json["error"].get<std::string>(), HasSubstr("none of "));
  EXPECT_FALSE(json["would_fit"].empty());
  EXPECT_FALSE(Exists("b.json"));
}

class PlanAdvice : public PlanSearch {
 protected:
  // Returns a plan's figures with the change's flags: the later setting counts.
  Json With(std::vector<std::string> args, const Json& change,
            int exit_code = 0) const {
    for (const Json& flag : change["flags"]) args.push_back(flag);
    return Figures(args, exit_code);
  }
};

TEST_F(PlanAdvice, NamesTheSmallestChangesThatFit) {
  const std::vector<std::string> args = {
      "--model", "./tiny",
      "--set",   "train_batch_size=8",
      "--set",   "memory.device_memory=1700KiB",
      "--set",   "memory.activation_checkpointing=none"};
  const Json refused = Figures(args, 2);
  std::map<std::string, Json> changes;
  for (const Json& change : refused["would_fit"]) {
    changes[change["change"]] = change;
    EXPECT_EQ(With(args, change)["fits"], true) << change;
  }
  for (const char* const kind :
       {"device_memory", "micro_batch", "sequence_length"}) {
    ASSERT_TRUE(changes.contains(kind)) << kind << refused;
  }
  // A little less of each does not do.
  const auto less = [&](std::vector<std::string> settings) {
    std::vector<std::string> more = args;
    for (std::string& setting : settings) {
      more.insert(more.end(), {"--set", std::move(setting)});
    }
    Figures(more, 2);
  };
  const auto least = refused["smallest_device_budget_bytes"].get<int64_t>();
  EXPECT_THAT(changes["device_memory"]["flags"].dump(),
              HasSubstr(std::to_string(least)));
  less({"memory.device_memory=" + std::to_string(least - 256)});
  const std::string length = changes["sequence_length"]["flags"][1];
  const std::string key = "data.sequence_length=";
  const int64_t tokens = std::stoll(length.substr(key.size()));
  if (tokens + 1 < 64) less({key + std::to_string(tokens + 1)});
  const std::string micro = changes["micro_batch"]["flags"][1];
  const int64_t samples = std::stoll(micro.substr(micro.find('=') + 1));
  less({"train_micro_batch_size_per_gpu=" + std::to_string(2 * samples),
        "gradient_accumulation_steps=" + std::to_string(4 / samples)});

  std::vector<std::string> text = args;
  const ProcessResult said = Plan(text);
  ExpectUserError(said);
  EXPECT_THAT(said.out, HasSubstr("it would fit with any one of these:\n"));
}

TEST_F(PlanAdvice, PlansWhatWouldHelp) {
  const std::vector<std::string> args = {
      "--model", "./tiny",
      "--set",   "train_batch_size=8",
      "--set",   "train_micro_batch_size_per_gpu=2",
      "--set",   kMemory};
  std::vector<std::string> asks = args;
  asks.push_back("--advise");
  const Json plan = Figures(asks);
  const double now = plan["predicted_step_seconds"];
  ASSERT_FALSE(plan["would_help"].empty());
  double last = 0;
  for (const Json& change : plan["would_help"]) {
    const double then = change["predicted_step_seconds"];
    EXPECT_LT(then, 0.99 * now + 1e-12);
    EXPECT_GE(then, last);
    last = then;
    if (change["flags"].empty()) continue;
    EXPECT_EQ(With(args, change)["predicted_step_seconds"], then) << change;
  }
  const ProcessResult said = Plan(asks);
  EXPECT_THAT(said.out, HasSubstr("\nwhat binds: "));
  EXPECT_THAT(said.out,
              HasSubstr("\nwhat would help, each alone, planned again:\n"));
  // Without being asked it is not planned.
  EXPECT_FALSE(Figures(args).contains("would_help"));
}

}  // namespace
}  // namespace castor::testing
