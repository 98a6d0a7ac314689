#include "tracer/rank_traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "tracer/trace_writer.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

// One rank's file: a piece of network's work, of which rank 1 was the last.
void WriteRank(const std::string& path, int64_t rank, int64_t group = 7,
               const std::vector<ClockRecord>& clocks = {}) {
  auto writer = TraceWriter::Create(path, /*ranks=*/3);
  ASSERT_TRUE(writer.ok()) << writer.status();
  (*writer)->Append(RunRecord{.title = absl::StrCat("rank ", rank),
                              .streams = {"compute", "network"},
                              .rank = rank,
                              .world_size = 3,
                              .host = "node",
                              .group = group});
  for (const ClockRecord& clock : clocks) (*writer)->Append(clock);
  (*writer)->Append(WorkRecord{.stream = 1,
                               .count = 4,
                               .kind = WorkKind::kGather,
                               .start_ns = 100,
                               .end_ns = 190});
  (*writer)->Append(NetworkRecord{.stream = 1,
                                  .count = 4,
                                  .sequence = 12,
                                  .kind = 0,
                                  .last_rank = 1,
                                  .ready_ns = 150,
                                  .sent_bytes = 64,
                                  .received_bytes = 32});
  ASSERT_TRUE((*writer)->status().ok());
}

std::vector<int64_t> Ranks(const std::vector<TraceContents>& all) {
  std::vector<int64_t> ranks;
  for (const TraceContents& contents : all) ranks.push_back(contents.run->rank);
  return ranks;
}

TEST(RankTraces, AreReadFromOneFile) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  std::string text;
  for (const int64_t rank : {0, 2, 1}) {
    WriteRank(path, rank);
    text += ReadFile(path);
  }
  WriteFile(path, text);
  const auto all = ReadRankTraces(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(Ranks(*all), (std::vector<int64_t>{0, 1, 2}));
  for (const TraceContents& contents : *all) {
    EXPECT_EQ(contents.run->title, absl::StrCat("rank ", contents.run->rank));
    EXPECT_EQ(contents.run->host, "node");
    ASSERT_EQ(contents.works.size(), 1u);
    EXPECT_EQ(contents.works[0].kind, WorkKind::kGather);
    EXPECT_EQ(contents.networks,
              (std::vector<NetworkRecord>{{1, 4, 12, 0, 1, 150, 64, 32}}));
  }
  // A reader of one rank's trace alone gets the first.
  const auto one = ReadTraceFile(path);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->run->rank, 0);
}

TEST(RankTraces, AreFoundBesideTheFileOfARunThatWasKilled) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  WriteRank(path, 0);
  WriteRank(RankFileName(path, 1), 1);
  WriteRank(RankFileName(path, 2), 2, /*group=*/6);  // of a run before
  const auto all = ReadRankTraces(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(Ranks(*all), (std::vector<int64_t>{0, 1}));
  // One of them is shown alone.
  const auto one = ReadRankTraces(RankFileName(path, 1));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(Ranks(*one), std::vector<int64_t>{1});
}

TEST(RankTraces, PreferAWholeFileToAPartThatWasCutOff) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  WriteRank(RankFileName(path, 1), 1);
  const std::string part = ReadFile(RankFileName(path, 1));
  WriteRank(path, 0);
  const std::string first = ReadFile(path);
  // Killed while it was appended: in the run's record, and after it.
  for (const size_t size : {part.find('\n') + 5, part.size() - 3}) {
    WriteFile(path, first + part.substr(0, size));
    const auto all = ReadRankTraces(path);
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_EQ(Ranks(*all), (std::vector<int64_t>{0, 1}));
    EXPECT_EQ((*all)[1].networks.size(), 1u);
    EXPECT_FALSE((*all)[1].truncated);
  }
}

TEST(RankTraces, LieOnTheClockOfRank0) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  // Ahead by 1000 at 0 and by 900 at 200: half of that drift at 100.
  WriteRank(path, 1, 7, {{0, 1000, 3}, {200, 900, 20}});
  auto all = ReadRankTraces(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)[0].works[0].start_ns, 100 + 950);
  EXPECT_EQ((*all)[0].works[0].end_ns, 190 + 905);
  EXPECT_EQ((*all)[0].networks[0].ready_ns, 150 + 925);
  // Times before the origin become the origin's.
  WriteRank(path, 1, 7, {{0, -150, 3}});
  all = ReadRankTraces(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)[0].works[0].start_ns, 0);
  EXPECT_EQ((*all)[0].works[0].end_ns, 40);
  // A difference that cannot be drift is that of two guesses, of which the
  // better one counts.
  WriteRank(path, 1, 7, {{0, 1000, 3}, {10, -5000, 50}});
  all = ReadRankTraces(path);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)[0].works[0].end_ns, 1190);
}

std::string Error(const std::string& text) {
  const auto all = ParseRanks(text, "file");
  EXPECT_EQ(all.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(all.status().message());
}

TEST(RankTraces, RefuseWhatIsOfNoOneRun) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  WriteRank(path, 0);
  const std::string zero = ReadFile(path);
  EXPECT_THAT(Error(zero + zero), HasSubstr("a second part of rank 0"));
  WriteRank(path, 1, /*group=*/8);
  EXPECT_THAT(Error(zero + ReadFile(path)),
              HasSubstr("line 8: ends the part of a rank 1 of another run"));
  EXPECT_THAT(Error(zero + "{\"format\":\"castor-trace\",\"version\":18,"
                           "\"ranks\":1}\n"),
              HasSubstr("line 5: begins the part of a run on one rank"));
  EXPECT_THAT(Error(zero + "[\"network\",1,4,12,0,3,150,64,32]\n"),
              HasSubstr("the last rank is 3, not from 0 to 2"));
  EXPECT_THAT(Error(zero + "[\"network\",1,4,12,7,1,150,64,32]\n"),
              HasSubstr("the kind of collective is 7"));
  EXPECT_THAT(Error(zero + "[\"network\",1,4,12,0,1,150,64]\n"),
              HasSubstr("has 7 numbers, not 8"));
  EXPECT_THAT(Error(zero + "{\"type\":\"clock\",\"time_ns\":5,"
                           "\"offset_ns\":0,\"error_ns\":-1}\n"),
              HasSubstr("error_ns must be an integer from 0"));
  // None of it is in the trace of one rank.
  std::string one = zero;
  one.replace(one.find("\"ranks\":3"), 9, "\"ranks\":1");
  EXPECT_THAT(Error(one), HasSubstr("line 2: the record has the unknown key"));
}

}  // namespace
}  // namespace castor
