// Tests outputs that take nothing more: a run goes on without its progress and
// what follows it; a file that was asked for fails with a clear error, and
// leaves the former one. (Checkpoints and traces have tests of their own.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class OutputTest : public CliTest {
 protected:
  // Trains with standard streams as `setup`, shell commands, leaves them.
  ProcessResult TrainAfter(const std::string& setup) const {
    WriteConfig(SmallConfig());
    return RunCastor({"train", "run.json", "--summary", "summary.json"},
                     directory(), /*ranks=*/0, setup + "; exec \"$@\"");
  }
  // Expects what an undisturbed run leaves, and the paths of its checkpoints.
  void ExpectTrained() const {
    const Json summary = Json::parse(ReadFile(Path("summary.json")));
    const std::vector<std::string> saved = List("out");
    EXPECT_FALSE(saved.empty());
    EXPECT_EQ(summary["steps"], 6);
    std::filesystem::remove_all(Path("out"));
    EXPECT_EQ(summary["parameters_sha256"],
              Summary(SmallConfig())["parameters_sha256"]);
    EXPECT_EQ(List("out"), saved);
  }
};

// A pipe whose reader has gone.
constexpr char kBrokenPipe[] = "mkfifo pipe; : < pipe & exec > pipe; wait";

TEST_F(OutputTest, TrainingGoesOnWhenNobodyReadsAndSaysSoOnce) {
  const ProcessResult result = TrainAfter(kBrokenPipe);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, MatchesRegex("castor: standard output cannot be "
                                       "written: Broken pipe;[^\n]*\n"));
  ExpectTrained();
}

TEST_F(OutputTest, TrainingGoesOnWhenTheDiskOfItsOutputIsFull) {
  const ProcessResult result = TrainAfter("exec > /dev/full");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, MatchesRegex("castor: standard output cannot be "
                                       "written: No space left[^\n]*\n"));
  ExpectTrained();
}

// No file may get a standard stream's number: it would take what is printed.
TEST_F(OutputTest, TrainingGoesOnWhereStandardStreamsAreClosed) {
  const ProcessResult result = TrainAfter("exec <&- >&- 2>&-");
  EXPECT_EQ(result.exit_code, 0);
  ExpectTrained();
  const ProcessResult told = TrainAfter("exec >&-");
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_THAT(told.err, HasSubstr("standard output cannot be written"));
  ExpectTrained();
}

// Several ranks share one standard error, where pieces of lines would get
// mixed.
TEST_F(OutputTest, ALineOfStandardErrorIsWrittenInOnePiece) {
  int ends[2];  // each write to it is a message of its own
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  const std::string name(240, 'x');
  const ProcessResult result =
      RunCastor({"train", name}, directory(), /*ranks=*/0,
                absl::StrCat("exec \"$@\" 2>&", ends[1]));
  EXPECT_EQ(result.exit_code, 2);
  char message[4096];
  const ssize_t size = recv(ends[0], message, sizeof(message), MSG_DONTWAIT);
  ASSERT_GT(size, 0);
  EXPECT_THAT(std::string(message, size),
              MatchesRegex("castor: .*" + name + "[^\n]*\n"));
  EXPECT_EQ(recv(ends[0], message, sizeof(message), MSG_DONTWAIT), -1);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(OutputTest, CommandWhoseResultIsPrintedFailsWhereThatIsLost) {
  WriteConfig(SmallConfig());
  const ProcessResult result =
      RunCastor({"plan", "run.json"}, directory(), /*ranks=*/0,
                "exec > /dev/full; exec \"$@\"");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, MatchesRegex("castor: standard output cannot be "
                                       "written: No space left[^\n]*\n"));
}

// Makes the disk look full to this process alone: no file grows beyond 512
// bytes.
constexpr char kFullDisk[] = "exec > /dev/null; ulimit -f 1; exec \"$@\"";

TEST_F(OutputTest, SummaryThatCannotBeWrittenIsToldAndTheOldOneStays) {
  Json config = SmallConfig();
  config["checkpoint"] = false;
  WriteConfig(config);
  WriteFile(Path("summary.json"), "{}");
  const ProcessResult result =
      RunCastor({"train", "run.json", "--summary", "summary.json"}, directory(),
                /*ranks=*/0, kFullDisk);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, MatchesRegex("castor: [^\n]*summary.json[^\n]*"
                                       "File too large[^\n]*\n"));
  EXPECT_EQ(ReadFile(Path("summary.json")), "{}");
}

