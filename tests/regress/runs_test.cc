// Tests how a run starts and what it leaves: checkpoints that nobody asked for
// and everybody expects, checks before anything is spent, the learning rate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/test_files.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Runs : public CliTest {
 protected:
  Runs() {
    config_.erase("checkpoint");
    config_["steps"] = 3;
  }
  // Returns the SHA-256 with which a whole run of as many steps ends.
  std::string Sha(int64_t steps) {
    Json config = config_;
    config["checkpoint"] = false;
    config["steps"] = steps;
    return Summary(config)["parameters_sha256"];
  }

  Json config_ = SmallConfig();
};

// Reported: a run of two days without checkpoint.dir trained to its end, exited
// with 0, and left nothing.
TEST_F(Runs, SaveBesideTheConfigurationWhereItDoesNotSay) {
  const ProcessResult result = Train(config_);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(List("run.castor"), ElementsAre("step-00000003.castor"));
  const size_t told =
      result.out.find("checkpoints: " + Path("run.castor") + ", at the end");
  EXPECT_LT(told, result.out.find("\nstep 1/")) << result.out;

  // Every command that takes a directory of checkpoints takes this one.
  EXPECT_EQ(
      Castor({"evaluate", "run.json", "--checkpoint", "latest"}).exit_code, 0);
  EXPECT_EQ(Castor({"export", "run.castor", "hf"}).exit_code, 0);
  EXPECT_EQ(Castor({"generate", "run.castor", "--prompt", "the",
                    "--max-new-tokens", "2"})
                .exit_code,
            0);
  config_["steps"] = 5;
  EXPECT_EQ(Summary(config_, {"--resume", "latest"})["parameters_sha256"],
            Sha(5));
}

TEST_F(Runs, AreCalledAsTheirConfigurationIs) {
  for (const auto& [config, directory] : {std::pair("a.b.json", "a.b.castor"),
                                          std::pair("c.conf", "c.conf.castor"),
                                          std::pair("sub/d", "sub/d.castor")}) {
    std::filesystem::create_directory(Path("sub"));
    config_["data"]["train"] = Path("text.txt");
    WriteFile(Path(config), config_.dump());
    const ProcessResult result = Castor({"train", config});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(List(directory), ElementsAre("step-00000003.castor"));
  }
}

TEST_F(Runs, SaveNothingWhereNothingIsWanted) {
  config_["checkpoint"] = false;
  const ProcessResult result = Train(config_);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("checkpoints: none"));
  EXPECT_FALSE(Exists("run.castor"));
  // --set gives the section keys again.
  ASSERT_EQ(Train(config_, {"--set", "checkpoint.dir=out"}).exit_code, 0);
  EXPECT_THAT(List("out"), ElementsAre("step-00000003.castor"));
}

// A default that cannot be had is no reason to train for nothing: the message
// says what to write for a run that wants none.
TEST_F(Runs, AreRefusedWhereTheDefaultCannotBeHad) {
  const auto refused = [&](const ProcessResult& result) {
    ExpectUserError(result);
    EXPECT_THAT(result.err, AllOf(HasSubstr("run.castor"),
                                  HasSubstr("\"checkpoint\": false")));
    EXPECT_THAT(result.out, Not(HasSubstr("\nstep 1/")));
  };
  WriteFile(Path("run.castor"), "of somebody");
  refused(Train(config_));
  refused(Castor({"plan", "run.json"}));
  EXPECT_EQ(ReadFile(Path("run.castor")), "of somebody");
  std::filesystem::remove(Path("run.castor"));
  std::filesystem::create_symlink("nowhere/at/all", Path("run.castor"));
  refused(Castor({"plan", "run.json"}));
  std::filesystem::remove(Path("run.castor"));

  config_["steps"] = 1'000'000;
  WriteConfig(config_);
  std::filesystem::create_directory(Path("other"));
  CastorProcess first({"train", "run.json"}, directory());
  ASSERT_TRUE(first.WaitForOutput("\nstep 2/"));
  // Its outputs are not the first one's.
  refused(RunCastor({"train", Path("run.json")}, Path("other")));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait().exit_code, 128 + SIGTERM);
}

TEST_F(Runs, AreRefusedWhereTheDefaultHasNoRoom) {
  std::filesystem::create_directory(Path("disk"));
  const std::string mount = "mount -t tmpfs -o size=128k castor disk && ";
  if (std::system(("cd " + directory() + " && unshare -rm sh -c '" + mount +
                   "true' 2>/dev/null")
                      .c_str()) != 0) {
    std::printf("skipped: no file system can be mounted here\n");
    return;
  }
  config_["data"]["train"] = Path("text.txt");
  WriteConfig(config_);
  const ProcessResult result =
      RunCastor({"train", "disk/run.json"}, directory(), 0,
                "exec unshare -rm sh -c '" + mount +
                    "cp run.json disk && exec \"$@\"' sh \"$@\"");
  ExpectUserError(result);
  EXPECT_THAT(result.err, AllOf(HasSubstr("free"), HasSubstr("disk/run.castor"),
                                HasSubstr("\"checkpoint\": false")));
}

