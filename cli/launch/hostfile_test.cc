#include "cli/launch/hostfile.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/test_files.h"

namespace castor::cli {
namespace {

void ExpectRefused(const std::string& text,
                   const std::vector<std::string>& words) {
  const absl::Status status = ParseHostfile("hosts", text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word))
        << "no \"" << word << "\" in: " << status;
  }
}

TEST(Hostfile, NamesMachinesAndTheirSlots) {
  const auto hosts = ParseHostfile("hosts",
                                   "# two machines\n"
                                   "node1 slots=4 # the large one\n"
                                   "\n"
                                   "  me@10.0.0.7\t\r\n"
                                   "fe80::1%eth0 slots=2");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(*hosts,
            (std::vector<HostSlots>{
                {"node1", 4}, {"me@10.0.0.7", 1}, {"fe80::1%eth0", 2}}));
}

// HOST:N, as mpirun's --host and torchrun's and others' lists of machines have
// it, was taken for a machine's name.
TEST(Hostfile, NumberBehindAColonIsThatOfSlots) {
  const auto hosts = ParseHostfile("hosts",
                                   "localhost:2\n"
                                   "me@10.0.0.7:3  # three\n"
                                   "[fe80::1]:4\n"
                                   "me@[::1]\n"
                                   "::1:2\n"
                                   "localhost slots=1\n");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(*hosts, (std::vector<HostSlots>{{"localhost", 3},
                                            {"me@10.0.0.7", 3},
                                            {"fe80::1", 4},
                                            {"me@::1", 1},
                                            {"::1:2", 1}}));
  ExpectRefused("a:0", {"line 1", "\"0\" is not a number", "HOST:N"});
  ExpectRefused("a:", {"line 1", "\"\" is not a number"});
  ExpectRefused("a:two", {"line 1", "\"two\" is not a number"});
  ExpectRefused("a:2 slots=2", {"line 1", "both say how many"});
  ExpectRefused("a\n[a:2", {"line 2", "no machine's name"});
  ExpectRefused("[]:2", {"line 1", "no machine's name"});
}

TEST(Hostfile, MachineThatIsNamedAgainGetsMoreSlots) {
  const auto hosts = ParseHostfile("hosts", "a slots=2\nb\na\n");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(*hosts, (std::vector<HostSlots>{{"a", 3}, {"b", 1}}));
}

TEST(Hostfile, BadLinesAreToldByTheirNumber) {
  ExpectRefused("a\nb slots=0\n", {"hosts, line 2", "\"0\""});
  ExpectRefused("a slots=many", {"line 1", "\"many\""});
  ExpectRefused("a slots=99999999999", {"line 1", "\"99999999999\""});
  ExpectRefused("\n\na cores=4", {"line 3", "\"cores=4\""});
  ExpectRefused("a slots=4 max-slots=8", {"line 1", "max-slots=8"});
  ExpectRefused("a b", {"line 1", "\"b\""});
  ExpectRefused("a slots=65536\nb\na slots=1",
                {"line 3", "a gets more than 65536 slots"});
  // Would be an option of the remote shell, or more than a word of it.
  ExpectRefused("-oProxyCommand=touch", {"line 1", "no machine's name"});
  ExpectRefused("a;reboot", {"line 1", "no machine's name"});
  ExpectRefused("# nothing\n", {"hosts names no machine"});
  ExpectRefused("", {"hosts names no machine"});
}

TEST(Hostfile, FileThatIsNotThereIsNamed) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/hosts";
  EXPECT_EQ(ReadHostfile(path).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(ReadHostfile(path).status().message(), path));
  EXPECT_FALSE(ReadHostfile(directory.path()).ok());
  WriteFile(path, "a slots=2\n");
  ASSERT_TRUE(ReadHostfile(path).ok());
  EXPECT_EQ(ReadHostfile(path)->at(0).slots, 2);
}

TEST(PlaceRanks, FillsMachineByMachine) {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 3}};
  auto places = PlaceRanks(hosts, 3);
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(*places,
            (std::vector<RankPlace>{{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 1}}));
  places = PlaceRanks(hosts, 0);
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(places->size(), 5u);
  EXPECT_EQ(places->at(4), (RankPlace{"b", 2, 3}));
  EXPECT_EQ(PlaceRanks(hosts, 1)->size(), 1u);
}

TEST(PlaceRanks, CountsNoMoreThanARunCanHave) {
  const std::vector<HostSlots> hosts = {{"a", 65536}, {"b", 1}};
  const absl::Status status = PlaceRanks(hosts, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "65537 slots")) << status;
  EXPECT_EQ(PlaceRanks(hosts, 65536)->size(), 65536u);
}

TEST(PlaceRanks, RefusesMoreThanThereAreSlots) {
  const absl::Status status = PlaceRanks({{"a", 2}, {"b", 3}}, 6).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "6 ranks")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "5 slots")) << status;
}

}  // namespace
}  // namespace castor::cli
