#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/test_files.h"
#include "tests/cli/cli_test_base.h"
#include "tests/faults/scenario.h"

namespace castor::faults {
namespace {

using testing::SmallText;

std::vector<std::string> Concat(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void Write(const std::string& directory, const Json& config) {
  WriteFile(absl::StrCat(directory, "/text.txt"), SmallText(2000));
  WriteFile(absl::StrCat(directory, "/run.json"), config.dump(2));
}

// Nothing fails while a scenario is prepared.
void Run(const std::string& directory, const std::vector<std::string>& args) {
  const WatchedResult result = RunAlone(args, directory);
  CASTOR_CHECK(result.process.exit_code == 0);
}

bool HasSummary(const std::string& directory) {
  return std::filesystem::exists(absl::StrCat(directory, "/summary.json"));
}

std::string Sha256(const std::string& directory) {
  return Json::parse(
      ReadFile(absl::StrCat(directory, "/summary.json")))["parameters_sha256"];
}

// `castor train`, or `castor launch`: what it saves is resumed.
class Training : public Scenario {
 public:
  using Change = void (*)(Json& config, const std::string& directory);

  // `change` changes run.json, and prepares what else the run needs.
  Training(std::string name, std::vector<std::string> words, Change change)
      : Scenario(std::move(name),
                 Concat(std::move(words), {"--summary", "summary.json"})),
        change_(change) {}

  void Prepare(const std::string& directory) const override {
    Json config = TinyConfig();
    Write(directory, config);
    if (change_ != nullptr) change_(config, directory);
    Write(directory, config);
  }

  std::string Learn(const WatchedResult& result, const std::string& directory,
                    const std::string&) override {
    if (result.process.exit_code != 0) return result.process.err;
    sha256_ = Sha256(directory);
    return JudgeSaved(result, directory);
  }

  std::string Judge(const WatchedResult& result, const std::string& directory,
                    bool) override {
    if (result.process.exit_code == 0) {
      if (!HasSummary(directory)) return "there is no summary";
      if (Sha256(directory) != sha256_) return "the parameters have other bits";
    }
    return JudgeSaved(result, directory);
  }

 private:
  std::string JudgeSaved(const WatchedResult& result,
                         const std::string& directory) {
    const std::set<int64_t> reported =
        ReportedSteps(result.effects, result.effects.size());
    // Most faults leave the same checkpoints, which need not be tried again.
    const Saved saved = {reported.empty() ? -1 : *reported.rbegin(),
                         ReadTree(directory + "/out")};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (good_.count(saved) > 0) return "";
    }
    const std::string wrong = JudgeResumed(directory, reported, sha256_);
    if (wrong.empty()) {
      std::lock_guard<std::mutex> lock(mutex_);
      good_.insert(saved);
    }
    return wrong;
  }

  // The last step that was reported, and every file.
  using Saved = std::pair<int64_t, std::map<std::string, std::string>>;

  const Change change_;
  std::string sha256_;
  std::mutex mutex_;
  std::set<Saved> good_;
};

// A command that makes files (`out`: one, or a directory of them) of others and
// prints: all of it or nothing.
class Making : public Scenario {
 public:
  using Setup = void (*)(const std::string& directory);

  Making(std::string name, std::vector<std::string> words, std::string out,
         Setup setup)
      : Scenario(std::move(name), std::move(words)),
        out_(std::move(out)),
        setup_(setup) {}

  void Prepare(const std::string& directory) const override {
    Write(directory, TinyConfig());
    setup_(directory);
  }

  std::string Learn(const WatchedResult& result, const std::string& directory,
                    const std::string& prepared) override {
    if (result.process.exit_code != 0) return result.process.err;
    before_ = Made(prepared);
    made_ = Made(directory);
    if (!out_.empty() && made_.empty()) return "it made nothing";
    printed_ = Printed(result, directory);
    return "";
  }

  std::string Judge(const WatchedResult& result, const std::string& directory,
                    bool of_output) override {
    const auto made = Made(directory);
    if (result.process.exit_code == 0) {
      if (made != made_) return "what it made is not what it should be";
      if (Printed(result, directory) != printed_ &&
          !(of_output && !result.process.err.empty())) {
        return "it printed something else";
      }
      return "";
    }
    if (made != made_ && made != before_) {
      return "it ended with an error and left a part";
    }
    const WatchedResult again = RunAlone(args(), directory);
    if (again.process.exit_code != 0) {
      return absl::StrCat("afterwards it does not work: ", again.process.err);
    }
    return Made(directory) == made_ ? "" : "afterwards it makes something else";
  }

