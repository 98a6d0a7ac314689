#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/enough_memory.h"
#include "base/strict_json.h"
#include "tracer/append_file.h"
#include "tracer/file_lines.h"
#include "tracer/json_fields.h"
#include "tracer/trace_file.h"
#include "tracer/trace_names.h"
#include "tracer/trace_records.h"

namespace castor {
namespace {

// A list of small lists is the most that a line holds for its length.
constexpr JsonLimits kLineLimits = {.max_depth = 6,
                                    .max_values = kMaxTraceValues};

// A record of numbers: ["type",1,2,...]. They are most of a file, so they are
// read without a tree in between.
bool ParseArray(absl::string_view line, absl::string_view* type,
                std::vector<int64_t>* numbers) {
  const auto skip_spaces = [&] {
    while (!line.empty() && (line[0] == ' ' || line[0] == '\t')) {
      line.remove_prefix(1);
    }
  };
  const auto take = [&](char c) {
    skip_spaces();
    if (line.empty() || line[0] != c) return false;
    line.remove_prefix(1);
    return true;
  };
  if (!take('[') || !take('"')) return false;
  const size_t quote = line.find('"');
  if (quote == absl::string_view::npos) return false;
  *type = line.substr(0, quote);
  line.remove_prefix(quote + 1);
  numbers->clear();
  while (take(',')) {
    skip_spaces();
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc()) return false;
    line.remove_prefix(static_cast<size_t>(end - line.data()));
    numbers->push_back(value);
  }
  if (!take(']')) return false;
  skip_spaces();
  return line.empty();
}

class Reader {
 public:
  Reader() { step_of_tag_.fill(-1); }

  // The first thing that is wrong with the line, or nothing.
  std::string Read(absl::string_view line, bool first) {
    error_.clear();
    if (!first && !line.empty() && line[0] == '[') {
      ReadArray(line);
    } else {
      const absl::StatusOr<Json> json = ParseStrictJson(line, kLineLimits);
      if (!json.ok()) {
        error_ = std::string(json.status().message());
      } else {
        first ? ReadHeader(*json) : ReadObject(*json);
      }
    }
    return error_;
  }
  TraceContents& contents() { return contents_; }
  // The number of ranks in the header that was read; 0: none was.
  int64_t ranks() const { return ranks_; }

  // Returns what was read, which is one rank's; another's begins.
  TraceContents Take() {
    step_of_tag_.fill(-1);
    return std::exchange(contents_, {});
  }

 private:
  void Fail(absl::string_view why) {
    if (error_.empty()) error_ = std::string(why);
  }
  void ReadHeader(const Json& json);
  void ReadObject(const Json& json);
  void ReadRun(JsonFields& fields);
  void ReadStep(JsonFields& fields);
  void ReadResult(JsonFields& fields);
  void ReadBudget(JsonFields& fields);
  void ReadRefusal(JsonFields& fields);
  void ReadEnd(JsonFields& fields);
  void ReadClock(JsonFields& fields);

  void ReadArray(absl::string_view line);
  void ReadOp(absl::Span<const int64_t> numbers);
  void ReadHost(absl::Span<const int64_t> numbers);
  void ReadWork(absl::Span<const int64_t> numbers, WorkRecord* work);
  void ReadWait(absl::Span<const int64_t> numbers);
  void ReadNetwork(absl::Span<const int64_t> numbers);
  // Returns true if there are `size` numbers, as there must be; if not, the
  // reading fails.
  bool HaveSize(absl::Span<const int64_t> numbers, size_t size) {
    if (numbers.size() == size) return true;
    Fail(absl::StrCat("has ", numbers.size(), " numbers, not ", size));
    return false;
  }
  bool InRange(int64_t value, int64_t min, int64_t max,
               absl::string_view what) {
    if (value >= min && value <= max) return true;
    Fail(absl::StrCat(what, " is ", value, ", not from ", min, " to ", max));
    return false;
  }
  std::vector<int64_t> Bytes(absl::Span<const int64_t> numbers);
  const StepTrace& TraceOfStep(int64_t step) const {
    const PlanRecord& plan = contents_.plans[contents_.steps[step].plan];
    return contents_.step_traces[plan.trace];
  }

