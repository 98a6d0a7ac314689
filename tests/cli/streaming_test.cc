// Runs whose data are read beside training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Streaming : public CliTest {
 protected:
  // Lines of tokens, of which some are not learned.
  static std::string Lines(int64_t first, int64_t count) {
    std::string lines;
    for (int64_t i = first; i < first + count; ++i) {
      const int64_t a = i * 7 % 100, b = (i * 13 + 5) % 128;
      absl::StrAppend(&lines, "{\"input_ids\": [", a, ", ", b, ", ",
                      (a + b) % 90, i % 3 == 0 ? ", 77, 3, 4" : "",
                      "], \"labels\": [", a, ", ", b, ", -100",
                      i % 3 == 0 ? ", 77, 3, -100" : "", "]}\n");
    }
    return lines;
  }
  // A step has 4 samples.
  static Json Config(const Json& train, int64_t steps, int64_t window = 11) {
    Json config = SmallConfig();
    config["data"] = {{"train", train},
                      {"sequence_length", 16},
                      {"streaming", true},
                      {"shuffle_window", window}};
    config["steps"] = steps;
    config["checkpoint"] = {{"dir", "out"}, {"save_interval", 1}, {"keep", 99}};
    return config;
  }
  static Json OnRanks(Json config) {
    config["train_batch_size"] = 4;
    config.erase("gradient_accumulation_steps");
    return config;
  }
};

TEST_F(Streaming, GoesOnToTheSameBitsOnAnyNumberOfRanks) {
  WriteFile(Path("a.jsonl"), Lines(0, 20));
  WriteFile(Path("b.jsonl"), Lines(50, 9));
  // Records beside a run of tokens, and several passes over them.
  const Json config = Config({"a.jsonl", "b.jsonl", "text.txt"}, 90);
  const ProcessResult result = Train(config, {"--summary", "s.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("data.train: read and tokenised beside training: "
                              "3 files"),
                    HasSubstr("and 1 more read through once: 29 samples"),
                    HasSubstr("waiting for data"), Not(HasSubstr("epoch"))));
  const Json whole = Json::parse(ReadFile(Path("s.json")));
  EXPECT_TRUE(whole.contains("data_wait_seconds"));
  const std::vector<double> losses = whole["losses"];
  for (const int step : {3, 17, 34}) {
    for (const int ranks : {0, 2}) {
      const Json rest = Summary(
          ranks, ranks == 0 ? config : OnRanks(config),
          {"--resume", absl::StrCat("out/step-000000", step < 10 ? "0" : "",
                                    step, ".castor")});
      EXPECT_EQ(rest["parameters_sha256"], whole["parameters_sha256"])
          << step << " on " << ranks;
      EXPECT_EQ(rest["losses"].get<std::vector<double>>(),
                std::vector<double>(losses.begin() + step, losses.end()));
    }
  }
}

