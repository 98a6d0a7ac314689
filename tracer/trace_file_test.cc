#include "tracer/trace_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/test_files.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kHeader[] =
    "{\"format\":\"castor-trace\",\"version\":18,\"ranks\":1}\n";
constexpr char kRun[] =
    R"({"type":"run","title":"gpt2","device":"host","policy":"auto",)"
    R"("device_budget_bytes":4096,"host_budget_bytes":null,"steps":9,)"
    R"("tokens_per_step":8,"threads":2,"categories":["parameters","gradients"],)"
    R"("streams":["compute","h2d"]})"
    "\n";
constexpr char kStepTrace[] =
    R"({"type":"step_trace","signature":"s","training":true,)"
    R"("micro_batches":1,"measured":false,"global_norm":true,)"
    R"("chunks":[{"payload_bytes":256,"optimizer_bytes":768,)"
    R"("parameters":["wte"]},{"payload_bytes":256,"optimizer_bytes":0,)"
    R"("parameters":[]}],"ops":[{"name":"embed","kind":"compute",)"
    R"("phase":"forward","shapes":"[2] -> [2, 8]","chunks":[0,1],"writes":[1],)"
    R"("non_model_peak_bytes":64,"workspace_bytes":8,"duration_ns":10,)"
    R"("host_duration_ns":0},{"name":"reduce","kind":"reduce",)"
    R"("phase":"backward","shapes":"","chunks":[0],"writes":[],)"
    R"("non_model_peak_bytes":0,"workspace_bytes":0,"duration_ns":1,)"
    R"("host_duration_ns":2}]})"
    "\n";
constexpr char kPlan[] =
    R"({"type":"plan","trace":0,"policy":"cpu","warmup":true,"refused":false,)"
    R"("device_budget_bytes":4096,"host_budget_bytes":null,)"
    R"("device_reserved_bytes":512,"host_reserved_bytes":0,)"
    R"("h2d_bytes_per_s":8e9,"d2h_bytes_per_s":4e9,"latency_ns":3,)"
    R"("prefetch":true,"gpu_margin_mem_ratio":0.5,"fixed_sides":false,)"
    R"("device_side":[],"initial":[1],"initial_dirty":[],)"
    R"("actions":[[0,0,0,0],[2,2,0,-1]],"predicted":{"step_ns":100,)"
    R"("stall_ns":5,"h2d_bytes":256,"d2h_bytes":0,"device_peak_bytes":1088,)"
    R"("host_bytes":1280,"least_h2d_bytes":256,"op_start_ns":[7,20],)"
    R"("device_bytes":[1088,1024]}})"
    "\n";
constexpr char kStep[] =
    R"({"type":"step","tag":5,"step":3,"plan":0,"time_ns":1000})"
    "\n";
constexpr char kEvents[] =
    "[\"host\",1000,1536,0]\n"
    "[\"op\",5,0,1001,768,512,256]\n"
    "[\"work\",1,4,2,5,0,0,1002,1050]\n"
    "[\"wait\",0,9,1,5,0,0,1010,1050,1,4]\n"
    "[\"work\",0,10,1,5,0,-1,1050,1060]\n";
constexpr char kResult[] =
    R"({"type":"result","step":3,"end_ns":1100,"duration_ns":100,)"
    R"("stall_ns":40,"h2d_bytes":256,"d2h_bytes":0,"device_peak_bytes":1088,)"
    R"("loss":-2.5})"
    "\n";
constexpr char kRefusal[] =
    R"({"type":"refusal","message":"no","tier":"device","op":"embed",)"
    R"("peak_bytes":64,"resident_bytes":512,)"
    R"("smallest_device_budget_bytes":1088,)"
    R"("smallest_host_budget_bytes":null})"
    "\n";
constexpr char kEnd[] =
    R"({"type":"end","status":"failed","message":"disk","time_ns":1200})"
    "\n";

