// Ten configurations of each system, after such as people have published, and
// what becomes of each. A file begins with lines that say so, as comments:
//   = PATH VALUE   Castor's key has this value
//   ! KEY          the key cannot be had; no other is named so
//   + KEY          the user has to add something for this key
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/test_files.h"
#include "cli/import_config/imported_config.h"
#include "cli/import_config/yaml_document.h"
#include "nlohmann/json.hpp"
#include "run/config/foreign/foreign_account.h"

namespace castor::cli {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainerEq;
using ::testing::HasSubstr;

struct Case {
  std::string path;
  std::string text;
  std::vector<std::pair<std::string, Json>> values;
  std::set<std::string> lacking;
  std::vector<std::string> to_add;
};

Case ReadCase(const std::string& path) {
  Case result{.path = path,
              .text = ReadFile(path),
              .values = {},
              .lacking = {},
              .to_add = {}};
  for (absl::string_view line : absl::StrSplit(result.text, '\n')) {
    if (!absl::ConsumePrefix(&line, "// ") &&
        !absl::ConsumePrefix(&line, "# ")) {
      break;
    }
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 2));
    if (words[0] == "=") {
      result.values.emplace_back(words[1], Json::parse(words[2]));
    } else if (words[0] == "!") {
      result.lacking.insert(words[1]);
    } else {
      result.to_add.push_back(words[1]);
    }
  }
  return result;
}

std::vector<Case> CasesIn(const std::string& folder) {
  std::vector<Case> cases;
  for (const auto& entry : std::filesystem::directory_iterator(
           absl::StrCat("cli/import_config/testdata/", folder))) {
    cases.push_back(ReadCase(entry.path().string()));
  }
  EXPECT_EQ(cases.size(), 10u);
  return cases;
}

Json WithoutComments(const std::string& text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/true,
                     /*ignore_comments=*/true);
}

class ImportConfig : public testing::TestWithParam<std::string> {};

