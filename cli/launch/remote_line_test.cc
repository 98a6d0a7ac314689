#include "cli/launch/remote_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>

namespace castor::cli {
namespace {

using Variables = std::map<std::string, std::string>;

// What a real shell makes of it.
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

TEST(RemoteLine, CarriesWhatSteersARankAndNothingElse) {
  EXPECT_EQ(VariablesToCarry({{"HOME", "/root"},
                              {"PATH", "/bin"},
                              {"LD_LIBRARY_PATH", "/opt/lib"},
                              {"LD_PRELOAD", "x.so"},
                              {"OMP_NUM_THREADS", "2"},
                              {"OMP_BAD-NAME", "2"},
                              {"CUDA_VISIBLE_DEVICES", "1"},
                              {"CUDA", "1"},
                              {"SSH_AUTH_SOCK", "/run/x"}}),
            (Variables{{"LD_LIBRARY_PATH", "/opt/lib"},
                       {"OMP_NUM_THREADS", "2"},
                       {"CUDA_VISIBLE_DEVICES", "1"}}));
}

}  // namespace
}  // namespace castor::cli
