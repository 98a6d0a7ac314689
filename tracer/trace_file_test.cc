#include "tracer/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] = "{\"format\":\"castor-trace\",\"version\":1}\n";
constexpr char kSpan[] =
    "{\"type\":\"span\",\"stream\":\"h2d\",\"name\":\"fetch\",\"start_ns\":5,"
    "\"end_ns\":7,\"step\":1}\n";
constexpr char kMemory[] =
    "{\"type\":\"memory\",\"tier\":\"device\",\"time_ns\":3,"
    "\"bytes\":{\"payload\":4096}}\n";
constexpr char kStep[] =
    "{\"type\":\"step_trace\",\"signature\":\"s\",\"training\":true,"
    "\"micro_batches\":1,\"measured\":false,\"chunks\":[{\"payload_bytes\":256,"
    "\"optimizer_bytes\":768,\"parameters\":[\"wte\"]},{\"payload_bytes\":256,"
    "\"optimizer_bytes\":0,\"parameters\":[]}],\"ops\":[{\"name\":\"embed\","
    "\"kind\":\"compute\",\"phase\":\"forward\",\"chunks\":[0,1],"
    "\"writes\":[1],\"non_model_peak_bytes\":64,\"workspace_bytes\":8,"
    "\"duration_ns\":10,"
    "\"host_duration_ns\":0},{\"name\":\"reduce\",\"kind\":\"reduce\","
    "\"phase\":\"backward\",\"chunks\":[0],\"writes\":[],"
    "\"non_model_peak_bytes\":0,\"workspace_bytes\":0,\"duration_ns\":1,\"host_"
    "duration_ns\":2}]}\n";

std::string TemporaryPath(const char* name) {
  const char* base = std::getenv("TEST_TMPDIR");
  return absl::StrCat(base == nullptr ? "/tmp" : base, "/", getpid(), name);
}

// StepTrace has no ==, since equal signatures are what matters elsewhere.
bool Same(const StepTrace& a, const StepTrace& b) {
  if (a.signature != b.signature || a.training != b.training ||
      a.micro_batches != b.micro_batches || a.measured != b.measured ||
      a.chunks.size() != b.chunks.size() || a.ops.size() != b.ops.size()) {
    return false;
  }
  for (size_t i = 0; i < a.chunks.size(); ++i) {
    if (a.chunks[i].payload_bytes != b.chunks[i].payload_bytes ||
        a.chunks[i].optimizer_bytes != b.chunks[i].optimizer_bytes ||
        a.chunks[i].parameters != b.chunks[i].parameters) {
      return false;
    }
  }
  for (size_t i = 0; i < a.ops.size(); ++i) {
    const OpRecord &x = a.ops[i], &y = b.ops[i];
    if (x.name != y.name || x.kind != y.kind || x.phase != y.phase ||
        x.chunks != y.chunks ||
        x.non_model_peak_bytes != y.non_model_peak_bytes ||
        x.workspace_bytes != y.workspace_bytes ||
        x.duration_ns != y.duration_ns ||
        x.host_duration_ns != y.host_duration_ns) {
      return false;
    }
  }
  return true;
}

TEST(TraceFile, ReadsTheDocumentedRecords) {
  const auto contents =
      ParseTrace(absl::StrCat(kHeader, kStep, kSpan, kMemory));
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_FALSE(contents->truncated);
  ASSERT_EQ(contents->step_traces.size(), 1u);
  const StepTrace& trace = contents->step_traces[0];
  ASSERT_EQ(trace.chunks.size(), 2u);
  EXPECT_EQ(trace.chunks[0].parameters, std::vector<std::string>{"wte"});
  ASSERT_EQ(trace.ops.size(), 2u);
  EXPECT_EQ(trace.ops[0].chunks,
            (std::vector<ChunkUse>{{ChunkId(0), false}, {ChunkId(1), true}}));
  EXPECT_EQ(trace.ops[0].workspace_bytes, 8);
  EXPECT_EQ(trace.ops[1].kind, OpKind::kReduce);
  EXPECT_EQ(trace.ops[1].phase, Phase::kBackward);
  EXPECT_EQ(trace.ops[1].host_duration_ns, 2);
  ASSERT_EQ(contents->spans.size(), 1u);
  EXPECT_EQ(contents->spans[0], (SpanRecord{"h2d", "fetch", 5, 7, 1}));
  ASSERT_EQ(contents->memory.size(), 1u);
  EXPECT_EQ(contents->memory[0],
            (MemoryRecord{"device", 3, {{"payload", 4096}}}));
}