std::string All() {
  return absl::StrCat(kHeader, kRun, kStepTrace, kPlan, kStep, kEvents, kResult,
                      kRefusal, kEnd);
}

// Only some traces have these.
TEST(TraceFile, ReadsGradientBlocksAndDeviceSums) {
  const auto with = [](absl::string_view actions, absl::string_view sum) {
    return ParseTrace(absl::StrReplaceAll(
        All(), {{"[0,0,0,0],", absl::StrCat("[0,0,0,0],", actions)},
                {"\"optimizer_bytes\":768",
                 absl::StrCat("\"optimizer_bytes\":768", sum)}}));
  };
  const auto blocks = with("[0,3,0,0],[1,4,0,1],[1,5,0,-1],", "");
  ASSERT_TRUE(blocks.ok()) << blocks.status();
  ASSERT_EQ(blocks->plans[0].actions.size(), 5u);
  EXPECT_EQ(blocks->plans[0].actions[2].kind, ActionKind::kSendGradients);
  EXPECT_EQ(blocks->step_traces[0].chunks[0].sum_bytes, 0);
  const auto sums =
      with("[0,6,0,1],[2,7,0,1],[2,8,0,-1],", ",\"sum_bytes\":256");
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(sums->plans[0].actions[1].kind, ActionKind::kMakeSum);
  EXPECT_EQ(sums->plans[0].actions[3].kind, ActionKind::kDropSum);
  EXPECT_EQ(sums->step_traces[0].chunks[0].sum_bytes, 256);
  EXPECT_EQ(sums->step_traces[0].chunks[1].sum_bytes, 0);
  const auto ahead = with("[2,9,0,-1],", "");
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  EXPECT_EQ(ahead->plans[0].actions[1].kind, ActionKind::kSpeculate);
  // A sum is a part of the optimizer states.
  EXPECT_THAT(with("", ",\"sum_bytes\":769").status().message(),
              HasSubstr("chunks[0].sum_bytes must be an integer from 1"));
}

TEST(TraceFile, ReadsBlocks) {
  const auto with = [](absl::string_view block) {
    return ParseTrace(absl::StrReplaceAll(
        All(),
        {{"\"policy\":\"auto\",\"device_budget",
          "\"policy\":\"auto\",\"activation_checkpointing\":\"block\","
          "\"device_budget"},
         {"\"ops\":[", absl::StrCat("\"blocks\":[{", block, "}],\"ops\":[")}}));
  };
  const std::string good =
      R"("block":1,"kept":true,"forward":0,"backward":2,"kept_bytes":-7,)"
      R"("kept_peak_bytes":[3],"remake_bytes":-9)";
  const auto contents = with(good);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->step_traces[0].blocks,
            (std::vector<BlockRecord>{{.block = 1,
                                       .kept = true,
                                       .forward = Moment(0),
                                       .backward = Moment(2),
                                       .kept_bytes = -7,
                                       .kept_peak_bytes = {3},
                                       .remake_bytes = -9}}));
  EXPECT_EQ(contents->run->activation_checkpointing, "block");
  for (const auto& [from, to] :
       {std::pair("\"backward\":2", "\"backward\":3"),
        std::pair("\"forward\":0", "\"forward\":-1"), std::pair("[3]", "[-3]"),
        std::pair("[3]", "3"), std::pair("\"block\":1", "\"block\":-1"),
        std::pair("\"kept\":true", "\"kept\":1"),
        std::pair(",\"remake_bytes\":-9", "")}) {
    EXPECT_THAT(
        with(absl::StrReplaceAll(good, {{from, to}})).status().message(),
        HasSubstr("blocks[0]"))
        << to;
  }
}

