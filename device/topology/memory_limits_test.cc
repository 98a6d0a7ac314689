#include "device/topology/memory_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Files of a system below a directory.
class ControlGroupTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = directory_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    WriteFile(file.string(), text);
  }
  std::vector<int64_t> Limits() {
    std::vector<int64_t> bytes;
    for (const MemoryLimit& limit : ControlGroupLimits(directory_.path())) {
      bytes.push_back(limit.bytes);
    }
    return bytes;
  }
  std::string IdOf(int64_t bytes) {
    for (const MemoryLimit& limit : ControlGroupLimits(directory_.path())) {
      if (limit.bytes == bytes) return limit.id;
    }
    return "none";
  }

  TemporaryDirectory directory_;
};

TEST_F(ControlGroupTest, AreThoseOfAllGroupsUpToTheOutermost) {
  Write(
      "/proc/self/mountinfo",
      "22 1 0:20 / /proc rw - proc proc rw\n"
      "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  Write("/proc/self/cgroup", "0::/slurm/job_7/task_1\n");
  Write("/sys/fs/cgroup/slurm/memory.max", "max\n");
  Write("/sys/fs/cgroup/slurm/job_7/memory.max", "8000\n");
  Write("/sys/fs/cgroup/slurm/job_7/task_1/memory.max", "3000\n");
  EXPECT_THAT(Limits(), ElementsAre(3000, 8000));
}

TEST_F(ControlGroupTest, AreKnownByTheirDirectories) {
  Write("/proc/self/mountinfo", "30 24 0:26 / /g rw - cgroup2 cgroup2 rw\n");
  Write("/g/job/memory.max", "8000\n");
  Write("/g/job/a/memory.max", "3000\n");
  Write("/g/job/b/memory.max", "4000\n");
  Write("/proc/self/cgroup", "0::/job/a\n");
  const std::string job = IdOf(8000), a = IdOf(3000);
  Write("/proc/self/cgroup", "0::/job/b\n");
  EXPECT_EQ(IdOf(8000), job);
  EXPECT_NE(IdOf(4000), a);
  EXPECT_NE(a, job);
}

TEST_F(ControlGroupTest, OfVersionOneAreReadOfTheMemoryController) {
  Write("/proc/self/mountinfo",
        "35 31 0:30 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "36 31 0:31 / /c/memory rw - cgroup cgroup rw,memory\n");
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/own\n0::/\n");
  Write("/c/cpu/other/memory.limit_in_bytes", "1\n");
  Write("/c/memory/own/memory.limit_in_bytes", "5000\n");
  Write("/c/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_THAT(Limits(), ElementsAre(5000, 9223372036854771712));
}

TEST_F(ControlGroupTest, InAContainerAreThoseBelowWhatIsMounted) {
  Write("/proc/self/mountinfo",
        "36 31 0:31 /docker/abc /c rw - cgroup cgroup rw,memory\n");
  Write("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  Write("/c/inner/memory.limit_in_bytes", "5000\n");
  Write("/c/memory.limit_in_bytes", "7000\n");
  EXPECT_THAT(Limits(), ElementsAre(5000, 7000));
  // Another group of a similar name, which is not mounted.
  Write("/proc/self/cgroup", "4:memory:/docker/abcd/inner\n");
  EXPECT_THAT(Limits(), ElementsAre(7000));
  Write("/proc/self/cgroup", "4:memory:/../outside\n");
  EXPECT_THAT(Limits(), ElementsAre(7000));
}

TEST_F(ControlGroupTest, AreNoneWhereNothingIsMounted) {
  EXPECT_THAT(Limits(), IsEmpty());
  Write("/proc/self/mountinfo", "a line of another kind\n");
  Write("/proc/self/cgroup", "and here\n");
  EXPECT_THAT(Limits(), IsEmpty());
}

TEST(MemoryLimits, BeginWithTheMachineAndNeverExceedIt) {
  const std::vector<MemoryLimit> limits = MemoryLimits();
  ASSERT_FALSE(limits.empty());
  EXPECT_EQ(limits[0].id, "machine");
  for (const MemoryLimit& limit : limits) {
    EXPECT_GT(limit.bytes, 0);
    EXPECT_LE(limit.bytes, limits[0].bytes);
    EXPECT_GE(limit.bytes, PhysicalMemoryBytes());
  }
}

// A variable of the environment, for as long as this lives.
class Variable {
 public:
  explicit Variable(const std::string& text) {
    setenv(kMachineMemoryVariable, text.c_str(), 1);
  }
  ~Variable() { unsetenv(kMachineMemoryVariable); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
};

TEST(MemoryLimits, TakeTheEnvironmentsWordForTheMachine) {
  EXPECT_TRUE(CheckMachineMemory().ok());
  const int64_t own = MemoryLimits()[0].bytes;
  for (const int64_t bytes : {int64_t{1} << 20, 4 * own}) {
    const Variable variable(std::to_string(bytes));
    EXPECT_TRUE(CheckMachineMemory().ok());
    EXPECT_EQ(MemoryLimits()[0].bytes, bytes);
    EXPECT_LE(PhysicalMemoryBytes(), bytes);
  }
}

TEST(MemoryLimits, RefuseWhatIsNoSizeInTheEnvironment) {
  const int64_t own = MemoryLimits()[0].bytes;
  for (const char* const text : {"", "0", "much", "unlimited", "-1GiB"}) {
    const Variable variable(text);
    EXPECT_EQ(CheckMachineMemory().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(CheckMachineMemory().message()),
        HasSubstr(absl::StrCat("CASTOR_MACHINE_MEMORY is \"", text, "\"")));
    EXPECT_EQ(MemoryLimits()[0].bytes, own);
  }
}

}  // namespace
}  // namespace castor
