// The trace file: a run's request, its plans, and the events in a window of its
// steps; complete up to the instant of a crash. docs/trace-format.md describes
// every record; this header has the C++ types.
//
//   run        what was asked of the run; names of categories and streams
//   step_trace the operators and chunks of one shape of step (step_trace.h)
//   plan       what was decided and predicted for it (plan_record.h)
//   step       a step of the window begins, on a plan
//   op         the host thread issues an operator; device bytes by category
//   work       a stream did a piece of work (events.h, like the next two)
//   wait       a stream stood still, until other streams' work was over
//   network    what a piece of the network's work was to the ranks
//   clock      how this rank's clock lies to rank 0's
//   host       host bytes by category, when they change
//   budget     the budget of the device's memory changed (whenever it did)
//   result     a training step is over (all steps, not those of the window)
//   refusal    the run was refused before its first step
//   end        the run ended; a file without it is of a run that was stopped
//
// A writer hands each record to the system in one piece before it returns, so a
// killed process leaves whole lines, except possibly the last one, which the
// reader leaves out and reports.
//
// With several ranks each writes a file of its own. Their concatenation is a
// trace file, too: each part begins with its first line (rank_traces.h).
//
// Times are in nanoseconds from one origin per rank, the start of the run; the
// reader moves those of other ranks to rank 0's, by their clock records. Tags
// number steps modulo 2^16, as the tags of queued work do (work_tag.h). 0 is
// work of no step: set-up, moves between two plans.
#ifndef CASTOR_TRACER_TRACE_FILE_H_
#define CASTOR_TRACER_TRACE_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "base/units.h"
#include "tracer/events.h"
#include "tracer/plan_record.h"
#include "tracer/step_trace.h"

namespace castor {

// Limits of a file that the reader accepts. The writer does not record anything
// beyond them.
inline constexpr int64_t kMaxTraceBytes = int64_t{512} << 20;
inline constexpr int64_t kMaxTraceLineBytes = 64 << 20;
inline constexpr int64_t kMaxTraceValues = 10'000'000;  // of one line
inline constexpr int64_t kMaxTraceNameBytes = 4096;
inline constexpr int64_t kMaxTraceItems = 1'000'000;          // of one list
inline constexpr int64_t kMaxTraceNumber = int64_t{1} << 60;  // bytes, ns
inline constexpr int64_t kMaxTraceCategories = 64;
inline constexpr int64_t kMaxTraceStreams = 16;
inline constexpr int64_t kMaxTraceRanks = 1 << 20;
inline constexpr int64_t kMaxTraceParts = 4096;  // ranks of one file

// The only version that is written and read. Earlier ones were never released.
inline constexpr int64_t kTraceFormatVersion = 18;

struct RunRecord {
  std::string title = {};   // "gpt2, 10.8 M parameters, fp32"
  std::string device = {};  // "host", "cuda"
  std::string policy = {};  // of the request: "cuda", "cpu", "auto"
  // Of the request: "none", "block", "auto"; empty: the trace does not say.
  std::string activation_checkpointing = {};
  int64_t device_budget_bytes = kUnlimitedBytes;
  int64_t host_budget_bytes = kUnlimitedBytes;
  int64_t steps = 0;
  int64_t tokens_per_step = 0;
  int64_t threads = 1;
  // Names for the numbers in `op`, `host`, `work` and `wait` records.
  std::vector<std::string> categories = {};
  std::vector<std::string> streams = {};
  // With several ranks: the file's rank, and a number that all files of one run
  // have in common.
  int64_t rank = 0;
  int64_t world_size = 1;  // `ranks` of the part's first line
  std::string host = {};
  int64_t group = 0;

  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

struct StepRecord {
  int64_t tag = 0;
  int64_t step = 0;  // training step, from 1; 0: evaluation
  int64_t plan = 0;  // its index in the file
  int64_t time_ns = 0;

  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

// The device's bytes, as the arena counts them, when an operator's outputs and
// workspace are allocated: the most while it runs. The time is that of issue on
// the host; the operator runs later, see its work record.
struct IssueRecord {
  int64_t step = -1;  // index of its StepRecord
  Moment moment = {};
  int64_t time_ns = 0;
  int64_t used_bytes = 0;           // the arena's own count
  std::vector<int64_t> bytes = {};  // by category; their sum is used_bytes