TEST(TraceFile, ReadsActivationsThatPlansMove) {
  const auto with = [](absl::string_view of_chunk, absl::string_view of_block) {
    return ParseTrace(absl::StrReplaceAll(
        All(),
        {{"\"optimizer_bytes\":768",
          absl::StrCat("\"optimizer_bytes\":768", of_chunk)},
         {"\"ops\":[",
          absl::StrCat(R"("blocks":[{"block":1,"kept":true,"forward":0,)"
                       R"("backward":2,"kept_bytes":7,"kept_peak_bytes":[3],)"
                       R"("remake_bytes":9)",
                       of_block, "}],\"ops\":[")}}));
  };
  const auto contents =
      with(R"(,"block":1,"pieces":3)",
           R"(,"offload_pieces":3,"offload_bytes":64,"offloaded":true)");
  ASSERT_TRUE(contents.ok()) << contents.status();
  const StepTrace& trace = contents->step_traces[0];
  EXPECT_EQ(trace.chunks[0].block, 1);
  EXPECT_EQ(trace.chunks[0].pieces, 3);
  EXPECT_FALSE(trace.chunks[1].holds_activations());
  EXPECT_EQ(trace.chunks[1].pieces, 1);
  ASSERT_EQ(trace.blocks.size(), 1u);
  EXPECT_EQ(trace.blocks[0].offload_pieces, 3);
  EXPECT_EQ(trace.blocks[0].offload_bytes, 64);
  EXPECT_TRUE(trace.blocks[0].offloaded);
  EXPECT_THAT(with(R"(,"block":-1,"pieces":3)", "").status().message(),
              HasSubstr("chunks[0].block must be an integer from 0"));
  EXPECT_THAT(with(R"(,"block":1,"pieces":0)", "").status().message(),
              HasSubstr("chunks[0].pieces must be an integer from 1"));
  EXPECT_THAT(with("", R"(,"offload_bytes":64)").status().message(),
              HasSubstr("blocks[0]"));
}

TEST(TraceFile, ReadsWhetherAddressesArePlanned) {
  const auto with = [](absl::string_view of_plan,
                       absl::string_view of_prediction) {
    return ParseTrace(absl::StrReplaceAll(
        All(),
        {{"\"warmup\":", absl::StrCat(of_plan, "\"warmup\":")},
         {"\"predicted\":{", absl::StrCat("\"predicted\":{", of_prediction)}}));
  };
  const auto planned = with("\"planned_addresses\":true,", "");
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->plans[0].planned_addresses, true);
  EXPECT_FALSE(planned->plans[0].predicted.moves.has_value());
  const auto moves =
      with("\"planned_addresses\":false,", "\"moves\":3,\"moved_bytes\":768,");
  ASSERT_TRUE(moves.ok()) << moves.status();
  EXPECT_EQ(moves->plans[0].planned_addresses, false);
  EXPECT_EQ(moves->plans[0].predicted.moves, 3);
  EXPECT_EQ(moves->plans[0].predicted.moved_bytes, 768);
  EXPECT_THAT(with("\"planned_addresses\":1,", "").status().message(),
              HasSubstr("planned_addresses"));
  EXPECT_THAT(with("", "\"moves\":3,").status().message(),
              HasSubstr("moved_bytes"));
}