  TraceContents contents_;
  std::string error_;
  std::array<int64_t, 1 << 16> step_of_tag_;
  std::vector<int64_t> numbers_;
  int64_t ranks_ = 0;
};

void Reader::ReadHeader(const Json& json) {
  JsonFields fields(json, "", &error_);
  const std::string format = fields.String("format");
  if (format != trace_names::kFormat) {
    fields.Fail("format", absl::StrCat("must be \"", trace_names::kFormat,
                                       "\": this is no Castor trace"));
  }
  const int64_t version = fields.Int("version");
  if (version != kTraceFormatVersion) {
    fields.Fail("version",
                absl::StrCat("is ", version, ", and this program reads ",
                             kTraceFormatVersion,
                             " alone: record the trace anew, or read it with "
                             "the Castor that wrote it"));
  }
  const int64_t ranks = fields.Int("ranks", 1, kMaxTraceRanks);
  fields.Done();
  if (fields.ok()) ranks_ = ranks;
}

void Reader::ReadObject(const Json& json) {
  JsonFields fields(json, "", &error_);
  const std::string type = fields.String("type");
  if (type == "run") {
    ReadRun(fields);
  } else if (type == "step_trace") {
    ReadStepTrace(fields, &contents_.step_traces.emplace_back(), &error_);
  } else if (type == "plan") {
    ReadPlan(fields, contents_.step_traces, &contents_.plans.emplace_back(),
             &error_);
  } else if (type == "step") {
    ReadStep(fields);
  } else if (type == "budget") {
    ReadBudget(fields);
  } else if (type == "result") {
    ReadResult(fields);
  } else if (type == "refusal") {
    ReadRefusal(fields);
  } else if (type == "end") {
    ReadEnd(fields);
  } else if (type == "clock" && ranks_ > 1) {
    ReadClock(fields);
  } else {
    fields.Fail("type",
                absl::StrCat("is ", Printable(type),
                             ", not one of run, step_trace, plan, step, "
                             "budget, result, refusal, end, clock"));
  }
}

void Reader::ReadRun(JsonFields& fields) {
  if (contents_.run.has_value()) return Fail("is a second run in one file");
  RunRecord& run = contents_.run.emplace();
  run.title = fields.String("title");
  run.device = fields.String("device");
  run.policy = fields.String("policy");
  if (fields.Has("activation_checkpointing")) {
    run.activation_checkpointing = fields.String("activation_checkpointing");
  }
  run.device_budget_bytes = fields.Budget("device_budget_bytes");
  run.host_budget_bytes = fields.Budget("host_budget_bytes");
  run.steps = fields.Int("steps");
  run.tokens_per_step = fields.Int("tokens_per_step");
  run.threads = fields.Int("threads");
  run.categories = fields.Names("categories");
  run.streams = fields.Names("streams");
  run.world_size = ranks_;
  if (ranks_ > 1) {
    run.rank = fields.Int("rank", 0, run.world_size - 1);
    run.host = fields.String("host");
    run.group = fields.Int("group");
  }
  fields.Done();
  if (static_cast<int64_t>(run.categories.size()) > kMaxTraceCategories) {
    fields.Fail("categories",
                absl::StrCat("must hold at most ", kMaxTraceCategories));
  }
  if (static_cast<int64_t>(run.streams.size()) > kMaxTraceStreams) {
    fields.Fail("streams",
                absl::StrCat("must hold at most ", kMaxTraceStreams));
  }
}

void Reader::ReadStep(JsonFields& fields) {
  StepRecord step;
  step.tag = fields.Int("tag", 1, (1 << 16) - 1);
  step.step = fields.Int("step");
  step.plan =
      fields.Int("plan", 0, static_cast<int64_t>(contents_.plans.size()) - 1);
  step.time_ns = fields.Int("time_ns");
  fields.Done();
  if (fields.ok() && contents_.plans[step.plan].refused) {
    fields.Fail("plan", "is one that was refused");
  }
  if (!fields.ok()) return;
  step_of_tag_[step.tag] = static_cast<int64_t>(contents_.steps.size());
  contents_.steps.push_back(step);
}

void Reader::ReadResult(JsonFields& fields) {
  ResultRecord result;
  result.step = fields.Int("step", 1);
  result.end_ns = fields.Int("end_ns");
  result.duration_ns = fields.Int("duration_ns");
  result.stall_ns = fields.Int("stall_ns");
  result.h2d_bytes = fields.Int("h2d_bytes");
  result.d2h_bytes = fields.Int("d2h_bytes");
  result.device_peak_bytes = fields.Int("device_peak_bytes");
  result.loss = fields.DoubleOrNan("loss");
  if (ranks_ > 1) {
    result.network_sent_bytes = fields.Int("network_sent_bytes");
    result.network_received_bytes = fields.Int("network_received_bytes");
    result.network_wait_ns = fields.Int("network_wait_ns");
  }
  fields.Done();
  contents_.results.push_back(result);
}

void Reader::ReadBudget(JsonFields& fields) {
  const std::vector<BudgetRecord>& before = contents_.budgets;
  BudgetRecord budget;
  budget.time_ns =
      fields.Int("time_ns", before.empty() ? 0 : before.back().time_ns);
  budget.step = fields.Int("step");
  budget.from_bytes = fields.Budget("from_bytes");
  budget.to_bytes = fields.Budget("to_bytes");
  budget.asker = fields.OneOf<BudgetAsker>("asked_by", trace_names::kAskers);
  fields.Done();
  contents_.budgets.push_back(budget);
}

void Reader::ReadRefusal(JsonFields& fields) {
  RefusalRecord& refusal = contents_.refusal.emplace();
  refusal.message = fields.String("message");
  refusal.tier = fields.String("tier");
  refusal.op = fields.String("op");
  refusal.peak_bytes = fields.Int("peak_bytes");
  refusal.resident_bytes = fields.Int("resident_bytes");
  refusal.smallest_device_budget_bytes =
      fields.Budget("smallest_device_budget_bytes");
  refusal.smallest_host_budget_bytes =
      fields.Budget("smallest_host_budget_bytes");
  fields.Done();
}

void Reader::ReadEnd(JsonFields& fields) {
  EndRecord& end = contents_.end.emplace();
  end.status = fields.String("status");
  end.message = fields.String("message");
  end.time_ns = fields.Int("time_ns");
  fields.Done();
}

void Reader::ReadClock(JsonFields& fields) {
  const std::vector<ClockRecord>& before = contents_.clocks;
  ClockRecord clock;
  clock.time_ns =
      fields.Int("time_ns", before.empty() ? 0 : before.back().time_ns);
  clock.offset_ns =
      fields.Int("offset_ns", -kMaxTraceNumber / 2, kMaxTraceNumber / 2);
  clock.error_ns = fields.Int("error_ns");
  fields.Done();
  contents_.clocks.push_back(clock);
}

void Reader::ReadArray(absl::string_view line) {
  absl::string_view type;
  if (!ParseArray(line, &type, &numbers_)) {
    return Fail("is no list of a type and numbers");
  }
  if (!contents_.run.has_value()) {
    return Fail("comes before the run record, which names its parts");
  }
  if (type == "op") {
    ReadOp(numbers_);
  } else if (type == "work") {
    if (!HaveSize(numbers_, 8)) return;
    ReadWork(numbers_, &contents_.works.emplace_back());
  } else if (type == "wait") {
    ReadWait(numbers_);
  } else if (type == "host") {
    ReadHost(numbers_);
  } else if (type == "network" && ranks_ > 1) {
    ReadNetwork(numbers_);
  } else {
    Fail(absl::StrCat("is a list of type ", Printable(type),
                      ", not one of op, work, wait, host, network"));
  }
}

std::vector<int64_t> Reader::Bytes(absl::Span<const int64_t> numbers) {
  if (!HaveSize(numbers, contents_.run->categories.size())) return {};
  int64_t total = 0;
  for (const int64_t bytes : numbers) {
    if (!InRange(bytes, 0, kMaxTraceNumber - total, "a category's bytes")) {
      return {};
    }
    total += bytes;
  }
  return {numbers.begin(), numbers.end()};
}

void Reader::ReadOp(absl::Span<const int64_t> numbers) {
  if (numbers.size() < 4) return Fail("has fewer than 4 numbers");
  IssueRecord& issue = contents_.issues.emplace_back();
  if (!InRange(numbers[0], 1, (1 << 16) - 1, "the tag")) return;
  issue.step = step_of_tag_[numbers[0]];
  if (issue.step < 0)
    return Fail("is an operator of a step that did not begin");
  issue.moment = Moment(numbers[1]);
  issue.time_ns = numbers[2];
  issue.used_bytes = numbers[3];
  const int64_t ops = static_cast<int64_t>(TraceOfStep(issue.step).ops.size());
  if (!InRange(numbers[1], 0, ops - 1, "the moment") ||
      !InRange(numbers[2], 0, kMaxTraceNumber, "the time")) {
    return;
  }
  issue.bytes = Bytes(numbers.subspan(4));
  int64_t sum = 0;
  for (const int64_t bytes : issue.bytes) sum += bytes;
  if (sum != issue.used_bytes) {
    Fail(absl::StrCat("has categories of ", sum, " bytes in all, where ",
                      issue.used_bytes, " are in use"));
  }
}

void Reader::ReadHost(absl::Span<const int64_t> numbers) {
  if (numbers.empty()) return Fail("has no numbers");
  HostRecord& host = contents_.hosts.emplace_back();
  host.time_ns = numbers[0];
  if (!InRange(numbers[0], 0, kMaxTraceNumber, "the time")) return;
  host.bytes = Bytes(numbers.subspan(1));
}

void Reader::ReadWork(absl::Span<const int64_t> numbers, WorkRecord* work) {
  const int64_t streams = static_cast<int64_t>(contents_.run->streams.size());
  if (!InRange(numbers[0], 0, streams - 1, "the stream") ||
      !InRange(numbers[2], 0, kNumWorkKinds - 1, "the kind of work") ||
      !InRange(numbers[1], IsPause(static_cast<WorkKind>(numbers[2])) ? 0 : 1,
               kMaxTraceNumber, "the count") ||
      !InRange(numbers[3], 0, (1 << 16) - 1, "the tag") ||
      !InRange(numbers[4], -1, WorkTag::kMaxMoment, "the moment") ||
      !InRange(numbers[5], -1, WorkTag::kMaxChunk, "the chunk") ||
      !InRange(numbers[6], 0, kMaxTraceNumber, "the start") ||
      !InRange(numbers[7], numbers[6], kMaxTraceNumber, "the end")) {
    return;
  }
  work->stream = numbers[0];
  work->count = numbers[1];
  work->kind = static_cast<WorkKind>(numbers[2]);
  work->tag = static_cast<uint16_t>(numbers[3]);
  work->step = step_of_tag_[numbers[3]];
  work->moment = Moment(numbers[4]);
  work->chunk = ChunkId(numbers[5]);
  work->start_ns = numbers[6];
  work->end_ns = numbers[7];
  if (work->step < 0) {
    // The work belongs to no step: it sets up, or moves something between two
    // plans.
    work->moment = Moment();
    const int64_t chunks =
        contents_.step_traces.empty()
            ? 0
            : static_cast<int64_t>(contents_.step_traces[0].chunks.size());
    InRange(numbers[5], -1, chunks - 1, "the chunk");
    return;
  }
  const StepTrace& trace = TraceOfStep(work->step);
  InRange(numbers[4], -1, static_cast<int64_t>(trace.ops.size()), "the moment");
  InRange(numbers[5], -1, static_cast<int64_t>(trace.chunks.size()) - 1,
          "the chunk");
}

void Reader::ReadWait(absl::Span<const int64_t> numbers) {
  if (numbers.size() < 10 || numbers.size() % 2 != 0) {
    return Fail(
        "has not 8 numbers and pairs of a stream and a count after them");
  }
  WaitRecord& wait = contents_.waits.emplace_back();
  ReadWork(numbers.subspan(0, 8), &wait.waiter);
  const int64_t streams = static_cast<int64_t>(contents_.run->streams.size());
  for (size_t i = 8; i + 1 < numbers.size(); i += 2) {
    if (!InRange(numbers[i], 0, streams - 1, "the stream waited for") ||
        !InRange(numbers[i + 1], 1, kMaxTraceNumber, "the count waited for")) {
      return;
    }
    wait.until.push_back({numbers[i], numbers[i + 1]});
  }
}

void Reader::ReadNetwork(absl::Span<const int64_t> numbers) {
  if (!HaveSize(numbers, 8)) return;
  const RunRecord& run = *contents_.run;
  if (!InRange(numbers[0], 0, static_cast<int64_t>(run.streams.size()) - 1,
               "the stream") ||
      !InRange(numbers[1], 1, kMaxTraceNumber, "the count") ||
      !InRange(numbers[2], 1, kMaxTraceNumber, "the sequence number") ||
      !InRange(numbers[3], 0, trace_names::kNumCollectives - 1,
               "the kind of collective") ||
      !InRange(numbers[4], 0, run.world_size - 1, "the last rank") ||
      !InRange(numbers[5], 0, kMaxTraceNumber, "the last rank's time") ||
      !InRange(numbers[6], 0, kMaxTraceNumber, "what was sent") ||
      !InRange(numbers[7], 0, kMaxTraceNumber, "what was received")) {
    return;
  }
  contents_.networks.push_back({.stream = numbers[0],
                                .count = numbers[1],
                                .sequence = numbers[2],
                                .kind = numbers[3],
                                .last_rank = numbers[4],
                                .ready_ns = numbers[5],
                                .sent_bytes = numbers[6],
                                .received_bytes = numbers[7]});
}

// Returns true if a rank's part begins with the line, in a file of several.
bool IsFirstLine(absl::string_view line) {
  return absl::StartsWith(line, "{\"format\"");
}

// Returns why `next` cannot be of one run with the ranks before; else empty.
std::string Misfit(const std::vector<TraceContents>& ranks,
                   const TraceContents& next) {
  if (!next.run.has_value()) return "";
  const RunRecord& run = *next.run;
  for (const TraceContents& other : ranks) {
    if (!other.run.has_value()) continue;
    if (other.run->group != run.group ||
        other.run->world_size != run.world_size) {
      return absl::StrCat("ends the part of a rank ", run.rank,
                          " of another run");
    }
    if (other.run->rank == run.rank) {
      return absl::StrCat("ends a second part of rank ", run.rank);
    }
  }
  return "";
}

// Reads a file's ranks, line by line.
class RanksReader {
 public:
  // `source` names it in messages.
  explicit RanksReader(absl::string_view source) : source_(source) {}