  friend bool operator==(const IssueRecord&, const IssueRecord&) = default;
};

// When this rank's clock showed time_ns, rank 0's showed time_ns + offset_ns,
// with an error of at most error_ns.
struct ClockRecord {
  int64_t time_ns = 0;
  int64_t offset_ns = 0;  // may be negative
  int64_t error_ns = 0;

  friend bool operator==(const ClockRecord&, const ClockRecord&) = default;
};

struct HostRecord {
  int64_t time_ns = 0;
  std::vector<int64_t> bytes = {};  // by category

  friend bool operator==(const HostRecord&, const HostRecord&) = default;
};

struct ResultRecord {
  int64_t step = 0;
  int64_t end_ns = 0;       // the step's last work was over
  int64_t duration_ns = 0;  // from the end of the step before
  int64_t stall_ns = 0;     // of the compute stream
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  int64_t device_peak_bytes = 0;  // since the start of the run
  double loss = 0;
  // With several ranks: bytes to and from the others, and the part of stall_ns
  // that was spent waiting for them.
  int64_t network_sent_bytes = 0;
  int64_t network_received_bytes = 0;
  int64_t network_wait_ns = 0;

  friend bool operator==(const ResultRecord&, const ResultRecord&) = default;
};

struct RefusalRecord {
  std::string message = {};  // the text for the user
  std::string tier = {};     // "device", "host", "machine"
  std::string op = {};
  int64_t peak_bytes = 0;
  int64_t resident_bytes = 0;
  int64_t smallest_device_budget_bytes = 0;  // kUnlimitedBytes: none
  int64_t smallest_host_budget_bytes = 0;

  friend bool operator==(const RefusalRecord&, const RefusalRecord&) = default;
};

struct EndRecord {
  std::string status = {};   // "finished", "interrupted", "failed"
  std::string message = {};  // why it failed
  int64_t time_ns = 0;

  friend bool operator==(const EndRecord&, const EndRecord&) = default;
};

struct TraceContents {
  std::optional<RunRecord> run;  // absent if the writer was stopped early
  std::vector<StepTrace> step_traces;
  std::vector<PlanRecord> plans;
  std::vector<StepRecord> steps;  // of the window
  std::vector<IssueRecord> issues;
  std::vector<WorkRecord> works;
  std::vector<WaitRecord> waits;
  std::vector<NetworkRecord> networks;
  std::vector<ClockRecord> clocks;  // by time
  std::vector<HostRecord> hosts;
  std::vector<BudgetRecord> budgets;  // by time
  std::vector<ResultRecord> results;
  std::optional<RefusalRecord> refusal;
  std::optional<EndRecord> end;
  // True if the file ends within a line, which is left out: the writer was
  // stopped.
  bool truncated = false;
};

// Reads and checks the whole file: types, ranges, references to earlier chunks,
// moments, plans and streams, limits on counts and sizes, and that categories
// sum to the arena's own count. Every error names the file and the line.
// NotFound: there is no such file, or it may not be read. InvalidArgument: not
// a trace, another version, records out of order, or a file larger than
// kMaxTraceBytes. ResourceExhausted: too little memory for the records, which
// take several times the file's size. If the file has several ranks' traces, it
// returns the first one's: rank 0's.
absl::StatusOr<TraceContents> ReadTraceFile(const std::string& path);

// Reads a trace from memory; `source` names it in messages.
absl::StatusOr<TraceContents> ParseTrace(absl::string_view text,
                                         absl::string_view source = "trace");

// Reads the traces of all ranks in the file, each with times on its own clock.
// No rank may appear twice, and all must be of one run.
absl::StatusOr<std::vector<TraceContents>> ReadRanksOfFile(
    const std::string& path);
absl::StatusOr<std::vector<TraceContents>> ParseRanks(
    absl::string_view text, absl::string_view source = "trace");

}  // namespace castor

#endif  // CASTOR_TRACER_TRACE_FILE_H_