TEST(TraceFile, ReadsTheDocumentedRecords) {
  const auto contents = ParseTrace(All());
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_FALSE(contents->truncated);
  EXPECT_EQ(contents->run->device_budget_bytes, 4096);
  EXPECT_EQ(contents->run->host_budget_bytes, kUnlimitedBytes);
  EXPECT_EQ(contents->run->streams,
            (std::vector<std::string>{"compute", "h2d"}));
  ASSERT_EQ(contents->step_traces.size(), 1u);
  const StepTrace& trace = contents->step_traces[0];
  EXPECT_TRUE(trace.global_norm);
  ASSERT_EQ(trace.chunks.size(), 2u);
  EXPECT_EQ(trace.chunks[0].parameters, std::vector<std::string>{"wte"});
  ASSERT_EQ(trace.ops.size(), 2u);
  EXPECT_EQ(trace.ops[0].chunks,
            (std::vector<ChunkUse>{{ChunkId(0), false}, {ChunkId(1), true}}));
  EXPECT_EQ(trace.ops[0].shapes, "[2] -> [2, 8]");
  EXPECT_EQ(trace.ops[1].kind, OpKind::kReduce);
  EXPECT_EQ(trace.ops[1].host_duration_ns, 2);
  ASSERT_EQ(contents->plans.size(), 1u);
  const PlanRecord& plan = contents->plans[0];
  EXPECT_EQ(plan.d2h_bytes_per_s, 4e9);
  EXPECT_EQ(plan.initial, std::vector<ChunkId>{ChunkId(1)});
  EXPECT_EQ(plan.actions,
            (std::vector<ActionRecord>{
                {Moment(0), ActionKind::kFetch, ChunkId(0), Moment(0)},
                {Moment(2), ActionKind::kDrop, ChunkId(0), Moment()}}));
  EXPECT_EQ(plan.predicted.op_start_ns, (std::vector<int64_t>{7, 20}));
  EXPECT_EQ(contents->steps, (std::vector<StepRecord>{{5, 3, 0, 1000}}));
  EXPECT_EQ(contents->hosts, (std::vector<HostRecord>{{1000, {1536, 0}}}));
  EXPECT_EQ(contents->issues,
            (std::vector<IssueRecord>{{0, Moment(0), 1001, 768, {512, 256}}}));
  const WorkRecord fetch = {
      1, 4, WorkKind::kFetch, 0, Moment(0), ChunkId(0), 1002, 1050, 5};
  const WorkRecord run = {
      0, 10, WorkKind::kOperator, 0, Moment(0), ChunkId(), 1050, 1060, 5};
  EXPECT_EQ(contents->works, (std::vector<WorkRecord>{fetch, run}));
  ASSERT_EQ(contents->waits.size(), 1u);
  EXPECT_EQ(contents->waits[0].waiter.start_ns, 1010);
  EXPECT_EQ(contents->waits[0].until, (WaitRecord::Untils{{1, 4}}));
  EXPECT_EQ(
      contents->results,
      (std::vector<ResultRecord>{{3, 1100, 100, 40, 256, 0, 1088, -2.5}}));
  EXPECT_EQ(contents->refusal->smallest_host_budget_bytes, kUnlimitedBytes);
  EXPECT_EQ(contents->end, (EndRecord{"failed", "disk", 1200}));
}

// Work that no stream does has no number on one.
TEST(TraceFile, ReadsPauses) {
  const auto contents =
      ParseTrace(absl::StrCat(kHeader, kRun, "[\"work\",0,0,11,0,-1,-1,5,9]\n",
                              "[\"work\",0,0,12,0,-1,-1,9,11]\n"));
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->works.size(), 2u);
  EXPECT_EQ(contents->works[0].kind, WorkKind::kPlanning);
  EXPECT_EQ(contents->works[1].kind, WorkKind::kSaving);
  EXPECT_EQ(contents->works[1].end_ns, 11);
}

// This test keeps the description true.
TEST(TraceFile, ReadsTheExampleOfItsDescription) {
  std::ifstream file("docs/trace-format.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t begin = text.find("```json\n") + 8;
  ASSERT_NE(begin, std::string::npos + 8);
  const auto contents =
      ParseTrace(text.substr(begin, text.find("```", begin) - begin));
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_TRUE(contents->run.has_value());
  EXPECT_EQ(contents->step_traces.size(), 1u);
  EXPECT_EQ(contents->plans.size(), 1u);
  EXPECT_EQ(contents->issues.size(), 1u);
  EXPECT_EQ(contents->waits.size(), 1u);
  EXPECT_TRUE(contents->end.has_value());
}

TEST(TraceFile, WorkOfNoStepHasNoOperator) {
  const auto contents = ParseTrace(
      absl::StrCat(kHeader, kRun, kStepTrace, "[\"work\",1,1,2,0,-1,1,5,9]\n"));
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->works[0].step, -1);
  EXPECT_EQ(contents->works[0].chunk, ChunkId(1));
}