  // False: there is something wrong with this line; no more of them.
  bool Add(absl::string_view line) {
    ++number_;
    const bool next_rank =
        number_ > 1 && IsFirstLine(line) && reader_->ranks() > 1;
    if (next_rank) {
      error_ = Misfit(ranks_, reader_->contents());
      ranks_.push_back(reader_->Take());
      if (static_cast<int64_t>(ranks_.size()) >= kMaxTraceParts) {
        error_ = "begins the part of more ranks than there may be";
      }
    }
    if (static_cast<int64_t>(line.size()) > kMaxTraceLineBytes) {
      error_ = absl::StrCat("is longer than ", kMaxTraceLineBytes, " bytes");
    }
    if (error_.empty()) {
      error_ = reader_->Read(line, /*first=*/number_ == 1 || next_rank);
    }
    if (error_.empty() && next_rank && reader_->ranks() == 1) {
      error_ = "begins the part of a run on one rank, behind one of several";
    }
    return error_.empty();
  }

  absl::StatusOr<std::vector<TraceContents>> Finish(bool truncated) {
    if (number_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          source_, ": has no complete first line: no Castor trace"));
    }
    if (error_.empty()) error_ = Misfit(ranks_, reader_->contents());
    if (!error_.empty()) {
      // A file that no header begins is no trace.
      const bool begun = number_ > 1 || reader_->ranks() > 0;
      return absl::InvalidArgumentError(
          absl::StrCat(source_, ", line ", number_, ": ", error_,
                       begun ? "" : ": no Castor trace"));
    }
    ranks_.push_back(reader_->Take());
    ranks_.back().truncated = truncated;
    return std::move(ranks_);
  }

 private:
  const absl::string_view source_;
  const std::unique_ptr<Reader> reader_ = std::make_unique<Reader>();  // large
  std::vector<TraceContents> ranks_;
  int64_t number_ = 0;
  std::string error_;
};

}  // namespace