TEST_F(Streaming, HasTheBitsOfTheCacheWhereAWindowHoldsAll) {
  Json config = Config("text.txt", 80, 100'000);
  const Json streamed = Summary(config);
  config["data"].erase("streaming");
  config["data"].erase("shuffle_window");
  EXPECT_EQ(Summary(config)["parameters_sha256"],
            streamed["parameters_sha256"]);
}

TEST_F(Streaming, EndsAtAWrongLineWithWhatWasTrainedBefore) {
  const std::string bad = "{\"input_ids\": [1, -2]}\n";
  WriteFile(Path("a.jsonl"), Lines(0, 30) + bad + Lines(30, 30));
  Json config = Config("a.jsonl", 50, 6);
  config["checkpoint"]["save_interval"] = 0;
  for (const int ranks : {0, 2}) {
    const ProcessResult result =
        TrainOnRanks(ranks, ranks == 0 ? config : OnRanks(config));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("data.train: file \""),
                                  HasSubstr("a.jsonl\", line 31: input_ids")));
    // Shuffled by 6, and the line is in the file's only piece.
    EXPECT_THAT(result.out, Not(HasSubstr("step 1/50")));
  }
  // In a later piece of the file.
  const std::string many = Lines(0, 4'000);
  WriteFile(Path("a.jsonl"), many + bad + Lines(30, 30));
  config["data"]["shuffle_window"] = 500;
  config["data"]["shuffle"] = false;
  config["train_micro_batch_size_per_gpu"] = 128;
  std::vector<std::string> saved;
  for (const int ranks : {0, 2}) {
    Json own = config;
    if (ranks > 0) {
      own["train_batch_size"] = 256;
      own.erase("gradient_accumulation_steps");
    }
    const ProcessResult result = TrainOnRanks(ranks, own);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("a.jsonl\", line 4001: input_ids"));
    saved = List("out");
    ASSERT_FALSE(saved.empty());
    EXPECT_THAT(result.out,
                HasSubstr(absl::StrCat("saved ", Path("out/"), saved.back())));
  }
  // Mended, the data are others. The places before stay what they were.
  WriteFile(Path("a.jsonl"), many + Lines(5, 1) + Lines(30, 30));
  ProcessResult result = Train(config, {"--resume", "latest"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("(data.train: \"a stream of 1 file, "));
  config["steps"] = 18;
  result = Train(config, {"--resume", "latest", "--resume-changed", "--summary",
                          "rest.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("begins anew")));
  const Json rest = Json::parse(ReadFile(Path("rest.json")));
  std::filesystem::remove_all(Path("out"));
  const Json whole = Summary(config);
  EXPECT_EQ(rest["parameters_sha256"], whole["parameters_sha256"]);
}

TEST_F(Streaming, RefusesDataThatChanged) {
  WriteFile(Path("a.jsonl"), Lines(0, 40));
  const Json config = Config("a.jsonl", 4);
  Summary(config);
  WriteFile(Path("a.jsonl"), absl::StrReplaceAll(Lines(0, 40), {{"77", "78"}}));
  const ProcessResult result = Train(config, {"--resume", "latest"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("(data.train: \"a stream of 1 file, "));
  // So is another window, which makes another order.
  WriteFile(Path("a.jsonl"), Lines(0, 40));
  ExpectUserError(
      Train(config, {"--resume", "latest", "--set", "data.shuffle_window=12"}));
  EXPECT_EQ(Train(config, {"--resume", "latest", "--set", "steps=5"}).exit_code,
            0);
}

TEST_F(Streaming, NamesItsWaitsInTheTrace) {
  // Nothing is there when the first step begins.
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += Lines(0, 1'000);
  WriteFile(Path("a.jsonl"), lines);
  Json config = Config("a.jsonl", 3, 10);
  config["train_micro_batch_size_per_gpu"] = 512;
  const ProcessResult result =
      Train(config, {"--trace", "t.trace", "--summary", "s.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string trace = ReadFile(Path("t.trace"));
  EXPECT_THAT(trace, HasSubstr("\"host_compute\",\"waits_for_data\"]"));
  EXPECT_THAT(trace, HasSubstr("[\"work\",4,1,"));
  EXPECT_GT(Json::parse(ReadFile(Path("s.json")))["data_wait_seconds"], 0.0);
  ASSERT_EQ(Castor({"trace", "export", "t.trace", "t.json"}).exit_code, 0);
  EXPECT_THAT(ReadFile(Path("t.json")),
              AllOf(HasSubstr("waits for data"), HasSubstr("wait for data")));
  EXPECT_EQ(Castor({"replay", "t.trace"}).exit_code, 0);
}

// They want no samples beside training.
TEST_F(Streaming, LeavesPlansAndEvaluationsAsTheyAre) {
  WriteFile(Path("a.jsonl"), Lines(0, 40));
  const Json config = Config("a.jsonl", 4);
  Summary(config);
  EXPECT_EQ(Castor({"plan", "run.json"}).exit_code, 0);
  const ProcessResult evaluated = Castor(
      {"evaluate", "run.json", "--checkpoint", "out", "--summary", "e.json"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(ReadFile(Path("e.json")))["samples"], 40);
}

}  // namespace
}  // namespace castor::testing
