#include "insight/export/csv.h"

#include <filesystem>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "gtest/gtest.h"
#include "insight/random_trace.h"
#include "insight/trace_sketch.h"
#include "rapidcheck/gtest.h"

namespace castor {
namespace {

std::string Table(const TraceView& view, const std::string& name) {
  std::string text;
  const absl::Status status =
      CsvTable(view, name, [&](absl::string_view piece) {
        text.append(piece.data(), piece.size());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return text;
}

// RFC 4180, strictly: each record ends in CR LF, quotes are doubled within
// quoted fields and nowhere else.
std::vector<std::vector<std::string>> Parse(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row = {""};
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      EXPECT_EQ(row.back(), "") << "a quote within a field, at " << i;
      for (++i;; ++i) {
        if (i >= text.size()) {
          ADD_FAILURE() << "a quoted field has no end";
          return rows;
        }
        if (text[i] == '"') {
          if (i + 1 >= text.size() || text[i + 1] != '"') break;
          ++i;
        }
        row.back().push_back(text[i]);
      }
      ++i;
    } else if (text[i] == ',') {
      row.emplace_back();
      ++i;
    } else if (text.compare(i, 2, "\r\n") == 0) {
      rows.push_back(row);
      row = {""};
      i += 2;
    } else {
      EXPECT_NE(text[i], '\r');
      EXPECT_NE(text[i], '\n');
      row.back().push_back(text[i++]);
    }
  }
  EXPECT_EQ(row, std::vector<std::string>{""}) << "a record without its end";
  return rows;
}

TEST(Csv, HoldsSteps) {
  const TraceView view = BuildTraceView(OneStep().contents, "");
  EXPECT_EQ(Table(view, "steps"),
            "step,kind,plan,policy,whole,start_ns,end_ns,compute_ns,copy_ns,"
            "optimizer_ns,idle_ns,wait_ns,h2d_bytes,d2h_bytes,"
            "device_peak_bytes,loss,network_ns,late_rank_ns,sent_bytes,"
            "received_bytes\r\n"
            "1,training,0,auto,yes,0,1000,400,200,300,100,200,3000,3000,3300,"
            "2.5,0,0,0,0\r\n");
}

TEST(Csv, QuotesWhatRfc4180WantsQuoted) {
  TraceSketch sketch = OneStep();
  sketch.contents.step_traces[0].ops[0].name = "a, \"b\"\r\nc";
  const std::string text =
      Table(BuildTraceView(sketch.contents, ""), "operators");
  EXPECT_NE(text.find("0,0,\"a, \"\"b\"\"\r\nc\",forward,"), std::string::npos);
  EXPECT_EQ(Parse(text)[1][2], "a, \"b\"\r\nc");
}

TEST(Csv, LetsNoNameBeAFormula) {
  for (const char* const name : {"=1+1", "+1", "-1", "@x", "\tx"}) {
    TraceSketch sketch = OneStep();
    sketch.contents.step_traces[0].ops[0].name = name;
    const auto rows =
        Parse(Table(BuildTraceView(sketch.contents, ""), "operators"));
    EXPECT_EQ(rows[1][2], std::string("'") + name);
  }
}

TEST(Csv, HoldsMemoryOfBothTiers) {
  TraceSketch sketch = OneStep();
  sketch.contents.hosts = {{7, {1, 2}}};
  const auto rows = Parse(Table(BuildTraceView(sketch.contents, ""), "memory"));
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"tier", "time_ns", "step",
                                               "moment", "parameters_bytes",
                                               "activations_bytes"}));
  EXPECT_EQ(rows[2], (std::vector<std::string>{"device", "300", "1", "1",
                                               "3000", "200"}));
  EXPECT_EQ(rows[6], (std::vector<std::string>{"host", "7", "", "", "1", "2"}));
}

RC_GTEST_PROP(Csv, HasAsManyCellsInEachRowAsColumns, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const bool wild = *rc::gen::arbitrary<bool>();
  RC_LOG() << "seed " << seed << " wild " << wild << "\n";
  const TraceContents contents = RandomTrace(seed, wild).Make();
  const TraceView view = BuildTraceView(contents, "");
  for (const std::string& table : CsvTableNames()) {
    const auto rows = Parse(Table(view, table));
    RC_ASSERT(!rows.empty());
    for (const auto& row : rows) RC_ASSERT(row.size() == rows[0].size());
  }
  RC_ASSERT(Parse(Table(view, "spans")).size() == view.spans.size() + 1);
}

TEST(Csv, WritesEachTableIntoADirectory) {
  const TemporaryDirectory directory;
  const TraceView view = BuildTraceView(OneStep().contents, "");
  const std::string path = directory.path() + "/new/tables";
  const auto paths = WriteCsv(view, path);
  ASSERT_TRUE(paths.ok()) << paths.status();
  ASSERT_EQ(paths->size(), CsvTableNames().size());
  EXPECT_EQ((*paths)[3], path + "/waits.csv");
  EXPECT_EQ(ReadFile(path + "/waits.csv"), Table(view, "waits"));
}

TEST(Csv, RefusesWhatIsNoDirectoryOrNoTable) {
  const TemporaryDirectory directory;
  const TraceView view = BuildTraceView(OneStep().contents, "");
  WriteFile(directory.path() + "/file", "");
  EXPECT_EQ(WriteCsv(view, directory.path() + "/file").status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(CsvTable(view, "nothing",
                     [](absl::string_view) { return absl::OkStatus(); })
                .code(),
            absl::StatusCode::kNotFound);
}

std::vector<TraceView> OneStepOfTwoRanks() {
  std::vector<TraceView> views;
  for (const int64_t rank : {0, 1}) {
    TraceSketch sketch = OneStep();
    sketch.contents.run->rank = rank;
    sketch.contents.run->world_size = 2;
    views.push_back(BuildTraceView(sketch.contents, ""));
  }
  return views;
}

// The second rank's directory cannot be made, since a file has its name.
TEST(Csv, LeavesNoTablesWhereOneCannotBeWritten) {
  const TemporaryDirectory directory;
  const std::vector<TraceView> views = OneStepOfTwoRanks();
  WriteFile(directory.path() + "/rank-1", "");
  EXPECT_EQ(WriteCsvOfRanks(views, directory.path()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path() + "/rank-0"));
}

TEST(Csv, HasADirectoryForEachRank) {
  const TemporaryDirectory directory;
  const std::vector<TraceView> views = OneStepOfTwoRanks();
  const auto paths = WriteCsvOfRanks(views, directory.path());
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(paths->size(), 2 * CsvTableNames().size());
  for (const char* const rank : {"/rank-0", "/rank-1"}) {
    EXPECT_EQ(ReadFile(directory.path() + rank + "/steps.csv"),
              Table(views[0], "steps"));
  }
}

}  // namespace
}  // namespace castor