TEST(TraceFile, ATagIsTheLatestStepThatBeganWithIt) {
  const std::string again = absl::StrReplaceAll(kStep, {{":3,", ":70000,"}});
  const auto contents = ParseTrace(absl::StrCat(
      kHeader, kRun, kStepTrace, kPlan, kStep, kEvents, again, kEvents));
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->issues.size(), 2u);
  EXPECT_EQ(contents->issues[0].step, 0);
  EXPECT_EQ(contents->issues[1].step, 1);
  EXPECT_EQ(contents->steps[1].step, 70000);
}

TEST(TraceFile, LeavesOutATruncatedLineAndSaysSo) {
  const std::string text = All();
  size_t whole = sizeof(kHeader) - 1;
  for (size_t size = whole; size < text.size(); ++size) {
    if (text[size - 1] == '\n') whole = size;
    const auto contents = ParseTrace(text.substr(0, size));
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->truncated, size != whole);
  }
  // Without its first line it is no trace.
  for (size_t size = 0; size < sizeof(kHeader) - 1; ++size) {
    EXPECT_FALSE(ParseTrace(text.substr(0, size)).ok());
  }
}

// A reader that a writer overtakes sees zeros: later lines are there already.
TEST(TraceFile, EndsWhereItsWriterHasNotYetWritten) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/run.trace";
  std::string text = All();
  const size_t line = text.rfind('\n', text.size() / 2) + 1;
  std::fill_n(text.begin() + line + 5, 20, '\0');
  WriteFile(path, text);
  EXPECT_FALSE(ReadTraceFile(path).ok()) << "nobody writes to it any more";
  const int fd = open(path.c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  const auto live = ReadTraceFile(path);
  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_TRUE(live->truncated);
  close(fd);
}

std::string Error(absl::string_view text) {
  const auto contents = ParseTrace(text, "file");
  EXPECT_EQ(contents.status().code(), absl::StatusCode::kInvalidArgument)
      << text;
  return std::string(contents.status().message());
}

TEST(TraceFile, RefusesWhatIsNoTrace) {
  EXPECT_THAT(Error(""), HasSubstr("no complete first line"));
  EXPECT_THAT(Error("hello\n"), HasSubstr("file, line 1: not valid JSON"));
  EXPECT_THAT(Error("{}\n"), HasSubstr("line 1: format is missing"));
  EXPECT_THAT(Error("[]\n"), HasSubstr("line 1: the record is no object"));
  for (const char* other : {"hello\n", "{}\n", "[]\n"}) {
    EXPECT_THAT(Error(other), EndsWith(": no Castor trace"));
  }
  EXPECT_THAT(Error("{\"format\":\"other\",\"version\":18}\n"),
              HasSubstr("this is no Castor trace"));
}

// Versions 2 to 17 were written before the first release.
TEST(TraceFile, RefusesOtherVersionsAndSaysWhatToDo) {
  for (const int64_t version : {2, 14, 17, 19}) {
    EXPECT_THAT(
        Error(absl::StrCat("{\"format\":\"castor-trace\",\"version\":", version,
                           "}\n")),
        AllOf(HasSubstr(absl::StrCat("line 1: version is ", version,
                                     ", and this program reads 18 alone")),
              HasSubstr("record the trace anew, or read it with the Castor "
                        "that wrote it")));
  }
}

TEST(TraceFile, RefusesANumberOfRanksThatNoRunHas) {
  for (const char* ranks : {"0", "-1", "1048577", "null", "\"1\""}) {
    EXPECT_THAT(
        Error(absl::StrCat("{\"format\":\"castor-trace\",\"version\":18,"
                           "\"ranks\":",
                           ranks, "}\n")),
        HasSubstr("ranks must be an integer from 1 to 1048576"));
  }
  EXPECT_THAT(Error("{\"format\":\"castor-trace\",\"version\":18}\n"),
              HasSubstr("ranks is missing"));
}

