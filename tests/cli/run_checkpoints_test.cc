// The checkpoint directory of a run as its user sees it: two runs in one, a run
// that goes on from another's, a disk that is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_lock.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/checkpoint/checkpoint_writer.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class RunCheckpointsTest : public CliTest {
 protected:
  RunCheckpointsTest() : config_(SmallConfig()) {
    std::filesystem::create_directory(Path("elsewhere"));
  }

  // A run that ends when it is told to.
  std::unique_ptr<CastorProcess> Start(Json config, int ranks = 0) {
    config["steps"] = 1'000'000;
    WriteConfig(config);
    return std::make_unique<CastorProcess>(
        std::vector<std::string>{"train", "run.json"}, directory(), ranks);
  }
  // Another one of the same configuration, from another directory.
  ProcessResult Beside(std::vector<std::string> args) const {
    args.insert(args.begin(), {"train", "../run.json"});
    return RunCastor(args, Path("elsewhere"));
  }
  bool WaitForError(CastorProcess& process, const std::string& text) const {
    while (kill(process.pid(), 0) == 0) {
      if (ReadFile(Path("stderr.txt")).find(text) != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  // Files of the process grow to `bytes` at most, as on a disk that is full.
  static void LimitFiles(pid_t pid, rlim_t bytes) {
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    ASSERT_EQ(prlimit(pid, RLIMIT_FSIZE, &limit, nullptr), 0);
  }
  static std::string Newest(const ProcessResult& result) {
    const size_t at = result.out.find("  checkpoint ");
    if (at == std::string::npos) return "";
    const size_t begin = result.out.find('/', at);
    return result.out.substr(begin, result.out.find('\n', at) - begin);
  }

  Json config_;
};

// The case in which this was found: the second run has another learning rate
// and so many steps that it took the first one's checkpoints for old ones of
// later steps.
TEST_F(RunCheckpointsTest, SecondRunInADirectoryIsRefused) {
  config_["checkpoint"]["save_interval"] = 1;
  const auto first = Start(config_);
  ASSERT_TRUE(first->WaitForOutput("\nstep 5/"));
  for (std::vector<std::string> args :
       {std::vector<std::string>{}, {"--resume", "latest"}}) {
    args.insert(args.end(),
                {"--set", "steps=1000", "--set", "optimizer.params.lr=0.5"});
    const ProcessResult second = Beside(args);
    ExpectUserError(second);
    EXPECT_THAT(second.err,
                AllOf(HasSubstr("checkpoint.dir: " + Path("out")),
                      HasSubstr("in use by process " +
                                std::to_string(first->pid()) + " on host")));
  }
  EXPECT_FALSE(Exists("out.1"));
  first->Signal(SIGTERM);
  const ProcessResult result = first->Wait();
  ASSERT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_TRUE(std::filesystem::exists(Newest(result))) << result.out;
  // Neither the lock nor anything else stays.
  EXPECT_THAT(List("out"), Each(StartsWith("step-")));
  const ProcessResult later =
      Beside({"--resume", "latest", "--set", "steps=1"});
  EXPECT_EQ(later.exit_code, 0) << later.err;
}

TEST_F(RunCheckpointsTest, LockOfAKilledRunIsTakenOver) {
  const auto first = Start(config_);
  ASSERT_TRUE(first->WaitForOutput("\nstep 3/"));
  first->Signal(SIGKILL);
  first->Wait();
  EXPECT_TRUE(Exists(std::string("out/") + CheckpointLock::kName));
  const ProcessResult again =
      Train(config_, {"--resume", "latest", "--set", "steps=4"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(List("out"), Each(StartsWith("step-")));
}

TEST_F(RunCheckpointsTest, WithoutALockIsTheUsersToWatch) {
  config_["checkpoint"]["lock"] = false;
  const auto first = Start(config_);
  ASSERT_TRUE(first->WaitForOutput("\nstep 3/"));
  EXPECT_FALSE(Exists(std::string("out/") + CheckpointLock::kName));
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait().exit_code, 128 + SIGTERM);
}

TEST_F(RunCheckpointsTest, OfSeveralRanksIsLockedByTheFirst) {
  config_["train_batch_size"] = 4;
  config_.erase("gradient_accumulation_steps");
  const auto first = Start(config_, 2);
  ASSERT_TRUE(first->WaitForOutput("\nstep 3/"));
  const auto pids = first->RankPids();
  ASSERT_EQ(pids.count(0), 1u);
  const ProcessResult second = Beside({"--set", "steps=10"});
  ExpectUserError(second);
  EXPECT_THAT(second.err, HasSubstr("in use by process " +
                                    std::to_string(pids.at(0)) + " on host"));
  kill(pids.at(1), SIGTERM);
  const ProcessResult result = first->Wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_THAT(List("out"), Each(StartsWith("step-")));
}

TEST_F(RunCheckpointsTest, GoesOnWithOtherSettingsOnlyIfItIsTold) {
  ASSERT_EQ(Train(config_).exit_code, 0);
  const std::vector<std::string> changed = {"--set", "steps=7",
                                            "--set", "optimizer.params.lr=0.1",
                                            "--set", "model.resid_pdrop=0.2"};
  std::vector<std::string> args = {"--resume", "latest"};
  args.insert(args.end(), changed.begin(), changed.end());
  const ProcessResult refused = Train(config_, args);
  ExpectUserError(refused);
  for (const char* part :
       {"model.resid_pdrop: 0.1 then, 0.2 now",
        "optimizer.params.lr: 0.001 then, 0.1 now", "--resume-changed"}) {
    EXPECT_THAT(refused.err, HasSubstr(part));
  }
  EXPECT_THAT(refused.err, Not(HasSubstr("steps:")));
  args.push_back("--resume-changed");
  const ProcessResult told = Train(config_, args);
  ASSERT_EQ(told.exit_code, 0) << told.err;
  EXPECT_THAT(told.out,
              HasSubstr("  model.resid_pdrop: 0.1 then, 0.2 now\n"
                        "  optimizer.params.lr: 0.001 then, 0.1 now\n"));
  // It is now the run of these settings.
  args.pop_back();
  EXPECT_EQ(Train(config_, args).exit_code, 0);
}

// Other data, of which the configuration says nothing.
TEST_F(RunCheckpointsTest, TellsAnotherTextFromItsOwn) {
  ASSERT_EQ(Train(config_).exit_code, 0);
  std::string text = SmallText(4000);
  text[100] ^= 1;
  WriteFile(Path("text.txt"), text);
  const ProcessResult refused = Train(config_, {"--resume", "latest"});
  ExpectUserError(refused);
  EXPECT_THAT(refused.err, HasSubstr("data.train: \"4000 tokens, checksum "));
}

// The checkpoint is as those that were written before runs had identities.
TEST_F(RunCheckpointsTest, GoesOnFromACheckpointWithoutIdentity) {
  const Json whole = Summary(config_);
  const std::string path = Path("out/step-00000004.castor");
  {
    const auto reader = CheckpointReader::Open(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    Json metadata = Json::parse((*reader)->metadata());
    EXPECT_EQ(metadata["run"]["id"].get<std::string>().size(), 32u);
    EXPECT_EQ(metadata["run"]["digest"].get<std::string>().size(), 64u);
    metadata.erase("run");
    metadata["config"]["checkpoint"].erase("on_error");
    metadata["config"]["checkpoint"].erase("lock");
    const auto writer = CheckpointWriter::Create(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const CheckpointTensor& tensor : (*reader)->tensors()) {
      std::vector<float> values(tensor.elements);
      ASSERT_TRUE((*reader)
                      ->Read(tensor.name, tensor.kind, 0, tensor.elements,
                             values.data())
                      .ok());
      ASSERT_TRUE((*writer)
                      ->BeginPiece({tensor.name, tensor.kind, 0,
                                    tensor.elements, tensor.elements})
                      .ok());
      ASSERT_TRUE((*writer)->Append(values).ok());
      ASSERT_TRUE((*writer)->EndPiece().ok());
    }
    ASSERT_TRUE((*writer)->Commit(metadata.dump()).ok());
  }
  EXPECT_EQ(Summary(config_, {"--resume", path})["parameters_sha256"],
            whole["parameters_sha256"]);
  const auto reader = CheckpointReader::Open(Path("out/step-00000006.castor"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(Json::parse((*reader)->metadata()).contains("run"));
}

TEST_F(RunCheckpointsTest, StartsAmongPipesAndLinks) {
  std::filesystem::create_directory(Path("out"));
  ASSERT_EQ(mkfifo(Path("out/step-00000002.castor.tmp-1-0").c_str(), 0666), 0);
  std::filesystem::create_symlink("nowhere",
                                  Path("out/step-00000004.castor.tmp-1-0"));
  EXPECT_EQ(Train(config_).exit_code, 0);
}

TEST_F(RunCheckpointsTest, EndsAfterThreeSavesThatFailed) {
  config_["checkpoint"]["save_interval"] = 20;
  config_["checkpoint"]["keep"] = 100;
  const auto run = Start(config_);
  ASSERT_TRUE(run->WaitForOutput("\nstep 25/"));
  LimitFiles(run->pid(), 4096);
  const ProcessResult result = run->Wait();
  EXPECT_EQ(result.exit_code, 2);
  // The run does not wait for the limit, so that a later save than that of step
  // 40 may be the first which meets it.
  const size_t at = result.err.find("castor: step ");
  ASSERT_NE(at, std::string::npos) << result.err;
  const int64_t first = std::stoll(result.err.substr(at + 13));
  EXPECT_EQ(first % 20, 0);
  const auto step = [](int64_t number) {
    return "step " + std::to_string(number) + " is not saved, ";
  };
  EXPECT_THAT(result.err,
              AllOf(HasSubstr(step(first) + "training goes on"),
                    HasSubstr(step(first + 20) + "training goes on"),
                    HasSubstr(step(first + 40) + "nor were the 2 before"),
                    HasSubstr("checkpoint.on_error"), HasSubstr("too large")));
  // Those saved before are whole, and alone.
  std::vector<std::string> saved;
  for (int64_t number = 20; number < first; number += 20) {
    saved.push_back(CheckpointName(number));
  }
  EXPECT_FALSE(saved.empty());
  EXPECT_EQ(List("out"), saved);
}

TEST_F(RunCheckpointsTest, GoesOnWhereItIsToldAndSavesWhenThereIsRoom) {
  config_["checkpoint"]["save_interval"] = 5;
  config_["checkpoint"]["on_error"] = "continue";
  const auto run = Start(config_);
  ASSERT_TRUE(run->WaitForOutput("\nstep 12/"));
  LimitFiles(run->pid(), 4096);
  // Four in a row.
  for (int64_t failed = 0; failed < 4;) {
    ASSERT_TRUE(WaitForError(*run, "is not saved, training goes on"));
    const std::string err = ReadFile(Path("stderr.txt"));
    failed = 0;
    for (size_t at = 0;
         (at = err.find("training goes on", at)) != std::string::npos; ++at) {
      ++failed;
    }
  }
  LimitFiles(run->pid(), RLIM_INFINITY);
  run->Signal(SIGTERM);
  const ProcessResult result = run->Wait();
  ASSERT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  const std::string newest = Newest(result);
  EXPECT_TRUE(std::filesystem::exists(newest)) << result.out;
  // The run goes on as if nothing had happened.
  const int64_t step =
      StepOfCheckpointName(std::filesystem::path(newest).filename().string());
  const auto sha = [&](const std::vector<std::string>& args) {
    Json config = config_;
    config["steps"] = step;
    return Summary(config, args)["parameters_sha256"];
  };
  const Json saved = sha({"--resume", "latest"});
  EXPECT_EQ(saved, sha({"--set", "checkpoint=false"}));
}

// Steps that are not saved at the end are lost: that is a failure.
TEST_F(RunCheckpointsTest, FailsWhenItsEndIsNotSaved) {
  config_["checkpoint"]["on_error"] = "continue";
  config_["checkpoint"]["save_interval"] = 0;
  const auto run = Start(config_);
  ASSERT_TRUE(run->WaitForOutput("\nstep 3/"));
  LimitFiles(run->pid(), 4096);
  run->Signal(SIGTERM);
  const ProcessResult result = run->Wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("too large"));
}

// A file system of its own, where one may be mounted.
class SmallDisk : public RunCheckpointsTest {
 protected:
  bool CanMount() {
    std::filesystem::create_directory(Path("disk"));
    const std::string probe = "cd " + directory() +
                              " && unshare -rm sh -c 'mount -t tmpfs castor "
                              "disk' 2>/dev/null";
    if (std::system(probe.c_str()) == 0) return true;
    std::printf("skipped: no file system can be mounted here\n");
    return false;
  }
  // `meanwhile`: what the shell is to do before it becomes the run.
  ProcessResult TrainOn(const std::string& kilobytes,
                        const std::string& meanwhile = "") const {
    WriteConfig(config_);
    return RunCastor(
        {"train", "run.json"}, directory(), 0,
        "exec unshare -rm sh -c 'mount -t tmpfs -o size=" + kilobytes +
            "k castor disk && { " + meanwhile + "exec \"$@\"; }' sh \"$@\"");
  }
};

TEST_F(SmallDisk, IsRefusedBeforeTheFirstStep) {
  if (!CanMount()) return;
  config_["checkpoint"]["dir"] = "disk/out";
  const ProcessResult small = TrainOn("256");
  ExpectUserError(small);
  EXPECT_THAT(small.err, AllOf(HasSubstr("checkpoint.dir"),
                               HasSubstr("disk/out"), HasSubstr("free")));
  EXPECT_THAT(small.out, Not(HasSubstr("\nstep 1/")));
  const ProcessResult large = TrainOn("16384");
  EXPECT_EQ(large.exit_code, 0) << large.err;
}

// Others fill it meanwhile.
TEST_F(SmallDisk, ThatOthersFillEndsTheRunWithTheReason) {
  if (!CanMount()) return;
  config_["checkpoint"]["dir"] = "disk/out";
  config_["checkpoint"]["save_interval"] = 50;
  config_["steps"] = 1'000'000;
  const ProcessResult result =
      TrainOn("16384",
              "(until grep -q \"^step 2/\" stdout.txt; do sleep 0.01; done; "
              "head -c 100000000 /dev/zero > disk/full) 2>/dev/null & ");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("is not saved, nor were the 2"),
                                HasSubstr("No space left on device")));
}

}  // namespace
}  // namespace castor::testing
