#include "insight/export/perfetto.h"

#include <map>
#include <set>
#include <utility>

#include "base/test_files.h"
#include "gtest/gtest.h"
#include "insight/random_trace.h"
#include "insight/trace_sketch.h"
#include "nlohmann/json.hpp"
#include "rapidcheck/gtest.h"

namespace castor {
namespace {

using Json = nlohmann::json;

std::string Exported(const TraceView& view) {
  std::string text;
  const absl::Status status =
      PerfettoJson({&view, 1}, [&](absl::string_view piece) {
        text.append(piece.data(), piece.size());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return text;
}

std::vector<Json> Events(const TraceView& view, const std::string& phase) {
  const Json document = Json::parse(Exported(view));
  std::vector<Json> events;
  for (const Json& event : document["traceEvents"]) {
    if (event["ph"] == phase) events.push_back(event);
  }
  return events;
}

TEST(Perfetto, NamesThreadsInTheOrderOfStreams) {
  const TraceView view = BuildTraceView(OneStep().contents, "x.trace");
  std::map<int, std::string> names;
  for (const Json& event : Events(view, "M")) {
    if (event["name"] == "thread_name") {
      names[event["tid"]] = event["args"]["name"];
    }
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{1, "steps"},
                                               {2, "compute"},
                                               {3, "host to device"},
                                               {4, "device to host"},
                                               {5, "CPU optimizer"}}));
}

TEST(Perfetto, HasASliceForEachStepAndSpanInMicroseconds) {
  const TraceView view = BuildTraceView(OneStep().contents, "x.trace");
  const std::vector<Json> slices = Events(view, "X");
  EXPECT_EQ(slices.size(), 1 + view.spans.size());
  for (const Json& slice : slices) {
    if (slice["name"] != "wait for fetch chunk 1") continue;
    EXPECT_EQ(slice["ts"], 0.1);
    EXPECT_EQ(slice["dur"], 0.2);
    EXPECT_EQ(slice["tid"], 2);
    EXPECT_EQ(slice["cat"], "wait");
    EXPECT_EQ(slice["args"]["waited_for"], "fetch chunk 1");
    EXPECT_EQ(slice["args"]["step"], 1);
    EXPECT_NE(slice["args"]["why"], "");
    return;
  }
  FAIL() << "no slice of the wait";
}

// The arrow goes from the fetch's end on its thread to the wait's, each a
// nanosecond before, where the slice is still open.
TEST(Perfetto, DrawsAnArrowFromCauseToWait) {
  const TraceView view = BuildTraceView(OneStep().contents, "x.trace");
  const std::vector<Json> from = Events(view, "s"), to = Events(view, "f");
  ASSERT_EQ(from.size(), 5u);  // the sketch's waits
  ASSERT_EQ(to.size(), 5u);
  for (size_t i = 0; i < to.size(); ++i) {
    EXPECT_EQ(from[i]["id"], to[i]["id"]);
    EXPECT_EQ(to[i]["bp"], "e");
    if (to[i]["tid"] != 2) continue;
    EXPECT_EQ(from[i]["tid"], 3);
    EXPECT_EQ(from[i]["ts"], 0.299);
    EXPECT_EQ(to[i]["ts"], 0.299);
  }
}

TEST(Perfetto, CountsBytesByCategoryAndMarksThePeak) {
  const TraceView view = BuildTraceView(OneStep().contents, "x.trace");
  std::vector<Json> device;
  for (const Json& event : Events(view, "C")) {
    if (event["name"] == "device bytes") device.push_back(event);
  }
  ASSERT_EQ(device.size(), 5u);
  EXPECT_EQ(device[2]["args"],
            Json({{"parameters", 3'000}, {"activations", 300}}));
  const std::vector<Json> peak = Events(view, "i");
  ASSERT_EQ(peak.size(), 1u);
  EXPECT_EQ(peak[0]["name"], "device peak: 3.22 KiB at b/backward");
  EXPECT_EQ(peak[0]["ts"], 0.4);
}

RC_GTEST_PROP(Perfetto, IsWellFormedForEveryTrace, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const bool wild = *rc::gen::arbitrary<bool>();
  RC_LOG() << "seed " << seed << " wild " << wild << "\n";
  const TraceContents contents = RandomTrace(seed, wild).Make();
  const Json document =
      Json::parse(Exported(BuildTraceView(contents, "random")));
  std::map<int64_t, std::set<std::string>> arrows;
  for (const Json& event : document["traceEvents"]) {
    const std::string phase = event["ph"];
    RC_ASSERT(event["name"].is_string());
    RC_ASSERT(event["pid"].is_number_integer());
    RC_ASSERT(event["tid"].is_number_integer());
    if (phase != "M") RC_ASSERT(event["ts"].get<double>() >= 0);
    if (phase == "X") RC_ASSERT(event["dur"].get<double>() >= 0);
    if (phase == "s" || phase == "f") {
      RC_ASSERT(arrows[event["id"]].insert(phase).second);
    }
    if (phase != "C") continue;
    for (const auto& [key, value] : event["args"].items()) {
      RC_ASSERT(value.is_number());
    }
  }
  for (const auto& [id, ends] : arrows) RC_ASSERT(ends.size() == 2u);
}

TEST(Perfetto, PassesOnAFailureToWrite) {
  const TraceView view = BuildTraceView(OneStep().contents, "x.trace");
  EXPECT_EQ(PerfettoJson({&view, 1},
                         [](absl::string_view) {
                           return absl::ResourceExhaustedError("full");
                         })
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(Perfetto, WritesAFileThatAppearsWhole) {
  const TemporaryDirectory directory;
  const TraceView view = BuildTraceView(OneStep().contents, "x.trace");
  const std::string path = directory.path() + "/out.json";
  ASSERT_TRUE(WritePerfetto({&view, 1}, path).ok());
  EXPECT_EQ(ReadFile(path), Exported(view));
  EXPECT_FALSE(
      WritePerfetto({&view, 1}, directory.path() + "/none/out.json").ok());
}

TEST(Perfetto, HasAProcessForEachRank) {
  std::vector<TraceView> views;
  for (const int64_t rank : {0, 1}) {
    TraceSketch sketch = OneStep();
    sketch.contents.run->rank = rank;
    sketch.contents.run->world_size = 2;
    sketch.contents.run->host = rank == 0 ? "node-a" : "node-b";
    views.push_back(BuildTraceView(sketch.contents, "x.trace"));
  }
  std::string text;
  const absl::Status status = PerfettoJson(views, [&](absl::string_view piece) {
    text.append(piece.data(), piece.size());
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  std::map<int, std::string> names;
  std::map<int, size_t> slices;
  std::map<int, std::set<int>> arrows;  // ids that begin
  const Json document = Json::parse(text);
  for (const Json& event : document["traceEvents"]) {
    const int process = event["pid"];
    if (event["name"] == "process_name") names[process] = event["args"]["name"];
    if (event["ph"] == "X") ++slices[process];
    if (event["ph"] == "s") {
      EXPECT_TRUE(arrows[process].insert(event["id"].get<int>()).second);
    }
  }
  EXPECT_EQ(names, (std::map<int, std::string>{
                       {1, "castor rank 0 on node-a: sketch"},
                       {2, "castor rank 1 on node-b: sketch"}}));
  EXPECT_EQ(slices[1], slices[2]);
  // No id stands for arrows of two ranks.
  for (const int id : arrows[1]) EXPECT_FALSE(arrows[2].contains(id));
  EXPECT_FALSE(arrows[2].empty());
}

}  // namespace
}  // namespace castor
