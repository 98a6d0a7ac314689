#include "cli/launch/remote_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace castor::cli {
namespace {

using Variables = std::map<std::string, std::string>;

// Returns the output of a real shell for `command`.
std::string Shell(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 256> buffer;
  while (size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), got);
  }
  pclose(pipe);
  return output;
}

TEST(RemoteLine, QuotesWhateverAWordHolds) {
  for (const std::string& word :
       {std::string(""), std::string("plain"), std::string("two words"),
        std::string("it's $HOME `id` \"quoted\" \\ ; & | * ~ #"),
        std::string("two\nlines\n"), std::string("'"), std::string("''\n'")}) {
    EXPECT_EQ(
        Shell("n=$(printf '\\nx'); n=${n%x}; printf '%s.' " + ShellQuote(word)),
        word + ".");
  }
}

TEST(RemoteLine, IsOneLine) {
  const std::string line =
      RemoteLine("/tmp/a\nb", {{"X", "1\n2"}}, {"prog", "a\nb"});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(line.back(), '\n');
}

const Variables kHere = {{"HOME", "/root"},
                         {"PATH", "/bin"},
                         {"LD_LIBRARY_PATH", "/opt/lib"},
                         {"LD_PRELOAD", "x.so"},
                         {"OMP_NUM_THREADS", "2"},
                         {"OMP_BAD-NAME", "2"},
                         {"CUDA_VISIBLE_DEVICES", "1"},
                         {"CUDA", "1"},
                         {"NVIDIA_API_KEY", "nvapi-x"},
                         {"NCCL_DEBUG", "INFO"},
                         {"NCCL_TOKEN", "x"},
                         {"CASTOR_SECRET", "of another run"},
                         {"CASTOR_SECRET_FILE", "/etc/secret"},
                         {"RANK", "3"},
                         {"SSH_AUTH_SOCK", "/run/x"}};

TEST(RemoteLine, CarriesWhatSteersARankAndNothingElse) {
  const auto carried = VariablesToCarry(kHere, {});
  ASSERT_TRUE(carried.ok()) << carried.status();
  EXPECT_EQ(*carried, (Variables{{"LD_LIBRARY_PATH", "/opt/lib"},
                                 {"NCCL_DEBUG", "INFO"},
                                 {"OMP_NUM_THREADS", "2"},
                                 {"CUDA_VISIBLE_DEVICES", "1"}}));
}

TEST(RemoteLine, CarriesWhatElseIsNamed) {
  const auto carried = VariablesToCarry(kHere, {"HOME", "NCCL_DEBUG"});
  ASSERT_TRUE(carried.ok()) << carried.status();
  EXPECT_EQ(carried->at("HOME"), "/root");
  EXPECT_EQ(carried->size(), 5u);
}

TEST(RemoteLine, RefusesNamesThatAreNone) {
  for (const char* name : {"", "OMP_BAD-NAME", "1X", "X=1", "NOT_SET", "RANK",
                           "CASTOR_SECRET", "CASTOR_SECRET_FILE"}) {
    const auto carried = VariablesToCarry(kHere, {name});
    EXPECT_EQ(carried.status().code(), absl::StatusCode::kInvalidArgument)
        << name;
    EXPECT_TRUE(absl::StrContains(carried.status().message(),
                                  absl::StrCat("--export ", name)))
        << carried.status();
  }
}

}  // namespace
}  // namespace castor::cli
