// The power fails at a random moment of a run: what was reported as saved is
// there and goes on to the bits of the undisturbed run. README.md tells how.
//
// CASTOR_POWER_SEED: of the moments and of what was lost (printed).
// CASTOR_POWER_CUTS: how many, over all runs (50).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/test_files.h"
#include "tests/cli/cli_test_base.h"
#include "tests/faults/disk_model.h"
#include "tests/faults/scenario.h"
#include "tests/from_environment.h"

namespace castor::faults {
namespace {

using testing::FromEnvironment;
using testing::SmallText;

// The four tests below take as many parts, in the order of how much they try.
constexpr int64_t kParts = 10;

int64_t Seed() {
  static const int64_t seed = [] {
    const int64_t value =
        FromEnvironment("CASTOR_POWER_SEED", std::random_device()());
    std::printf("CASTOR_POWER_SEED=%ld\n", static_cast<long>(value));
    return value;
  }();
  return seed;
}

// One recorded run and the moments at which something happened to its files.
struct Recording {
  Tree before;
  std::vector<EffectRecord> effects;
  std::vector<size_t> moments;  // numbers of effects that have happened
};

class PowerLoss : public ::testing::Test {
 protected:
  // "" if all is well in `directory`, where the power failed after the first
  // `moment` effects.
  using Check =
      std::function<std::string(const std::string& directory, size_t moment)>;

  std::string Path(absl::string_view name) const {
    return absl::StrCat(directory_.path(), "/", name);
  }
  std::string run_directory() const { return Path("run"); }

  void WriteConfig(const Json& config) const {
    std::filesystem::create_directories(run_directory());
    WriteFile(run_directory() + "/text.txt", SmallText(2000));
    WriteFile(run_directory() + "/run.json", config.dump(2));
  }

  // Records a run from the state of the directory. False: it failed, which is
  // reported.
  bool Record(const std::vector<std::string>& args) {
    recording_ = {};
    recording_.before = Files();
    WatchedResult result = RunWatched(args, run_directory());
    EXPECT_EQ(result.process.exit_code, 0) << result.process.err;
    recording_.effects = std::move(result.effects);
    for (size_t i = 0; i < recording_.effects.size(); ++i) {
      recording_.moments.push_back(i + 1);
    }
    ExpectModelIsRight();
    return !HasFailure();
  }

  std::string Sha256() const {
    return Json::parse(
        ReadFile(run_directory() + "/summary.json"))["parameters_sha256"];
  }

  // `parts` of kParts of all cuts.
  void CutPower(int64_t parts, const Check& check);
  // Cuts power, and expects that the run goes on from what was saved and ends
  // with `sha256`.
  void CutPowerAndResume(int64_t parts, const std::string& sha256) {
    CutPower(parts, [&](const std::string& directory, size_t moment) {
      return JudgeResumed(directory, ReportedSteps(recording_.effects, moment),
                          sha256);
    });
  }

  const Recording& recording() const { return recording_; }

 private:
  // Without what the shell would have made.
  Tree Files() const {
    Tree tree = ReadWholeTree(run_directory());
    tree.erase("stdout.txt");
    tree.erase("stderr.txt");
    return tree;
  }

  // Checks that the log has all that matters: with nothing lost the model has
  // the files that are there. (A trace is written through a mapping and would
  // not be.)
  void ExpectModelIsRight() const {
    DiskModel disk(recording_.before);
    for (const EffectRecord& effect : recording_.effects) disk.Apply(effect);
    const Tree seen = disk.Seen(), real = Files();
    for (const auto& [path, bytes] : real) {
      ASSERT_TRUE(seen.count(path) > 0) << path << " is not in the model";
      EXPECT_TRUE(seen.at(path) == bytes) << path << " is not as in the model";
    }
    for (const auto& [path, bytes] : seen) {
      EXPECT_TRUE(real.count(path) > 0) << path << " is in the model alone";
    }
  }