absl::StatusOr<std::vector<TraceContents>> ParseRanks(
    absl::string_view text, absl::string_view source) {
  RanksReader reader(source);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == absl::string_view::npos) break;
    if (!reader.Add(text.substr(0, end))) break;
    text.remove_prefix(end + 1);
  }
  return reader.Finish(/*truncated=*/!text.empty());
}

absl::StatusOr<TraceContents> ParseTrace(absl::string_view text,
                                         absl::string_view source) {
  auto ranks = ParseRanks(text, source);
  if (!ranks.ok()) return ranks.status();
  return std::move(ranks->front());
}

absl::StatusOr<std::vector<TraceContents>> ReadRanksOfFile(
    const std::string& path) {
  return IfMemoryAllows(
      absl::StrCat("trace file \"", path, "\""),
      [&]() -> absl::StatusOr<std::vector<TraceContents>> {
        RanksReader reader(path);
        // A piece of a file is no snapshot: text that is appended meanwhile may
        // be seen at its end and not before it, where there are zeros yet.
        // There the trace ends, as far as this reader came in time.
        bool overtaken = false;
        const absl::StatusOr<bool> truncated = ForEachLine(
            path,
            {.max_bytes = kMaxTraceBytes, .max_line_bytes = kMaxTraceLineBytes},
            [&](absl::string_view line) {
              overtaken =
                  absl::StrContains(line, '\0') && IsBeingAppended(path);
              return !overtaken && reader.Add(line);
            });
        if (!truncated.ok()) {
          return absl::Status(
              truncated.status().code(),
              absl::StrCat("trace file ", truncated.status().message()));
        }
        return reader.Finish(*truncated || overtaken);
      });
}

absl::StatusOr<TraceContents> ReadTraceFile(const std::string& path) {
  auto ranks = ReadRanksOfFile(path);
  if (!ranks.ok()) return ranks.status();
  return std::move(ranks->front());
}

}  // namespace castor