TEST_P(ImportConfig, TakesOrNamesEachKeyOfRealConfigurations) {
  for (const Case& each : CasesIn(GetParam())) {
    SCOPED_TRACE(each.path);
    // The keys tell whose it is.
    const auto result =
        ImportConfigs({{.name = each.path, .text = each.text}}, "");
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->text, HasSubstr(absl::StrCat(each.path, " (")));
    std::set<std::string> lacking;
    for (absl::string_view line : result->lacking) {
      ASSERT_TRUE(absl::ConsumePrefix(&line, absl::StrCat(each.path, ": ")));
      const std::vector<std::string> parts =
          absl::StrSplit(line, absl::MaxSplits(": ", 1));
      EXPECT_GT(parts[1].size(), 10u);
      lacking.insert(parts[0]);
    }
    EXPECT_THAT(lacking, ContainerEq(each.lacking));
    // The imported configuration is valid, once there are a model and data.
    EXPECT_TRUE(result->valid.ok() || !lacking.empty()) << result->valid;
    const Json config = WithoutComments(result->text);
    for (const auto& [path, value] : each.values) {
      const Json* found = FindAtPath(config, path);
      ASSERT_NE(found, nullptr) << path << "\n" << result->text;
      EXPECT_EQ(*found, value) << path;
    }
    const size_t add = result->text.find("// Is for you to add:\n");
    for (const std::string& key : each.to_add) {
      EXPECT_NE(result->text.find(absl::StrCat("//   ", key, ": "), add),
                std::string::npos)
          << key << "\n"
          << result->text;
    }
    // No key is lost.
    const bool yaml = !absl::EndsWith(each.path, ".json");
    const Json theirs =
        yaml ? ParseYaml(each.text).value() : WithoutComments(each.text);
    for (const auto& [key, value] : theirs.items()) {
      if (value.is_null() || value.empty()) continue;
      EXPECT_THAT(result->text,
                  AnyOf(HasSubstr(absl::StrCat("//   ", key, ":")),
                        HasSubstr(absl::StrCat("//   ", key, "."))))
          << result->text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, ImportConfig,
                         testing::Values("deepspeed", "transformers", "axolotl",
                                         "llama-factory", "torchtune"));

// The codes of a cell of one of the page's tables.
std::vector<std::string> CodesOf(absl::string_view cell) {
  std::vector<std::string> codes;
  const std::vector<std::string> parts = absl::StrSplit(cell, '`');
  for (size_t i = 1; i < parts.size(); i += 2) codes.push_back(parts[i]);
  return codes;
}

// docs/migration.md has keys of transformers' and Axolotl's files beside ours,
// one or several a row. What is not a row's comes from a file that is whole.
TEST(ImportConfigs, GivesWhatThePageOnMigrationSays) {
  const struct {
    const char *system, *head, *rest;
  } tables[] = {
      {"transformers", "| TrainingArguments | ours |",
       "model_name_or_path: m\ntrain_file: x.jsonl\nmax_steps: 9\n"
       "per_device_train_batch_size: 1\nmax_seq_length: 64\n"
       "output_dir: out\n"},
      {"axolotl", "| Axolotl | ours |",
       "base_model: m\ndatasets: [{path: y.jsonl}]\nsequence_len: 64\n"
       "micro_batch_size: 1\nnum_epochs: 1\noutput_dir: out\n"}};
  const std::string page = ReadFile("docs/migration.md");
  for (const auto& table : tables) {
    size_t at = page.find(table.head);
    ASSERT_NE(at, std::string::npos) << table.head;
    int rows = 0;
    const std::vector<std::string> lines =
        absl::StrSplit(page.substr(at), '\n');
    for (size_t i = 2; i < lines.size() && !lines[i].empty(); ++i) {
      SCOPED_TRACE(lines[i]);
      const std::vector<std::string> cells = absl::StrSplit(lines[i], '|');
      ASSERT_EQ(cells.size(), 4u);
      const std::vector<std::string> theirs = CodesOf(cells[1]);
      if (!absl::StrContains(theirs[0], ": ")) continue;  // a command
      std::string text = absl::StrCat(absl::StrJoin(theirs, "\n"), "\n");
      const auto has = [&](absl::string_view key) {
        return std::any_of(theirs.begin(), theirs.end(), [&](const auto& code) {
          return absl::StartsWith(code, absl::StrCat(key, ":"));
        });
      };
      for (absl::string_view line :
           absl::StrSplit(table.rest, '\n', absl::SkipEmpty())) {
        const std::vector<std::string> parts =
            absl::StrSplit(line, absl::MaxSplits(':', 1));
        const bool steps = parts[0] == "max_steps" || parts[0] == "num_epochs";
        if (has(parts[0]) ||
            (steps && (has("num_train_epochs") || has("max_steps")))) {
          continue;
        }
        absl::StrAppend(&text, line, "\n");
      }
      const auto result =
          ImportConfigs({{.name = "a.yaml", .text = text}}, table.system);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->lacking.empty()) << result->lacking[0];
      EXPECT_TRUE(result->valid.ok()) << result->valid;
      const Json config = WithoutComments(result->text);
      for (const std::string& ours : CodesOf(cells[2])) {
        const Json expected = Json::parse(absl::StrCat("{", ours, "}"));
        for (const auto& [path, value] : expected.items()) {
          const Json* found = FindAtPath(config, path);
          ASSERT_NE(found, nullptr) << path << "\n" << result->text;
          EXPECT_EQ(*found, value) << path;
        }
      }
      ++rows;
    }
    EXPECT_GT(rows, 20) << table.head;
  }
}

TEST(ImportConfigs, MakesOneOfATrainersFileAndDeepSpeeds) {
  const SourceFile axolotl = {
      .name = "a.yml",
      .text =
          "base_model: ./m\ndatasets: [{path: x.txt}]\nlearning_rate: 1e-4\n"
          "micro_batch_size: 2\nsequence_len: 64\nnum_epochs: 2\n"
          "deepspeed: ds.json\nbf16: true\n"};
  const auto together = ImportConfigs(
      {axolotl,
       {.name = "ds.json",
        .text = R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled":
                    "auto"}, "train_micro_batch_size_per_gpu": "auto",
                    "gradient_clipping": 1.0})"}},
      "");
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_TRUE(together->lacking.empty()) << together->lacking[0];
  EXPECT_TRUE(together->valid.ok()) << together->valid;
  const Json config = WithoutComments(together->text);
  EXPECT_EQ(config["num_train_epochs"], 2);
  EXPECT_EQ(config["train_micro_batch_size_per_gpu"], 2);
  EXPECT_EQ(config["bf16"]["enabled"], true);
  EXPECT_FALSE(config.contains("zero_optimization"));
  const auto against = ImportConfigs(
      {axolotl,
       {.name = "ds.json", .text = R"({"zero_optimization": {"stage": 3},
                    "train_micro_batch_size_per_gpu": 16})"}},
      "");
  ASSERT_TRUE(against.ok()) << against.status();
  ASSERT_EQ(against->lacking.size(), 1u);
  EXPECT_THAT(against->lacking[0],
              AllOf(HasSubstr("ds.json: train_micro_batch_size_per_gpu: it "
                              "asks for train_micro_batch_size_per_gpu = 16"),
                    HasSubstr("a.yml: micro_batch_size for 2")));
}