  TemporaryDirectory directory_;
  Recording recording_;
};

void PowerLoss::CutPower(int64_t parts, const Check& check) {
  const int64_t cuts = std::max<int64_t>(
      1, FromEnvironment("CASTOR_POWER_CUTS", 50) * parts / kParts);
  std::mt19937_64 seeds(Seed());
  std::vector<uint64_t> seed_of(cuts);
  for (uint64_t& seed : seed_of) seed = seeds();
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  int64_t lost_bytes = 0;
  const auto work = [&](int worker) {
    const std::string directory = Path(absl::StrCat("after-", worker));
    for (int64_t i; (i = next++) < cuts;) {
      std::mt19937_64 random(seed_of[i]);
      const size_t moment =
          recording_.moments[random() % recording_.moments.size()];
      DiskModel disk(recording_.before);
      for (size_t e = 0; e < moment; ++e) disk.Apply(recording_.effects[e]);
      constexpr double kShares[] = {0, 0.1, 0.5, 0.9, 1};
      const double share = kShares[random() % std::size(kShares)];
      const Tree tree = disk.AfterPowerCut(share, random);
      WriteTree(tree, directory);
      const std::string wrong = check(directory, moment);
      std::lock_guard<std::mutex> lock(mutex);
      for (const auto& [path, bytes] : disk.Seen()) {
        const auto left = tree.find(path);
        lost_bytes += bytes.size();
        if (left != tree.end()) {
          lost_bytes -= std::min(left->second.size(), bytes.size());
        }
      }
      if (wrong.empty()) continue;
      std::string files;
      for (const auto& [path, bytes] : tree) {
        absl::StrAppend(&files, " ", path, "(", bytes.size(), ")");
      }
      failures.push_back(absl::StrCat(
          "power cut ", i, " of CASTOR_POWER_SEED=", Seed(), ", after ", moment,
          " of ", recording_.effects.size(), " effects, ", share,
          " of the rest kept: ", wrong, "\n  files:", files));
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 0;
       i < 2 * std::max(1u, std::thread::hardware_concurrency()); ++i) {
    workers.emplace_back(work, static_cast<int>(i));
  }
  for (std::thread& worker : workers) worker.join();
  std::printf("%ld power cuts in %zu effects; unsynced, %ld bytes were lost\n",
              static_cast<long>(cuts), recording_.effects.size(),
              static_cast<long>(lost_bytes));
  RecordProperty("power_cuts", static_cast<int>(cuts));
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
}

Json LongerConfig() {
  Json config = TinyConfig();
  config["steps"] = 6;
  config.erase("eval_interval");
  return config;
}

TEST_F(PowerLoss, OfATrainingRun) {
  WriteConfig(LongerConfig());
  ASSERT_TRUE(Record({"train", "run.json", "--summary", "summary.json"}));
  CutPowerAndResume(3, Sha256());
}

TEST_F(PowerLoss, OfAResumedRun) {
  Json config = LongerConfig();
  config["steps"] = 2;
  WriteConfig(config);
  ASSERT_EQ(RunAlone({"train", "run.json"}, run_directory()).process.exit_code,
            0);
  WriteConfig(LongerConfig());
  ASSERT_TRUE(Record({"train", "run.json", "--resume", "latest", "--summary",
                      "summary.json"}));
  CutPowerAndResume(2, Sha256());
}

TEST_F(PowerLoss, OfTwoRanks) {
  WriteConfig(LongerConfig());
  ASSERT_TRUE(Record(
      {"launch", "--nproc", "2", "run.json", "--summary", "summary.json"}));
  CutPowerAndResume(3, Sha256());
}

// Weights and config.json belong together: there is the one export or the
// other, and the new one once that was reported.
TEST_F(PowerLoss, OfAnExportOverAnother) {
  Json config = LongerConfig();
  config["model"]["n_positions"] = 12;  // another config.json, other weights
  config["checkpoint"]["dir"] = "first";
  WriteConfig(config);
  ASSERT_EQ(RunAlone({"train", "run.json"}, run_directory()).process.exit_code,
            0);
  ASSERT_EQ(
      RunAlone({"export", "first", "hf"}, run_directory()).process.exit_code,
      0);
  WriteConfig(LongerConfig());
  ASSERT_EQ(RunAlone({"train", "run.json"}, run_directory()).process.exit_code,
            0);
  const auto old = ReadTree(run_directory() + "/hf");
  ASSERT_TRUE(Record({"export", "out", "hf"}));
  const auto made = ReadTree(run_directory() + "/hf");
  ASSERT_NE(old, made);
  CutPower(2, [&](const std::string& directory, size_t moment) -> std::string {
    auto there = ReadTree(directory + "/hf");
    std::erase_if(there, [](const auto& file) {
      // Temporary files are nobody's, and the lock told that the directory was
      // being written.
      return absl::StrContains(file.first, ".tmp-") || file.first == "lock";
    });
    bool told = false;
    for (size_t i = 0; i < moment; ++i) {
      told |= recording().effects[i].effect == Effect::kOutput;
    }
    if (there == made || (there == old && !told)) return "";
    return told ? "what was reported is not there"
                : "neither the one export is there nor the other";
  });
}

}  // namespace
}  // namespace castor::faults