TEST(TraceFile, LeavesOutATruncatedLineAndSaysSo) {
  const std::string whole = absl::StrCat(kHeader, kSpan);
  const std::string text = absl::StrCat(whole, kStep);
  for (size_t size = whole.size(); size < text.size(); ++size) {
    const auto contents = ParseTrace(text.substr(0, size));
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->truncated, size != whole.size());
    EXPECT_EQ(contents->spans.size(), 1u);
    EXPECT_TRUE(contents->step_traces.empty());
  }
  // Without its first line it is no trace.
  for (size_t size = 0; size < sizeof(kHeader) - 1; ++size) {
    EXPECT_FALSE(ParseTrace(text.substr(0, size)).ok());
  }
}

std::string Error(absl::string_view text) {
  const auto contents = ParseTrace(text, "file");
  EXPECT_EQ(contents.status().code(), absl::StatusCode::kInvalidArgument)
      << text;
  return std::string(contents.status().message());
}

TEST(TraceFile, RefusesWhatIsNoTrace) {
  EXPECT_THAT(Error(""), HasSubstr("no complete first line"));
  EXPECT_THAT(Error("hello\n"), HasSubstr("file, line 1: is no JSON"));
  EXPECT_THAT(Error("{}\n"), HasSubstr("line 1: format is missing"));
  EXPECT_THAT(Error("[]\n"), HasSubstr("line 1: the record is no object"));
  EXPECT_THAT(Error("{\"format\":\"other\",\"version\":1}\n"),
              HasSubstr("this is no Castor trace"));
  EXPECT_THAT(Error("{\"format\":\"castor-trace\",\"version\":2}\n"),
              HasSubstr("version is 2, and this program reads 1"));
}

TEST(TraceFile, NamesTheLineAndThePlaceOfEachFault) {
  const struct {
    const char* from;  // a piece of kStep, kSpan or kMemory
    const char* to;
    const char* message;
  } kCases[] = {
      {"\"type\":\"span\"", "\"type\":\"spam\"", "line 3: type is \"spam\""},
      {"\"step\":1", "\"step\":-1", "line 3: step must be an integer from 0"},
      {"\"step\":1", "\"step\":1.5", "line 3: step must be an integer"},
      {"\"step\":1", "\"step\":1,\"x\":2",
       "line 3: the record has the unknown"},
      {"\"end_ns\":7", "\"end_ns\":4",
       "line 3: end_ns must be an integer from"},
      {"\"stream\":\"h2d\",", "", "line 3: stream is missing"},
      {"\"stream\":\"h2d\"", "\"stream\":3", "line 3: stream must be a string"},
      {"\"start_ns\":5", "\"start_ns\":18446744073709551615", "start_ns must"},
      {"4096", "-1", "line 4: bytes must hold named integers"},
      {"{\"payload\":4096}", "[1]", "line 4: bytes must be an object"},
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
      {"[\"wte\"]", "[[[[[[]]]]]]", "line 2: is nested deeper"},
      {"[\"wte\"]", "{}", "chunks[0].parameters must be a list"},
  };
  const std::string good = absl::StrCat(kHeader, kStep, kSpan, kMemory);
  for (const auto& [from, to, message] : kCases) {
    const size_t at = good.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::string bad = good;
    bad.replace(at, std::string(from).size(), to);
    EXPECT_THAT(Error(bad), HasSubstr(message));
  }
  EXPECT_THAT(Error(absl::StrCat(kHeader, "\n")), HasSubstr("line 2"));
  EXPECT_THAT(Error(absl::StrCat(
                  kHeader, absl::StrReplaceAll(
                               kSpan, {{"fetch", std::string(5000, 'a')}}))),
              HasSubstr("name must be a string of at most 4096 bytes"));
}

// What JSON must escape, and text of more than one byte per character.
std::string DrawName() {
  std::string name;
  for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(
           rc::gen::element<std::string>(
               "a", "/", ".", "\"", "\\", "\n", "\x01", "\x7f", "\xc3\xa9",
               "\xf0\x9f\x98\x80", std::string(1, '\0')))) {
    name += piece;
  }
  return name;
}

StepTrace DrawStepTrace() {
  const auto amount = rc::gen::inRange<int64_t>(0, int64_t{1} << 40);
  StepTrace trace;
  trace.signature = DrawName();
  trace.training = *rc::gen::arbitrary<bool>();
  trace.measured = *rc::gen::arbitrary<bool>();
  trace.micro_batches = *rc::gen::inRange<int64_t>(1, 1000);
  const int chunks = *rc::gen::inRange(1, 8);
  for (int i = 0; i < chunks; ++i) {
    ChunkInfo chunk;
    chunk.payload_bytes = *amount;
    chunk.optimizer_bytes = 1 + *amount;
    chunk.parameters.assign(*rc::gen::inRange(0, 3), "h.0.\"x\\\n");
    trace.chunks.push_back(chunk);
  }
  const int ops = *rc::gen::inRange(0, 20);
  for (int i = 0; i < ops; ++i) {
    OpRecord op;
    op.name = DrawName();
    op.phase =
        *rc::gen::element(Phase::kForward, Phase::kBackward, Phase::kOptimizer);
    if (trace.training) {
      op.kind =
          *rc::gen::element(OpKind::kCompute, OpKind::kReduce, OpKind::kUpdate);
    }
    if (op.kind == OpKind::kCompute) {
      for (int c = 0; c < chunks; ++c) {
        if (*rc::gen::arbitrary<bool>()) {
          op.chunks.push_back({ChunkId(c), *rc::gen::arbitrary<bool>()});
        }
      }
    } else {
      op.chunks.push_back(
          {ChunkId(*rc::gen::inRange(0, chunks)), *rc::gen::arbitrary<bool>()});
    }
    op.non_model_peak_bytes = *amount;
    op.workspace_bytes = op.non_model_peak_bytes / 3;
    op.duration_ns = *amount;
    op.host_duration_ns = *amount;
    trace.ops.push_back(op);
  }
  return trace;
}

TEST(TraceFileProperty, SurvivesARoundTrip) {
  const std::string path = TemporaryPath("round_trip.jsonl");
  EXPECT_TRUE(rc::check([&] {
    std::vector<StepTrace> traces;
    std::vector<SpanRecord> spans;
    std::vector<MemoryRecord> memory;
    auto writer = TraceWriter::Create(path);
    RC_ASSERT(writer.ok());
    const int records = *rc::gen::inRange(0, 6);
    for (int i = 0; i < records; ++i) {
      switch (*rc::gen::inRange(0, 3)) {
        case 0:
          traces.push_back(DrawStepTrace());
          RC_ASSERT((*writer)->Append(traces.back()).ok());
          break;
        case 1: {
          const auto start = *rc::gen::inRange<int64_t>(0, 1'000'000'000);
          spans.push_back({"compute", DrawName(), start,
                           start + *rc::gen::inRange<int64_t>(0, 1000), i});
          RC_ASSERT((*writer)->Append(spans.back()).ok());
          break;
        }
        default:
          memory.push_back({"host", i, {{"master", 3 * i}, {"m \"", i}}});
          RC_ASSERT((*writer)->Append(memory.back()).ok());
      }
      // Whole after each record, without closing.
      const auto contents = ReadTraceFile(path);
      RC_ASSERT(contents.ok());
      RC_ASSERT(!contents->truncated);
    }
    const auto contents = ReadTraceFile(path);
    RC_ASSERT(contents.ok());
    RC_ASSERT(contents->step_traces.size() == traces.size());
    for (size_t i = 0; i < traces.size(); ++i) {
      RC_ASSERT(Same(contents->step_traces[i], traces[i]));
    }
    RC_ASSERT(contents->spans == spans);
    RC_ASSERT(contents->memory == memory);
  }));
  unlink(path.c_str());
}

TEST(TraceWriter, KeepsRecordsOfSeveralThreadsWhole) {
  const std::string path = TemporaryPath("threads.jsonl");
  auto writer = TraceWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE((*writer)
                        ->Append(SpanRecord{absl::StrCat("stream ", t),
                                            std::string(t * 500, 'x'), i, i, i})
                        .ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto contents = ReadTraceFile(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->spans.size(), 400u);
  unlink(path.c_str());
}

TEST(TraceWriter, ReplacesBytesThatAreNoUtf8) {
  const std::string path = TemporaryPath("utf8.jsonl");
  auto writer = TraceWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append(SpanRecord{"s", "a\xff", 0, 0, 0}).ok());
  const auto contents = ReadTraceFile(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->spans.at(0).name, "a\xef\xbf\xbd");
  unlink(path.c_str());
}

TEST(TraceWriter, ReportsAFileThatCannotBeWritten) {
  EXPECT_EQ(TraceWriter::Create("/no/such/dir/t").status().code(),
            absl::StatusCode::kUnavailable);
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const auto full = TraceWriter::Create("/dev/full");
  EXPECT_EQ(full.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(full.status().message()), HasSubstr("/dev/full"));
}

TEST(ReadTraceFile, NamesAMissingFile) {
  EXPECT_EQ(ReadTraceFile("/no/such.jsonl").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadTraceFile("/tmp").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace castor
