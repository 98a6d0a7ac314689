// The trace's file: what a run was asked, what it planned, and what happened in
// a window of its steps; complete up to the instant of a crash.
// docs/trace-format.md describes every record; this header is its C++ side.
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
//   result     a training step is over (all steps, not those of the window)
//   refusal    the run was refused before its first step
//   end        the run ended; a file without it is of a run that was stopped
//
// A writer hands each record to the system in one piece before it returns, so a
// killed process leaves whole lines, but for at most a last one, which the
// reader leaves out and reports.
//
// With several ranks each writes a file of its own; those files, one behind the
// other, are one file too: each begins with its first line (rank_traces.h).
//
// Times are in nanoseconds from one origin per rank, the start of the run; the
// reader moves those of other ranks to rank 0's, by their clock records.
// Tags number steps as the queued work does: modulo 2^16, see work_tag.h. 0 is
// work of no step: setting up, moves between two plans.
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

// Limits of a file that the reader accepts, which the writer keeps to: what
// would be beyond them is not recorded.
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

// The one version that is written and read. Those below it were never released.
inline constexpr int64_t kTraceFormatVersion = 16;

struct RunRecord {
  std::string title = {};   // "gpt2, 10.8 M parameters, fp32"
  std::string device = {};  // "host", "cuda"
  std::string policy = {};  // asked: "cuda", "cpu", "auto"
  // Asked: "none", "block", "auto"; empty: the trace does not say.
  std::string activation_checkpointing = {};
  int64_t device_budget_bytes = kUnlimitedBytes;
  int64_t host_budget_bytes = kUnlimitedBytes;
  int64_t steps = 0;
  int64_t tokens_per_step = 0;
  int64_t threads = 1;
  // What numbers in `op`, `host`, `work` and `wait` records stand for.
  std::vector<std::string> categories = {};
  std::vector<std::string> streams = {};
  // Several ranks: whose file this is, and a number that all ranks' files of
  // one run have in common.
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

// The device's bytes when an operator has its outputs and its workspace: the
// most while it runs, as the arena counts them. Host time, not the device's:
// the operator runs later, see its work record.
struct IssueRecord {
  int64_t step = -1;  // index of its StepRecord
  Moment moment = {};
  int64_t time_ns = 0;
  int64_t used_bytes = 0;           // the arena's own count
  std::vector<int64_t> bytes = {};  // by category; their sum is used_bytes

  friend bool operator==(const IssueRecord&, const IssueRecord&) = default;
};

// At time_ns of this rank, rank 0's was time_ns + offset_ns, give or take
// error_ns.
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
  // Several ranks: to and from the others, and of stall_ns what was for them.
  int64_t network_sent_bytes = 0;
  int64_t network_received_bytes = 0;
  int64_t network_wait_ns = 0;

  friend bool operator==(const ResultRecord&, const ResultRecord&) = default;
};

struct RefusalRecord {
  std::string message = {};  // what the user was told
  std::string tier = {};     // "device", "host", "machine"
  std::string op = {};
  int64_t peak_bytes = 0;
  int64_t resident_bytes = 0;
  int64_t smallest_device_budget_bytes = 0;  // kUnlimitedBytes: none would do
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
  std::optional<RunRecord> run;  // absent where the writer was stopped early
  std::vector<StepTrace> step_traces;
  std::vector<PlanRecord> plans;
  std::vector<StepRecord> steps;  // of the window
  std::vector<IssueRecord> issues;
  std::vector<WorkRecord> works;
  std::vector<WaitRecord> waits;
  std::vector<NetworkRecord> networks;
  std::vector<ClockRecord> clocks;  // by time
  std::vector<HostRecord> hosts;
  std::vector<ResultRecord> results;
  std::optional<RefusalRecord> refusal;
  std::optional<EndRecord> end;
  // The file ends within a line, which is left out: its writer was stopped.
  bool truncated = false;
};

// Reads and checks the whole file: types, ranges, that every number of a chunk,
// moment, plan, stream stands for something that came before, limits on counts
// and sizes, and that categories sum to the arena's own count. Every error
// names the file and the line. NotFound: no such file, or none that may be
// read. InvalidArgument: not a trace, another version, anything out of order,
// or a file larger than kMaxTraceBytes. ResourceExhausted: there is not the
// memory that its records take, which is some times the file. If the file has
// several ranks' traces, it returns the first one's: rank 0's.
absl::StatusOr<TraceContents> ReadTraceFile(const std::string& path);

// The same from memory; `source` names it in messages.
absl::StatusOr<TraceContents> ParseTrace(absl::string_view text,
                                         absl::string_view source = "trace");

// All ranks' that the file holds, each as it is in the file, its times on its
// own clock; no rank twice, and all of one run.
absl::StatusOr<std::vector<TraceContents>> ReadRanksOfFile(
    const std::string& path);
absl::StatusOr<std::vector<TraceContents>> ParseRanks(
    absl::string_view text, absl::string_view source = "trace");

}  // namespace castor

#endif  // CASTOR_TRACER_TRACE_FILE_H_