TEST(ImportConfigs, FillsInDefaultsAfterAllFiles) {
  const SourceFile trainer = {.name = "h.json",
                              .text = R"({"num_train_epochs": 2,
                                          "weight_decay": 0.1})"};
  const SourceFile deepspeed = {.name = "ds.json",
                                .text = R"({"zero_optimization": {"stage": 3},
                  "train_micro_batch_size_per_gpu": 4,
                  "optimizer": {"type": "AdamW", "params":
                      {"lr": 0.001, "weight_decay": "auto"}},
                  "scheduler": {"type": "WarmupLR", "params": {}}})"};
  for (const auto& files :
       {std::vector<SourceFile>{trainer, deepspeed}, {deepspeed, trainer}}) {
    const auto result = ImportConfigs(files, "");
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->lacking, testing::IsEmpty());
    EXPECT_TRUE(result->valid.ok()) << result->valid;
    const Json config = WithoutComments(result->text);
    EXPECT_EQ(config["scheduler"]["type"], "WarmupLR");
    EXPECT_EQ(config["train_micro_batch_size_per_gpu"], 4);
    EXPECT_EQ(config["optimizer"]["params"]["lr"], 0.001);
    EXPECT_EQ(config["optimizer"]["params"]["weight_decay"], 0.1);
    EXPECT_EQ(config["gradient_clipping"], 1.0);
  }
}

// The values are those of TRL 1.16's SFTConfig.
TEST(ImportConfigs, KnowsTrlsDefaultsAndWhatItLearns) {
  const auto import = [](const std::string& keys) {
    const auto result = ImportConfigs(
        {{.name = "t.yaml",
          .text = absl::StrCat("model_name_or_path: ./m\n", keys)}},
        "");
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->lacking, testing::IsEmpty());
    EXPECT_TRUE(result->valid.ok()) << result->valid;
    return result->text;
  };
  const Json config = WithoutComments(import("packing: false\n"));
  EXPECT_EQ(config["optimizer"]["params"]["lr"], 2e-5);
  EXPECT_EQ(config["bf16"]["enabled"], true);
  EXPECT_EQ(config["data"]["sequence_length"], 1024);
  EXPECT_EQ(config["data"]["packing"], "none");
  EXPECT_FALSE(config["data"].contains("loss_on"));
  // A null is a length without a limit; fp16 leaves bf16 out.
  const Json other =
      WithoutComments(import("packing: true\nmax_length: null\nfp16: true\n"));
  EXPECT_FALSE(other["data"].contains("sequence_length"));
  EXPECT_FALSE(other["data"].contains("packing"));
  EXPECT_FALSE(other.contains("bf16"));
  EXPECT_EQ(other["fp16"]["enabled"], true);

  const auto learned = [&](const std::string& keys) {
    const Json data = WithoutComments(import(keys))["data"];
    return data.contains("loss_on") ? data["loss_on"].get<std::string>() : "";
  };
  EXPECT_EQ(learned("assistant_only_loss: false\ncompletion_only_loss: null\n"),
            "");
  EXPECT_EQ(learned("assistant_only_loss: false\ncompletion_only_loss: true\n"),
            "completion");
  EXPECT_EQ(learned("assistant_only_loss: true\n"), "assistant");
  EXPECT_EQ(learned("completion_only_loss: false\n"), "all");
  EXPECT_EQ(learned("assistant_only_loss: true\ncompletion_only_loss: false\n"),
            "assistant");
  // Keys that TRL alone has, and one that scripts of transformers have, too.
  EXPECT_EQ(WithoutComments(import(
                "pad_token: x\nloss_type: nll\n"))["optimizer"]["params"]["lr"],
            2e-5);
  EXPECT_EQ(
      WithoutComments(import(
          "max_seq_length: 64\nmax_steps: 3\n"))["optimizer"]["params"]["lr"],
      5e-5);
  EXPECT_THAT(import("max_length: 64\n"),
              HasSubstr("assistant_only_loss (not given): TRL learns all"));
}