// A second start is most often a mistake: what was there is all still there.
TEST_F(Runs, ThatStartAgainLoseNothingAndSayWhereItIs) {
  std::vector<std::string> earlier;
  for (int i = 1; i <= 3; ++i) {
    config_["seed"] = i;
    const ProcessResult result = Train(config_);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::regex told(
        "checkpoints of an earlier run moved to \\S+/run."
        "castor." +
        std::to_string(i - 1) + R"( \([0-9.]+ [KM]iB\))");
    EXPECT_EQ(std::regex_search(result.out, told), i > 1) << result.out;
    earlier.push_back(ReadFile(Path("run.castor/step-00000003.castor")));
  }
  EXPECT_EQ(ReadFile(Path("run.castor.1/step-00000003.castor")), earlier[0]);
  EXPECT_EQ(ReadFile(Path("run.castor.2/step-00000003.castor")), earlier[1]);
  // An aside directory is one that a run may go on in, and then stays.
  ASSERT_EQ(Train(config_, {"--set", "checkpoint.dir=run.castor.1", "--set",
                            "seed=1", "--set", "steps=4", "--resume", "latest"})
                .exit_code,
            0);
  const ProcessResult last =
      Train(config_, {"--set", "checkpoint.keep_aside=1"});
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_THAT(last.out,
              AllOf(HasSubstr("moved to " + Path("run.castor.3")),
                    HasSubstr("removed " + Path("run.castor.2") + " ("),
                    HasSubstr("keep_aside")));
  EXPECT_FALSE(Exists("run.castor.2"));
  EXPECT_EQ(ReadFile(Path("run.castor.3/step-00000003.castor")), earlier[2]);
  EXPECT_TRUE(Exists("run.castor.1/step-00000004.castor"));
}

// Reported, of schedulers that start a job again with the same command: the
// first start has nothing to resume from, and failed.
TEST_F(Runs, ResumeByThemselvesOrBegin) {
  config_["checkpoint"] = {{"save_interval", 1}, {"keep", 3}};
  WriteConfig(config_);
  const ProcessResult first = Train(config_, {"--resume", "auto"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("the run begins"));
  config_["steps"] = 5;
  const ProcessResult second = Train(config_, {"--resume", "auto"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("at step 3"));
  // The newest that is whole.
  std::string newest = ReadFile(Path("run.castor/step-00000005.castor"));
  newest[newest.size() / 2] ^= 1;
  WriteFile(Path("run.castor/step-00000005.castor"), newest);
  config_["steps"] = 6;
  const Json third = Summary(config_, {"--resume", "auto"});
  EXPECT_EQ(third["losses"].size(), 2u);
  EXPECT_EQ(third["parameters_sha256"], Sha(6));
}

TEST_F(Runs, BeginWhereNoCheckpointIsWholeAndLoseNone) {
  ASSERT_EQ(Train(config_).exit_code, 0);
  const std::string path = Path("run.castor/step-00000003.castor");
  std::string damaged = ReadFile(path);
  damaged[damaged.size() / 2] ^= 1;
  WriteFile(path, damaged);
  const Json again = Summary(config_, {"--resume", "auto"});
  EXPECT_EQ(again["losses"].size(), 3u);
  EXPECT_EQ(ReadFile(Path("run.castor.1/step-00000003.castor")), damaged);
}

// Reported: hours of tokenising, and then that the directory for checkpoints
// cannot be made. Errors of the data come last here.
TEST_F(Runs, LookAtTheCheapBeforeTheyReadData) {
  WriteFile(Path("text.jsonl"), "{\"text\": 1}\n");
  config_["data"]["train"] = "text.jsonl";
  const auto refused = [&](const std::vector<std::string>& args,
                           const std::string& why) {
    const ProcessResult result = Train(config_, args);
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({}, "text.jsonl");
  EXPECT_FALSE(Exists("run.castor"));  // what a refused run made is gone
  refused({"--set", "checkpoint.dir=text.txt/out"}, "checkpoint.dir: ");
  refused({"--resume", "none.castor"}, "none.castor");
  refused({"--resume", "latest"}, "no checkpoint in " + Path("run.castor"));
  WriteConfig(config_);
  const ProcessResult planned =
      Castor({"plan", "run.json", "--set", "checkpoint.dir=text.txt/out"});
  ExpectUserError(planned);
  EXPECT_THAT(planned.err, HasSubstr("checkpoint.dir: "));
}

// Multiplies the values of an fp32 tensor in a file of safetensors: 8 bytes
// with the header's size, the header in JSON, the tensors.
void Scale(const std::string& path, const std::string& name, float factor) {
  std::string bytes = ReadFile(path);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  const Json header = Json::parse(bytes.substr(sizeof(size), size));
  const Json& offsets = header[name]["data_offsets"];
  char* const data = bytes.data() + sizeof(size) + size;
  for (uint64_t at = offsets[0]; at < offsets[1]; at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, data + at, sizeof(value));
    value *= factor;
    std::memcpy(data + at, &value, sizeof(value));
  }
  WriteFile(path, bytes);
}

// Reported: a run went on for a day with states that were no numbers while its
// loss was one, and said so at its end, when nothing could be saved. Here a
// head of some 1e23 gives a finite loss and gradients whose squares, some 1e46,
// are beyond fp32's range: the second moment is infinite from the first step
// on, and what is divided by its root does not move.
TEST_F(Runs, TellAtOnceThatNothingCanBeSavedAnyMore) {
  config_["model"]["tie_word_embeddings"] = false;
  config_.erase("gradient_clipping");
  ASSERT_EQ(Train(config_).exit_code, 0);
  ASSERT_EQ(Castor({"export", "run.castor", "hf"}).exit_code, 0);
  Scale(Path("hf/model.safetensors"), "lm_head.weight", 1e25f);
  config_["model"] = {{"pretrained", "hf"}, {"frozen", {"lm_head.*"}}};
  config_["data"]["tokenizer"] = "bytes";
  config_["checkpoint"] = {{"dir", "out"}};
  config_["steps"] = 100'000;
  for (const char* type : {"AdamW", "Adam", "Lamb"}) {
    for (const std::string policy : {"cpu", "cuda"}) {
      config_["optimizer"]["type"] = type;
      const ProcessResult result =
          Train(config_, {"--summary", "summary.json", "--set",
                          "memory.placement_policy=" + policy});
      ExpectFailure(result);
      EXPECT_THAT(result.err,
                  AllOf(HasSubstr("castor: after step 1, transformer."),
                        HasSubstr(" holds inf, so that no checkpoint")));
      const Json summary = Json::parse(ReadFile(Path("summary.json")));
      EXPECT_EQ(summary["ended"], "failed");
      EXPECT_EQ(summary["steps"], 1);
      EXPECT_THAT(List("out"), ::testing::IsEmpty());
    }
  }
}

// The rates that the lines of progress show, by step.
std::vector<double> RatesOf(const std::string& out) {
  std::vector<double> rates;
  const std::regex line(R"(\nstep \d+/\d+  loss \S+  lr (\S+) )");
  for (std::sregex_iterator at(out.begin(), out.end(), line), end; at != end;
       ++at) {
    rates.push_back(std::stod((*at)[1]));
  }
  return rates;
}

// Reported: a cosine schedule with its default warm-up of 1000 steps in a run
// of 20. The rate ended at 43% of what was asked for and never fell, and
// nothing said so: ln(20) / ln(1000) = 0.4337.
TEST_F(Runs, SayWhereTheWarmUpIsLongerThanTheyAre) {
  config_["steps"] = 20;
  config_["scheduler"] = {{"type", "WarmupCosineLR"}};
  config_["optimizer"]["params"]["lr"] = 1e-3;
  const ProcessResult result = Train(config_);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("note: scheduler.params.warmup_num_steps: "),
                    HasSubstr("1000 steps"), HasSubstr("0.000434")));
  const std::vector<double> rates = RatesOf(result.out);
  ASSERT_EQ(rates.size(), 20u) << result.out;
  EXPECT_EQ(rates.front(), 0);
  EXPECT_NEAR(rates.back(), 0.4337e-3, 1e-6);
}