TEST(TraceFile, NamesTheLineAndThePlaceOfEachFault) {
  const struct {
    const char* from;  // a piece of All()
    const char* to;
    const char* message;
  } kCases[] = {
      {"\"type\":\"run\"", "\"type\":\"rum\"", "line 2: type is \"rum\""},
      {"\"steps\":9", "\"steps\":-1", "line 2: steps must be an integer from"},
      {"\"steps\":9", "\"steps\":1.5", "line 2: steps must be an integer"},
      {"\"steps\":9", "\"steps\":1,\"x\":2",
       "line 2: the record has the unknown"},
      {"\"title\":\"gpt2\",", "", "line 2: title is missing"},
      {"\"title\":\"gpt2\"", "\"title\":3", "line 2: title must be a string"},
      {"\"threads\":2", "\"threads\":18446744073709551615", "threads must"},
      {"\"streams\":[\"compute\"", "\"streams\":[1", "streams must hold str"},
      {"\"micro_batches\":1", "\"micro_batches\":0", "micro_batches must be"},
      {"\"training\":true", "\"training\":1", "training must be true or false"},
      {"\"training\":true", "\"training\":false",
       "ops[1].kind must be compute"},
      {"\"chunks\":[0,1]", "\"chunks\":[1,0]",
       "ops[0].chunks must hold ascend"},
      {"\"chunks\":[0,1]", "\"chunks\":[0,2]",
       "ops[0].chunks must hold ascend"},
      {"\"writes\":[1]", "\"writes\":[1,1]", "ops[0].writes must hold ascend"},
      {"\"chunks\":[0,1]", "\"chunks\":[0]", "ops[0].writes must be among"},
      {"\"chunks\":[0],", "\"chunks\":[],",
       "ops[1].chunks must hold one chunk"},
      {"\"chunks\":[0],", "\"chunks\":[1],",
       "ops[1].chunks names a chunk with"},
      {"\"workspace_bytes\":8", "\"workspace_bytes\":65",
       "ops[0].workspace_bytes must be an integer from 0 to 64"},
      {"\"kind\":\"compute\"", "\"kind\":\"c\"",
       "ops[0].kind is \"c\", not one"},
      {"\"parameters\":[\"wte\"]", "\"parameters\":[1]",
       "chunks[0].parameters must hold strings"},
      {"\"optimizer_bytes\":768", "\"optimizer_bytes\":1152921504606846976",
       "chunks[0] makes the model larger"},
      {"\"duration_ns\":10", "\"duration_ns\":1152921504606846976",
       "ops take longer"},
      {"[\"wte\"]", "[[[[[[]]]]]]", "line 3: nested deeper"},
      {"[\"wte\"]", "{}", "chunks[0].parameters must be a list"},
      {"\"trace\":0", "\"trace\":1", "line 4: trace must be an integer from 0"},
      {"\"h2d_bytes_per_s\":8e9", "\"h2d_bytes_per_s\":0", "must be a number"},
      {"\"initial\":[1]", "\"initial\":[2]", "initial must hold ascending"},
      {"[0,0,0,0]", "[0,10,0,0]", "line 4: actions must hold lists"},
      {"[0,0,0,0]", "[3,0,0,0]", "line 4: actions must hold lists"},
      {"[0,0,0,0]", "[0,0,2,0]", "line 4: actions must hold lists"},
      {"[0,0,0,0]", "[0,0,0]", "line 4: actions must hold lists"},
      {"[2,2,0,-1]", "[2,2,0,2]", "line 4: actions must hold lists"},
      {"[7,20]", "[7]", "predicted.op_start_ns must hold 2 integers"},
      {"[1088,1024]", "[1088,-1]", "predicted.device_bytes must hold 2"},
      {"\"tag\":5", "\"tag\":0", "line 5: tag must be an integer from 1"},
      {"\"plan\":0", "\"plan\":1", "line 5: plan must be an integer from 0"},
      {"\"refused\":false,", "\"refused\":true,", "op_start_ns must hold 0"},
      {"[\"host\",1000,1536,0]", "[\"host\",1000,1536]",
       "line 6: has 1 numbers, not 2"},
      {"\"host\",1000", "\"hose\",1000", "line 6: is a list of type \"hose\""},
      {"[\"host\",1000", "[\"host\",1e3", "line 6: is no list of a type and"},
      {"[\"host\",1000", "[[],1000", "line 6: is no list of a type and"},
      {"\"op\",5,0", "\"op\",6,0", "operator of a step that did not begin"},
      {"\"op\",5,0", "\"op\",5,2", "the moment is 2, not from 0 to 1"},
      {"768,512,256", "767,512,256", "categories of 768 bytes in all, where"},
      {"768,512,256", "0,512,-512", "a category's bytes is -512"},
      {"\"work\",1,4", "\"work\",2,4", "line 8: the stream is 2, not from 0"},
      {"1002,1050]", "1002,1001]", "line 8: the end is 1001, not from 1002"},
      {",0,0,1002", ",0,2,1002", "line 8: the chunk is 2, not from -1 to 1"},
      {",0,0,1002", ",3,0,1002", "line 8: the moment is 3, not from -1 to 2"},
      {"\"work\",1,4,2", "\"work\",1,4,14", "the kind of work is 14"},
      {"\"work\",1,4,2", "\"work\",1,0,2", "the count is 0, not from 1"},
      {"1050,1,4]", "1050,1]", "line 9: has not 8 numbers and pairs"},
      {"1050,1,4]", "1050,2,4]", "line 9: the stream waited for is 2"},
      {"\"loss\":-2.5", "\"loss\":[]", "line 11: loss must be a number"},
  };
  const std::string good = All();
  for (const auto& [from, to, message] : kCases) {
    const size_t at = good.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::string bad = good;
    bad.replace(at, std::string(from).size(), to);
    EXPECT_THAT(Error(bad), HasSubstr(message));
  }
  EXPECT_THAT(Error(absl::StrCat(kHeader, "\n")), HasSubstr("line 2"));
  EXPECT_THAT(Error(absl::StrCat(kHeader, "[\"host\",1]\n")),
              HasSubstr("comes before the run record"));
  EXPECT_THAT(Error(absl::StrCat(kHeader, kRun, kRun)),
              HasSubstr("second run"));
  EXPECT_THAT(Error(absl::StrCat(
                  kHeader, absl::StrReplaceAll(
                               kRun, {{"gpt2", std::string(5000, 'a')}}))),
              HasSubstr("title must be a string of at most 4096 bytes"));
}

