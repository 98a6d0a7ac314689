#include "cli/describe/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"

namespace castor::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program with an option of each kind.
class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    app_.name("prog");
    CLI::App* train = app_.add_subcommand("train", "It's training.");
    train->add_option("CONFIG", text_, "what to do")->required();
    train->add_option("--resume", text_, "from [here]: there")
        ->type_name("FILE");
    train->add_flag("--quiet", flag_, "say nothing");
    CLI::App* trace = app_.add_subcommand("trace", "Traces.");
    CLI::App* view = trace->add_subcommand("view", "Shows one.");
    view->add_option("--format", text_, "how")
        ->type_name("html|svg")
        ->check(CLI::IsMember({"html", "svg"}));
  }

  // Returns what bash offers for the last of these words of a command line.
  std::string Completed(const std::string& words, int last) const {
    const TemporaryDirectory directory;
    const std::string script = directory.path() + "/script";
    WriteFile(script, BashCompletion("prog", CommandsOf(app_)));
    const std::string command = absl::StrCat(
        "bash -c 'source ", script, " && COMP_WORDS=(", words,
        ") COMP_CWORD=", last, " && _prog && echo \"${COMPREPLY[*]}\"'");
    FILE* const pipe = popen(command.c_str(), "r");
    char line[1000] = "";
    while (std::fgets(line, sizeof(line), pipe) != nullptr) continue;
    EXPECT_EQ(pclose(pipe), 0) << command;
    return line;
  }

  CLI::App app_{"Does things."};

 private:
  std::string text_;
  bool flag_ = false;
};

TEST_F(CommandsTest, KnowsEachCommandAndItsOptions) {
  const std::vector<CommandInfo> commands = CommandsOf(app_);
  ASSERT_EQ(commands.size(), 4);
  EXPECT_THAT(commands[0].commands, ElementsAre("train", "trace"));
  EXPECT_THAT(commands[3].path, ElementsAre("trace", "view"));
  const std::vector<OptionInfo>& options = commands[1].options;
  ASSERT_EQ(options.size(), 4);  // --help is the first
  EXPECT_THAT(options[1].names, ElementsAre());
  EXPECT_EQ(options[1].value, "CONFIG");
  EXPECT_TRUE(options[1].required);
  EXPECT_EQ(options[2].value, "FILE");
  EXPECT_EQ(options[3].value, "");
  EXPECT_THAT(commands[3].options.back().choices, ElementsAre("html", "svg"));
}

TEST_F(CommandsTest, BashCompletesCommandsOptionsAndValues) {
  EXPECT_EQ(Completed("prog tra", 1), "train trace\n");
  EXPECT_EQ(Completed("prog train --r", 2), "--resume\n");
  EXPECT_EQ(Completed("prog trace \"\"", 2), "view -h --help\n");
  EXPECT_EQ(Completed("prog trace view --format \"\"", 4), "html svg\n");
  // Files are bash's own to complete.
  EXPECT_EQ(Completed("prog train --resume \"\"", 3), "\n");
}

TEST_F(CommandsTest, QuotesWhatAShellWouldRead) {
  const std::vector<CommandInfo> commands = CommandsOf(app_);
  EXPECT_THAT(ZshCompletion("prog", commands),
              HasSubstr("'*--resume[from \\[here\\]\\: there]:FILE:_files'"));
  EXPECT_THAT(FishCompletion("prog", commands),
              HasSubstr("-f -a train -d 'It'\\''s training.'\n"));
  EXPECT_THAT(FishCompletion("prog", commands),
              HasSubstr("-n '__fish_seen_subcommand_from trace; and "
                        "__fish_seen_subcommand_from view' -l format -r -f -a "
                        "'html svg' -d 'how'\n"));
}

TEST_F(CommandsTest, TheManualHasEachCommandWithItsOperands) {
  const std::string page = ManualPage("prog", "1.2.3", CommandsOf(app_));
  EXPECT_THAT(page, HasSubstr(".TH PROG 1 \"\" \"prog 1.2.3\"\n"));
  EXPECT_THAT(page, HasSubstr(".SS prog train CONFIG\nIt's training.\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-\\-resume\\fR \\fIFILE\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SS prog trace view\n"));
}

}  // namespace
}  // namespace castor::cli
