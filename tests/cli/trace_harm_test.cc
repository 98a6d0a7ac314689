// Tests harm to a trace's file while its run goes on: the run ends as it would
// have, says so once, and what was recorded can be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/cli/cli_test_base.h"
#include "tracer/trace_file.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TraceHarm : public CliTest {
 protected:
  static Json Endless() {
    Json config = SmallConfig();
    config["steps"] = 1'000'000;
    config["checkpoint"] = false;
    return config;
  }

  // One line that says where recording ended, and why.
  static void ExpectToldOnce(const ProcessResult& result,
                             const std::string& why) {
    EXPECT_THAT(result.err,
                AllOf(StartsWith("castor: the trace is not complete: "),
                      HasSubstr(why), HasSubstr("training goes on\n")));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
};

// `> run.trace` cuts a file like this, and so does copytruncate of logrotate.
TEST_F(TraceHarm, ARunWhoseTraceIsCutGoesOn) {
  WriteConfig(Endless());
  for (const int64_t left : {0, 100, 5000}) {
    CastorProcess process({"train", "run.json", "--trace", "run.trace",
                           "--trace-steps", "1:1000000"},
                          directory());
    ASSERT_TRUE(process.WaitForOutput("\nstep 20/"));
    ASSERT_EQ(truncate(Path("run.trace").c_str(), left), 0);
    ASSERT_TRUE(process.WaitForOutput("\nstep 300/"));
    process.Signal(SIGTERM);
    const ProcessResult result = process.Wait();
    EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
    ExpectToldOnce(result, "was cut or written to by somebody else");
    EXPECT_EQ(std::filesystem::file_size(Path("run.trace")),
              static_cast<uintmax_t>(left));
  }
}

// Each run has its own trace, and the later one has the name.
TEST_F(TraceHarm, TwoRunsWithOneTraceKeepBoth) {
  WriteConfig(Endless());
  TemporaryDirectory elsewhere;  // of the first one's outputs
  CastorProcess first({"train", Path("run.json"), "--trace", Path("run.trace")},
                      elsewhere.path());
  ASSERT_TRUE(first.WaitForOutput("\nstep 5/"));
  Json config = Endless();
  config["steps"] = 3;
  const ProcessResult second = Train(config, {"--trace", "run.trace"});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.err, "");
  const auto short_one = ReadTraceFile(Path("run.trace"));
  ASSERT_TRUE(short_one.ok()) << short_one.status();
  EXPECT_EQ(short_one->results.size(), 3u);
  first.Signal(SIGTERM);
  const ProcessResult result = first.Wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("run.trace.replaced-1"));
  const auto long_one = ReadTraceFile(Path("run.trace.replaced-1"));
  ASSERT_TRUE(long_one.ok()) << long_one.status();
  EXPECT_GE(long_one->results.size(), 5u);
  ASSERT_TRUE(long_one->end.has_value());
  EXPECT_EQ(long_one->end->status, "interrupted");
}

// Its files may not grow any more, as on a disk that is full.
TEST_F(TraceHarm, ARunWhoseTraceHasNoMoreRoomGoesOn) {
  Json config = Endless();
  config["steps"] = 600;
  WriteConfig(config);
  CastorProcess process({"train", "run.json", "--trace", "run.trace",
                         "--trace-steps", "1:1000000"},
                        directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 5/"));
  const rlimit full = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  ASSERT_EQ(prlimit(process.pid(), RLIMIT_FSIZE, &full, nullptr), 0);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nstep 600/"));
  ExpectToldOnce(result, "cannot grow");
  const auto trace = ReadTraceFile(Path("run.trace"));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_FALSE(trace->truncated);
  EXPECT_GE(trace->results.size(), 5u);
}

TEST_F(TraceHarm, ARunWhoseTraceIsRemovedGoesOn) {
  WriteConfig(Endless());
  CastorProcess process({"train", "run.json", "--trace", "run.trace"},
                        directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 5/"));
  ASSERT_TRUE(std::filesystem::remove(Path("run.trace")));
  ASSERT_TRUE(process.WaitForOutput("\nstep 100/"));
  process.Signal(SIGTERM);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  ExpectToldOnce(result, "was removed, or replaced by another");
}

}  // namespace
}  // namespace castor::testing