TEST_F(Runs, SayWhereTheScheduleEndsElsewhere) {
  config_["scheduler"] = {
      {"type", "WarmupDecayLR"},
      {"params", {{"warmup_num_steps", 0}, {"total_num_steps", 6}}}};
  // lr (N - i) / N with N = 6 and i = 2 at step 3.
  const ProcessResult longer = Train(config_);
  EXPECT_THAT(longer.out,
              AllOf(HasSubstr("total_num_steps: the schedule ends at step 6"),
                    HasSubstr("0.000667")));
  config_["scheduler"]["params"]["total_num_steps"] = 2;
  EXPECT_THAT(Train(config_).out, HasSubstr("stays at 0"));
  config_["scheduler"]["params"]["total_num_steps"] = 3;
  EXPECT_THAT(Train(config_).out, Not(HasSubstr("note: scheduler")));
}

// Reported: trained weights that the default of 1e-3, for new ones, destroyed
// in a few steps.
TEST_F(Runs, TrainPretrainedWeightsGentlyByDefault) {
  config_["optimizer"]["params"].erase("lr");
  config_.erase("scheduler");
  const ProcessResult fresh = Train(config_);
  ASSERT_EQ(fresh.exit_code, 0) << fresh.err;
  EXPECT_EQ(RatesOf(fresh.out), std::vector<double>(3, 1e-3));
  EXPECT_THAT(fresh.out, Not(HasSubstr("optimizer.params.lr is not given")));
  ASSERT_EQ(Castor({"export", "run.castor", "hf"}).exit_code, 0);
  config_["model"] = {{"pretrained", "hf"}};
  config_["data"]["tokenizer"] = "bytes";
  const ProcessResult tuned = Train(config_);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_EQ(RatesOf(tuned.out), std::vector<double>(3, 2e-5));
  EXPECT_THAT(tuned.out, HasSubstr("note: optimizer.params.lr is not given"));
  config_["model"] = {{"from_config", "hf"}};
  EXPECT_EQ(RatesOf(Train(config_).out), std::vector<double>(3, 1e-3));
}

}  // namespace
}  // namespace castor::testing