TEST(ReadTraceFile, RefusesWhatIsTooLargeWithoutReadingIt) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  WriteFile(path, absl::StrCat(kHeader, kRun));
  std::filesystem::resize_file(path, int64_t{4} << 30);
  const auto contents = ReadTraceFile(path);
  EXPECT_EQ(contents.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(contents.status().message()),
              AllOf(HasSubstr(path), HasSubstr("is larger than 512 MiB")));
}

// A file of 64 MB and, beside what there is, room for 20.
TEST(ReadTraceFile, NamesTheFileThatMemoryDoesNotSufficeFor) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  std::string text = absl::StrCat(kHeader, kRun);
  std::string works;
  while (works.size() < 64'000) works += "[\"work\",0,1,0,0,0,-1,0,0]\n";
  for (int i = 0; i < 1000; ++i) text += works;
  WriteFile(path, text);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t room = pages * sysconf(_SC_PAGESIZE) + 20'000'000;
    const rlimit limit = {room, room};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
    const absl::Status status = ReadTraceFile(path).status();
    if (status.ok()) _exit(4);
    if (!absl::IsResourceExhausted(status)) _exit(2);
    _exit(absl::StrContains(status.message(), path) ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ReadTraceFile, NamesAMissingFile) {
  EXPECT_EQ(ReadTraceFile("/no/such.jsonl").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadTraceFile("/tmp").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor
