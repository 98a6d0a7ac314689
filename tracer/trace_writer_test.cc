#include "tracer/trace_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "tracer/trace_file.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string TemporaryPath(const char* name) {
  const char* base = std::getenv("TEST_TMPDIR");
  return absl::StrCat(base == nullptr ? "/tmp" : base, "/", getpid(), name);
}

// Draws names with characters that JSON must escape, and with characters of
// more than one byte.
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
  trace.global_norm = *rc::gen::arbitrary<bool>();
  trace.micro_batches = *rc::gen::inRange<int64_t>(1, 1000);
  const int chunks = *rc::gen::inRange(1, 8);
  for (int i = 0; i < chunks; ++i) {
    ChunkInfo chunk;
    chunk.payload_bytes = *amount;
    chunk.optimizer_bytes = 1 + *amount;
    chunk.parameters.assign(*rc::gen::inRange(0, 3), "h.0.\"x\\\n");
    if (*rc::gen::arbitrary<bool>()) {
      chunk.payload_bytes += 4;
      chunk.shard_bytes = chunk.payload_bytes / 4;
    }
    if (*rc::gen::arbitrary<bool>()) chunk.sum_bytes = chunk.optimizer_bytes;
    trace.chunks.push_back(chunk);
  }
  const int ops = *rc::gen::inRange(0, 20);
  for (int i = 0; i < ops; ++i) {
    OpRecord op;
    op.name = DrawName();
    op.shapes = DrawName();
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
    if (op.kind == OpKind::kUpdate) op.reduced_bytes = *amount;
    if (op.kind == OpKind::kCompute) op.flops = *amount;
    trace.ops.push_back(op);
  }
  for (int i = 0; i < ops; i += *rc::gen::inRange(1, 20)) {
    trace.blocks.push_back({.block = i,
                            .kept = *rc::gen::arbitrary<bool>(),
                            .forward = Moment(i),
                            .backward = Moment(*rc::gen::inRange(0, ops + 1)),
                            .kept_bytes = *amount - (int64_t{1} << 39),
                            .kept_peak_bytes = {*amount, 0},
                            .remake_bytes = *amount - (int64_t{1} << 39)});
  }
  return trace;
}

std::vector<ChunkId> DrawChunks(const StepTrace& trace) {
  std::vector<ChunkId> chunks;
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    if (*rc::gen::arbitrary<bool>()) {
      chunks.push_back(ChunkId(static_cast<int64_t>(c)));
    }
  }
  return chunks;
}

PlanRecord DrawPlan(int64_t index, const StepTrace& trace) {
  const auto amount = rc::gen::inRange<int64_t>(0, int64_t{1} << 40);
  PlanRecord plan;
  plan.trace = index;
  plan.policy = DrawName();
  plan.warmup = *rc::gen::arbitrary<bool>();
  plan.refused = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) plan.device_budget_bytes = *amount;
  plan.host_reserved_bytes = *amount;
  plan.h2d_bytes_per_s = 1.0 / 3 + static_cast<double>(*amount) + 1;
  plan.d2h_bytes_per_s = 1e9;
  plan.gpu_margin_mem_ratio = 0.1;
  if (*rc::gen::arbitrary<bool>()) {
    plan.world_size = 4;
    plan.network_bytes_per_s = 2.5e9;
  }
  if (*rc::gen::arbitrary<bool>()) {
    plan.speculation_host_bytes = 1 + *amount;
    plan.speculation_miss_rate = 0.125;
  }
  if (*rc::gen::arbitrary<bool>()) {
    plan.planned_addresses = *rc::gen::arbitrary<bool>();
    plan.predicted.moves = *amount;
    plan.predicted.moved_bytes = *amount;
  }
  plan.device_side = DrawChunks(trace);
  plan.initial = DrawChunks(trace);
  plan.initial_dirty = plan.initial;
  for (size_t t = 0; t <= trace.ops.size(); ++t) {
    for (const ChunkId chunk : DrawChunks(trace)) {
      plan.actions.push_back(
          {Moment(static_cast<int64_t>(t)),
           kActionRows[*rc::gen::inRange(0, kNumActionKinds)].kind, chunk,
           Moment(*rc::gen::inRange<int64_t>(
               -1, static_cast<int64_t>(trace.ops.size())))});
    }
  }
  plan.predicted.step_ns = *amount;
  if (!plan.refused) {
    plan.predicted.op_start_ns.assign(trace.ops.size(), *amount);
    plan.predicted.device_bytes.assign(trace.ops.size(), *amount);
  }
  return plan;
}

TEST(TraceFileProperty, SurvivesARoundTrip) {
  const std::string path = TemporaryPath("round_trip.jsonl");
  EXPECT_TRUE(rc::check([&] {
    auto writer = TraceWriter::Create(path);
    RC_ASSERT(writer.ok());
    TraceContents sent;
    sent.run = RunRecord{.title = DrawName(),
                         .device = "host",
                         .policy = "cpu",
                         .categories = {"a", DrawName()},
                         .streams = {"compute"}};
    (*writer)->Append(*sent.run);
    const int records = *rc::gen::inRange(0, 8);
    for (int i = 0; i < records; ++i) {
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          sent.step_traces.push_back(DrawStepTrace());
          RC_ASSERT((*writer)->Append(sent.step_traces.back()) ==
                    static_cast<int64_t>(sent.step_traces.size()) - 1);
          break;
        case 1: {
          if (sent.step_traces.empty()) break;
          const int64_t trace =
              static_cast<int64_t>(sent.step_traces.size()) - 1;
          sent.plans.push_back(DrawPlan(trace, sent.step_traces.back()));
          RC_ASSERT((*writer)->Append(sent.plans.back()) ==
                    static_cast<int64_t>(sent.plans.size()) - 1);
          break;
        }
        case 2: {
          const auto start = *rc::gen::inRange<int64_t>(0, 1'000'000'000);
          sent.works.push_back({.stream = 0,
                                .count = i + 1,
                                .kind = WorkKind::kMove,
                                .start_ns = start,
                                .end_ns = start + i});
          (*writer)->Append(sent.works.back());
          break;
        }
        default:
          sent.results.push_back({.step = i + 1, .loss = i / 3.0});
          (*writer)->Append(sent.results.back());
          sent.budgets.push_back({.time_ns = i,
                                  .step = i + 1,
                                  .from_bytes = kUnlimitedBytes,
                                  .to_bytes = i,
                                  .asker = static_cast<BudgetAsker>(i % 3)});
          (*writer)->Append(sent.budgets.back());
      }
      RC_ASSERT((*writer)->status().ok());
      // Whole after each record, without closing.
      const auto contents = ReadTraceFile(path);
      RC_ASSERT(contents.ok());
      RC_ASSERT(!contents->truncated);
    }
    const auto contents = ReadTraceFile(path);
    RC_ASSERT(contents.ok());
    RC_ASSERT(contents->run == sent.run);
    RC_ASSERT(contents->step_traces == sent.step_traces);
    RC_ASSERT(contents->plans == sent.plans);
    RC_ASSERT(contents->works == sent.works);
    RC_ASSERT(contents->results == sent.results);
    RC_ASSERT(contents->budgets == sent.budgets);
  }));
  unlink(path.c_str());
}

TEST(TraceWriter, KeepsRecordsOfSeveralThreadsWhole) {
  const std::string path = TemporaryPath("threads.jsonl");
  auto writer = TraceWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  (*writer)->Append(RunRecord{.streams = {"a", "b", "c", "d"}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 100; ++i) {
        const WorkRecord work = {
            .stream = t, .count = i, .start_ns = i, .end_ns = i + 1};
        (*writer)->Append(work);
        (*writer)->Append(
            WaitRecord{.waiter = work, .until = {{0, i}, {3, i}}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE((*writer)->status().ok());
  const auto contents = ReadTraceFile(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->works.size(), 400u);
  EXPECT_EQ(contents->waits.size(), 400u);
  unlink(path.c_str());
}

TEST(TraceWriter, ReplacesBytesThatAreNoUtf8) {
  const std::string path = TemporaryPath("utf8.jsonl");
  auto writer = TraceWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  (*writer)->Append(RunRecord{.title = "a\xff"});
  const auto contents = ReadTraceFile(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->run->title, "a\xef\xbf\xbd");
  unlink(path.c_str());
}

TEST(TraceWriter, CutsTextToWhatTheReaderAccepts) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  auto writer = TraceWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  std::string accents;
  for (int i = 0; i < 3000; ++i) accents += "\xc3\xa9";
  (*writer)->Append(RunRecord{.title = accents, .device = "x" + accents});
  (*writer)->Append(
      EndRecord{.status = "failed", .message = std::string(2000, '\xff')});
  ASSERT_TRUE((*writer)->status().ok());
  const auto contents = ReadTraceFile(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->run->title, accents.substr(0, 4092) + "...");
  EXPECT_EQ(contents->run->device, "x" + accents.substr(0, 4092) + "...");
  EXPECT_EQ(contents->end->message.substr(0, 3), "\xef\xbf\xbd");
  EXPECT_LE(contents->end->message.size(), 4096u);
}

TEST(TraceWriter, StopsWhereTheReaderWould) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  auto writer = TraceWriter::Create(path, /*ranks=*/1, /*max_bytes=*/100'000);
  ASSERT_TRUE(writer.ok());
  (*writer)->Append(RunRecord{.streams = {"a"}});
  for (int i = 1; i <= 10'000; ++i) {
    (*writer)->Append(WorkRecord{.count = i, .start_ns = i, .end_ns = i + 1});
  }
  EXPECT_EQ((*writer)->status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string((*writer)->status().message()),
              AllOf(HasSubstr(path), HasSubstr("--trace-steps")));
  writer->reset();
  const auto size = std::filesystem::file_size(path);
  EXPECT_LE(size, 100'000u);
  EXPECT_GT(size, 99'000u);
  const auto contents = ReadTraceFile(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_FALSE(contents->truncated);
}

TEST(TraceWriter, WritesNoListThatTheReaderRefuses) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  auto writer = TraceWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  StepTrace trace;
  trace.chunks.resize(1);
  trace.chunks[0].parameters.assign(kMaxTraceItems + 1, "p");
  (*writer)->Append(trace);
  EXPECT_EQ((*writer)->status().code(), absl::StatusCode::kInvalidArgument);
  writer->reset();
  EXPECT_TRUE(ReadTraceFile(path).ok());
}

TEST(TraceWriter, ReportsAFileThatCannotBeWritten) {
  EXPECT_EQ(TraceWriter::Create("/no/such/dir/t").status().code(),
            absl::StatusCode::kUnavailable);
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const auto full = TraceWriter::Create("/dev/full");
  EXPECT_EQ(full.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(full.status().message()), HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace castor