TEST_F(OutputTest, TrainingGoesOnWithoutTensorBoardWhereItsDiskIsFull) {
  Json config = SmallConfig();
  config["checkpoint"] = false;
  config["steps"] = 30;
  WriteConfig(config);
  const ProcessResult result =
      RunCastor({"train", "run.json", "--tensorboard", "events"}, directory(),
                /*ranks=*/0, kFullDisk);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              MatchesRegex("castor: --tensorboard: [^\n]*File too large; the "
                           "run goes on without\n"));
}

TEST_F(OutputTest, ExportThatCannotBeWrittenIsToldAndTheOldOneStays) {
  Train(SmallConfig(), {"--trace", "run.trace"});
  for (const std::string format : {"html", "perfetto", "csv"}) {
    const std::string out = "out." + format;
    const std::string kept = format == "csv" ? out + "/operators.csv" : out;
    if (format == "csv") std::filesystem::create_directory(Path(out));
    WriteFile(Path(kept), "before");
    const ProcessResult result = RunCastor(
        {"trace", "export", "run.trace", out, "--format", format}, directory(),
        /*ranks=*/0, kFullDisk);
    EXPECT_NE(result.exit_code, 0) << format;
    EXPECT_THAT(result.err, MatchesRegex("castor: [^\n]*" + out +
                                         "[^\n]*File too large[^\n]*\n"))
        << format;
    EXPECT_EQ(ReadFile(Path(kept)), "before") << format;
  }
}

// An export that fails leaves neither directories that it made nor some of
// their tables.
TEST_F(OutputTest, TablesThatCannotBeWrittenLeaveNoDirectory) {
  Train(SmallConfig(), {"--trace", "run.trace"});
  std::filesystem::create_directory(Path("there"));
  for (const std::string out : {"new", "there/new/er"}) {
    const ProcessResult result = RunCastor(
        {"trace", "export", "run.trace", out, "--format", "csv"}, directory(),
        /*ranks=*/0, kFullDisk);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, MatchesRegex("castor: [^\n]*" + out +
                                         "[^\n]*File too large[^\n]*\n"));
  }
  EXPECT_FALSE(Exists("new"));
  EXPECT_THAT(List("there"), IsEmpty());
}

// Parses what a run writes to standard error, a JSON object a line.
std::vector<Json> Objects(const std::string& lines) {
  std::vector<Json> objects;
  for (const absl::string_view line :
       absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    objects.push_back(Json::parse(line));
  }
  return objects;
}

void ExpectErrors(const ProcessResult& result, size_t errors,
                  const std::string& says) {
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  const std::vector<Json> objects = Objects(result.err);
  ASSERT_EQ(objects.size(), errors) << result.err;
  EXPECT_EQ(objects[0].size(), 5);
  for (const Json& object : objects) {
    EXPECT_EQ(object["level"], "error");
    EXPECT_EQ(object["program"], "castor");
    EXPECT_EQ(object["exit_status"], 2);
    EXPECT_EQ(object["code"], "INVALID_ARGUMENT");
  }
  EXPECT_THAT(objects[0]["message"].get<std::string>(), HasSubstr(says));
}

TEST_F(OutputTest, JsonErrorsMakesObjectsOfEveryCommandsErrors) {
  Json config = SmallConfig();
  config["stepz"] = 3;
  config["optimizer"]["typo"] = "x";
  WriteConfig(config);
  const std::string option = "--json-errors";
  ExpectErrors(Castor({option, "train", "run.json"}), 2, "run.json: ");
  ExpectErrors(Castor({"plan", "run.json", option}), 2, "run.json: ");
  ExpectErrors(Castor({"info", "--so", option}), 1, "--so");
  ExpectErrors(Castor({option}), 1, "a subcommand is needed");
  // The launcher's own, and a rank's, which is told once.
  ExpectErrors(Castor({"launch", "run.json", option}), 1, "--nproc");
  ExpectErrors(Castor({"launch", option, "--nproc", "2", "run.json"}), 2,
               "run.json: ");
}

TEST_F(OutputTest, JsonErrorsMakesAnObjectOfANote) {
  WriteConfig(SmallConfig());
  const ProcessResult result =
      RunCastor({"train", "run.json", "--json-errors", "--set", "steps=1"},
                directory(), /*ranks=*/0, "exec > /dev/full; exec \"$@\"");
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<Json> objects = Objects(result.err);
  ASSERT_EQ(objects.size(), 1) << result.err;
  EXPECT_EQ(objects[0]["level"], "note");
  EXPECT_THAT(objects[0]["message"].get<std::string>(),
              HasSubstr("standard output cannot be written"));
  EXPECT_EQ(objects[0].size(), 3);
}

}  // namespace
}  // namespace castor::testing