TEST(ImportConfigs, EvaluatesAndKeepsWhatTheOthersDo) {
  const auto import = [](const std::string& name, const std::string& keys) {
    const auto result = ImportConfigs({{.name = "h.yaml", .text = keys}}, name);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->valid.ok()) << result->valid;
    return WithoutComments(result->text);
  };
  const std::string evaluates =
      "eval_strategy: steps\neval_steps: 5\nvalidation_file: v.jsonl\n"
      "max_seq_length: 64\nsave_steps: 5\n";
  const Json all = import("transformers", evaluates);
  EXPECT_EQ(all["eval_batches"], 1 << 20);
  EXPECT_EQ(all["checkpoint"]["keep"], 1 << 20);
  EXPECT_EQ(import("transformers",
                   evaluates + "save_total_limit: 3\n")["checkpoint"]["keep"],
            3);
  EXPECT_FALSE(import("transformers", "max_seq_length: 64\nmax_steps: 9\n")
                   .contains("eval_batches"));
  // A text is one run, whatever is said of records.
  EXPECT_FALSE(import("axolotl",
                      "base_model: ./m\nsequence_len: 64\nnum_epochs: 1\n"
                      "micro_batch_size: 1\nlearning_rate: 1e-4\n"
                      "sample_packing: false\n"
                      "datasets: [{path: x.txt, type: completion}]\n")["data"]
                   .contains("packing"));
}

TEST(ImportConfigs, NamesWhatOfAxolotlsDataIsLeftToTheUser) {
  const auto text = [](const std::string& sets) {
    const auto result = ImportConfigs(
        {{.name = "a.yml",
          .text = absl::StrCat("base_model: ./m\nsequence_len: 64\n"
                               "micro_batch_size: 1\ndatasets:\n",
                               sets)}},
        "");
    EXPECT_TRUE(result.ok()) << result.status();
    return result->text;
  };
  EXPECT_THAT(text("- {path: x.jsonl, type: alpaca, split: train, field: q}\n"),
              AllOf(HasSubstr("datasets: field, split: data.keys"),
                    HasSubstr("excess_length_strategy (not given): records of "
                              "more than data.sequence_length tokens are cut"),
                    HasSubstr("\"x.jsonl\": castor's prompt is Stanford's"),
                    HasSubstr("warmup_steps (not given): Axolotl takes 3 %")));
  EXPECT_THAT(text("- {path: x.jsonl, type: {field_output: a}}\n"
                   "warmup_ratio: 0.1\n"),
              AllOf(HasSubstr("records of x.jsonl are of the type {"),
                    testing::Not(HasSubstr("warmup_steps"))));
}

TEST(ImportConfigs, SaysWhatIsNoConfiguration) {
  const auto error = [](const std::string& name, const std::string& text,
                        const std::string& from = "") {
    return std::string(
        ImportConfigs({{.name = name, .text = text}}, from).status().message());
  };
  EXPECT_THAT(error("x.yaml", "a: [1"), HasSubstr("x.yaml: line 1"));
  EXPECT_THAT(error("x.yaml", "a: 1\na: 2\n"),
              HasSubstr("x.yaml: line 2: key \"a\" is there twice"));
  EXPECT_THAT(error("x.yaml", "- 1\n"), HasSubstr("expected keys with values"));
  EXPECT_THAT(error("x", "a: 1\n---\nb: 2\n"), HasSubstr("several documents"));
  EXPECT_THAT(error("x.json", "{"), HasSubstr("x.json: "));
  EXPECT_THAT(error("x.yaml", "colour: red\n"),
              HasSubstr("x.yaml: its keys do not tell whose configuration"));
  EXPECT_THAT(
      error("x.yaml", "seed: 1\n", "megatron"),
      HasSubstr("--from megatron: there are deepspeed, transformers, trl, "
                "axolotl, llama-factory, torchtune"));
  // Aliases of aliases are as long as what they stand for.
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = absl::StrCat("*a", i - 1);
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [", before);
    for (int j = 0; j < 7; ++j) absl::StrAppend(&bomb, ", ", before);
    bomb += "]\n";
  }
  EXPECT_THAT(error("x.yaml", bomb), HasSubstr("deeper or longer"));
}

TEST(ParseYaml, GivesValuesTheTypesThatTheirReadersGiveThem) {
  const auto json = ParseYaml(
      "a: 1e-5\nb: '1'\nc: yes\nd: ~\ne: 0x\nf: 2.0e-5\ng: no\nh: -3\n"
      "i: [1, x]\nj:\n  k: 1.\nl: \"no\"\nm: infinity\n");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->dump(),
            R"({"a":1e-05,"b":"1","c":true,"d":null,"e":"0x","f":2e-05,)"
            R"("g":false,"h":-3,"i":[1,"x"],"j":{"k":1.0},"l":"no",)"
            R"("m":"infinity"})");
  EXPECT_EQ(ParseYaml("")->dump(), "{}");
}

}  // namespace
}  // namespace castor::cli