 private:
  std::map<std::string, std::string> Made(const std::string& directory) const {
    if (out_.empty()) return {};
    const std::string path = absl::StrCat(directory, "/", out_);
    if (std::filesystem::is_directory(path)) {
      auto files = ReadTree(path);
      // Temporary files are nobody's, and the lock told that the directory was
      // being written: it may not have been possible to remove them.
      std::erase_if(files, [](const auto& file) {
        return absl::StrContains(file.first, ".tmp-") || file.first == "lock";
      });
      return files;
    }
    if (!std::filesystem::exists(path)) return {};
    return {{"", ReadFile(path)}};
  }

  // Without the directory's name.
  static std::string Printed(const WatchedResult& result,
                             const std::string& directory) {
    return absl::StrReplaceAll(result.process.out, {{directory, "."}});
  }

  const std::string out_;
  const Setup setup_;
  std::map<std::string, std::string> before_, made_;
  std::string printed_;
};

// Changes of run.json for Training.

void ResumedFromTokens(Json& config, const std::string& directory) {
  std::string tokens;
  for (const char c : SmallText(2000)) tokens += {c, '\0'};
  WriteFile(directory + "/tokens.bin", tokens);
  config["data"]["train"] = "tokens.bin";
  config["steps"] = 2;
  Write(directory, config);
  Run(directory, {"train", "run.json", "--trace", "run.trace"});
  config["steps"] = 4;
}

void AfterAnother(Json& config, const std::string& directory) {
  config["steps"] = 3;
  Write(directory, config);
  Run(directory, {"train", "run.json"});
  config["steps"] = 4;
}

void Resumed(Json& config, const std::string& directory) {
  config["steps"] = 2;
  Write(directory, config);
  Run(directory, {"launch", "--nproc", "2", "run.json"});
  config["steps"] = 4;
}

void Pretrained(Json& config, const std::string& directory) {
  Run(directory, {"train", "run.json", "--set", "steps=1", "--set",
                  "checkpoint.dir=first"});
  Run(directory, {"export", "first", "hf"});
  config["model"] = {{"pretrained", "hf"}};
  config["data"]["tokenizer"] = "bytes";
}

// The setups of Making.

void Trained(const std::string& directory) {
  Run(directory,
      {"train", "run.json", "--trace", "run.trace", "--trace-steps", "1:4"});
}

void TrainedAndExported(const std::string& directory) {
  Run(directory, {"train", "run.json", "--set", "steps=2"});
  Run(directory, {"export", "out", "hf"});
  Run(directory, {"train", "run.json", "--resume", "latest"});
}

}  // namespace

std::vector<std::unique_ptr<Scenario>> AllScenarios() {
  std::vector<std::unique_ptr<Scenario>> all;
  const auto training = [&](const char* name, std::vector<std::string> words,
                            Training::Change change) {
    all.push_back(std::make_unique<Training>(name, std::move(words), change));
  };
  const auto making = [&](const char* name, std::vector<std::string> words,
                          const char* out, Making::Setup setup) {
    all.push_back(std::make_unique<Making>(name, std::move(words), out, setup));
  };
  training("Train", {"train", "run.json", "--trace", "run.trace"}, nullptr);
  training("TrainResumed",
           {"train", "run.json", "--resume", "latest", "--trace", "run.trace"},
           ResumedFromTokens);
  training("TrainAfterAnother", {"train", "run.json"}, AfterAnother);
  training("TrainPretrained", {"train", "run.json"}, Pretrained);
  training("TrainShown",
           {"train", "run.json", "--dashboard", "0", "--tensorboard", "board"},
           nullptr);
  training("TwoRanks",
           {"launch", "--nproc", "2", "run.json", "--trace", "run.trace"},
           nullptr);
  training("TwoRanksResumed",
           {"launch", "--nproc", "2", "run.json", "--resume", "latest"},
           Resumed);
  making("Export", {"export", "out/step-00000004.castor", "hf"}, "hf", Trained);
  making("ExportOverAnother", {"export", "out", "hf"}, "hf",
         TrainedAndExported);
  making("TraceToPage", {"trace", "export", "run.trace", "page.html"},
         "page.html", Trained);
  making("TraceToPerfetto", {"trace", "export", "run.trace", "perfetto.json"},
         "perfetto.json", Trained);
  making("TraceToTables",
         {"trace", "export", "run.trace", "tables", "--format", "csv"},
         "tables", Trained);
  // The calls of `auto`, whose plans take most of a sweep's time, fail in Train
  // and in Plan.
  making("Replay",
         {"replay", "run.trace", "--sweep", "--policy", "cpu", "--csv",
          "sweep.csv", "--picture", "sweep.svg"},
         "sweep.csv", Trained);
  making("Plan", {"plan", "run.json"}, "", Trained);
  return all;
}

}  // namespace castor::faults
