// A trace as people look at it: spans on lanes with names and causes, memory
// over time, residency of chunks, tables, a summary. Everything that the page,
// the exports and the command line show of a trace is derived here, once.
//
// Words. A *span* is a piece of work or a wait on one stream. The *cause* of a
// wait is the span that it waited for: among what it names, the one that ended
// last. A *program* is one shape of step: the latest step trace of equal
// signature. The *window* is the steps whose events the trace holds. A rank is
// *late* where others wait for it; such a wait lies on the network's stream,
// before the collective that it came to last, and has a rank for its cause.
//
// Times are in nanoseconds from the run's start, sizes in bytes; -1 stands for
// none wherever an index, a moment or a chunk is given. Sums that would not fit
// stop at the largest number.
//
// Memory curves are step curves: a point holds until the next one. A point of
// the device's stands where its operator starts on the device, not where the
// host thread issued it, so that curve and lanes share one axis.
#ifndef CASTOR_INSIGHT_TRACE_VIEW_H_
#define CASTOR_INSIGHT_TRACE_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tracer/trace_file.h"

namespace castor {

struct TraceView {
  struct Stream {
    std::string name;   // "host_compute"
    std::string label;  // "CPU optimizer"
  };
  struct Chunk {
    int64_t payload_bytes = 0;
    int64_t optimizer_bytes = 0;
    std::vector<std::string> parameters;
    std::vector<int64_t> uses;  // moments, ascending
    int64_t block = -1;         // whose activations it holds; -1: parameters
  };
  struct Program {
    std::string signature;
    bool training = true;
    int64_t micro_batches = 1;
    std::vector<Chunk> chunks;
    std::vector<OpRecord> ops;
    // By moment, of the bytes of activations: what blocks that are kept keep
    // there on the device, beyond their inputs.
    std::vector<int64_t> kept_bytes;
  };
  struct Plan {
    int64_t program = -1;
    PlanRecord record;  // its long lists are left out
    int64_t moments = 0;
    // By moment, of the bytes of activations: what may be on the host and is
    // on the device then.
    std::vector<int64_t> activation_bytes;
  };
  // compute + copy + optimizer + network + late + idle == end - start.
  struct Step {
    int64_t step = 0;  // 0: evaluation
    int64_t plan = -1;
    int64_t start_ns = 0;  // the end of the step before, where there is one
    int64_t end_ns = 0;    // its last work is over
    bool whole = false;    // not cut off by the end of the file
    int64_t compute_ns = 0;
    int64_t wait_ns = 0;       // the compute stream stood still in waits
    int64_t copy_ns = 0;       // ... of which for copies
    int64_t optimizer_ns = 0;  // no operator ran because of host updates
    int64_t network_ns = 0;    // ... for parts that cross the network
    int64_t late_ns = 0;       // ... for ranks that were late
    int64_t idle_ns = 0;       // none of these
    int64_t h2d_bytes = 0;
    int64_t d2h_bytes = 0;
    int64_t sent_bytes = 0;  // to other ranks
    int64_t received_bytes = 0;
    int64_t device_peak_bytes = 0;  // within this step
    int64_t moves = 0;              // of blocks within the device's memory
    int64_t move_ns = 0;            // how long these took, of compute_ns
    std::optional<double> loss;
  };
  struct Span {
    int64_t stream = 0;
    int64_t kind = -1;  // index of kinds; -1: a wait
    int64_t step = -1;  // index of steps
    int64_t moment = -1;
    int64_t chunk = -1;
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    int64_t label = 0;  // index of strings
    int64_t bytes = 0;
    int64_t because = -1;    // the moment that a copy or a move is for
    int64_t cause = -1;      // waits: index of the span waited for
    int64_t note = -1;       // index of strings
    int64_t late_rank = -1;  // of a wait for a rank: which
  };
  struct MemoryPoint {
    int64_t time_ns = 0;
    int64_t step = -1;
    int64_t moment = -1;
    std::vector<int64_t> bytes;  // by category
  };
  struct PredictedPoint {
    int64_t time_ns = 0;
    int64_t bytes = 0;
  };
  struct Peak {
    int64_t time_ns = 0;
    int64_t bytes = 0;
    int64_t step = -1;
    int64_t moment = -1;
    std::string op;
    std::vector<int64_t> by_category;
  };
  enum class ResidencyState : uint8_t {
    kArriving,   // on its way to the device
    kHold,       // on the device, its copy at home equal or not needed
    kCompute,    // an operator uses it
    kGradients,  // on the device, changed since it came
    kLeaving,    // being copied back
    kReducing,   // host: gradients are added to their sum
    kUpdating,   // host: the optimizer's update
  };
  // An interval in which a chunk was in one state. One chunk's intervals on the
  // device do not overlap, nor do those on the host.
  struct Residency {
    int64_t chunk = 0;
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    ResidencyState state = ResidencyState::kHold;
  };
  struct OperatorRow {
    int64_t program = 0;
    int64_t moment = 0;
    int64_t count = 0;
    int64_t total_ns = 0;
    int64_t max_ns = 0;
    int64_t peak_bytes = 0;  // device bytes when it was issued, the most
    int64_t wait_ns = 0;     // compute stood still before it

    int64_t mean_ns() const { return count == 0 ? 0 : total_ns / count; }
  };
  // Operators that do the same to modules that are alike: those whose names
  // differ in numbers alone.
  struct ModuleRow {
    std::string pattern;    // "transformer.h.*.attn/forward"
    std::string module;     // "transformer.h.*.attn"; "all chunks"
    std::string kind;       // "forward", "forward again", "eval forward",
                            // "backward_input", "reduce"
    std::string phase;      // "forward", "backward", "optimizer", "evaluation"
    int64_t operators = 0;  // moments of the programs
    int64_t count = 0;      // runs in the window, and their time
    int64_t total_ns = 0;
    int64_t max_ns = 0;
    double share = 0;  // of the time of training steps, or of evaluations
    double flops = 0;  // of all runs
    int64_t peak_bytes = 0;
    int64_t wait_ns = 0;

    double flops_per_s() const {
      return total_ns <= 0 ? 0 : flops * 1e9 / static_cast<double>(total_ns);
    }
  };
  struct ChunkRow {
    int64_t chunk = 0;
    int64_t payload_bytes = 0;
    int64_t optimizer_bytes = 0;
    bool on_device_side = false;
    std::string parameters;  // shortened
    int64_t fetches = 0;
    int64_t fetched_bytes = 0;
    int64_t copied_back_bytes = 0;
    double resident_share = 0;  // of the window
    int64_t wait_ns = 0;        // compute stood still for it
  };
  // A block of the model, on the settled plan.
  struct BlockRow {
    int64_t block = 0;
    std::string name;       // of its first operator
    std::string choice;     // "kept", "by way of the host", "made again"
    int64_t forward = -1;   // moments, in its first micro batch: of its first
    int64_t backward = -1;  // operator, and where backward comes to it
    // The bytes that it keeps on the device from forward to backward, beyond
    // its input; those of its activations that may be on the host in between;
    // and those that would have to be kept in place of making it again.
    int64_t device_bytes = 0;
    int64_t host_bytes = 0;
    int64_t spared_bytes = 0;
    int64_t again_ns = 0;  // to make it again, in one micro batch
    // The block's copies, and waits for them, in the window.
    int64_t copied_back_bytes = 0;
    int64_t fetched_bytes = 0;
    int64_t wait_ns = 0;  // compute stood still for what comes back
    int64_t chunk = -1;   // that holds its activations
  };
  struct WaitRow {
    std::string cause;
    std::string remedy;
    int64_t stream = 0;
    int64_t count = 0;
    int64_t total_ns = 0;
    int64_t max_ns = 0;
    int64_t longest_span = -1;
  };
  struct Summary {
    int64_t steps = 0;         // that it is about
    int64_t median_step = -1;  // index of steps: the split is this one's
    int64_t step_ns = 0;
    int64_t compute_ns = 0;
    int64_t copy_ns = 0;
    int64_t optimizer_ns = 0;
    int64_t network_ns = 0;
    int64_t late_ns = 0;
    int64_t idle_ns = 0;
    int64_t h2d_bytes = 0;
    int64_t d2h_bytes = 0;
    int64_t sent_bytes = 0;
    int64_t received_bytes = 0;
    int64_t least_h2d_bytes = 0;
    int64_t predicted_step_ns = 0;
    int64_t predicted_peak_bytes = 0;
    int64_t device_peak_bytes = 0;
    int64_t host_peak_bytes = 0;
    int64_t device_budget_bytes = kUnlimitedBytes;
    // The settled plan's figures; absent where the trace does not say them.
    std::optional<bool> planned_addresses;
    std::optional<int64_t> predicted_moves;
    std::optional<int64_t> predicted_moved_bytes;
    int64_t moves = 0;  // of the median step, as in Step
    int64_t move_ns = 0;
    // For each choice, how many blocks it was made for, and the bytes that
    // these keep on the device, may have on the host, and spare.
    int64_t kept_blocks = 0;
    int64_t kept_bytes = 0;
    int64_t host_blocks = 0;
    int64_t host_bytes = 0;
    int64_t remade_blocks = 0;
    int64_t spared_bytes = 0;
    double tokens_per_second = 0;
    double flops = 0;  // of a step's operators; 0: not known
    std::vector<std::string> advice;
  };

  std::string source;
  std::string status;  // "finished", "interrupted", "failed",
                       // "running or killed", "refused", "empty"
  std::string message;
  bool truncated = false;
  std::optional<RunRecord> run;
  // Several ranks: by how much times may be off rank 0's.
  int64_t clock_error_ns = 0;
  std::vector<std::string> categories;
  std::vector<Stream> streams;
  std::vector<Program> programs;
  std::vector<Plan> plans;
  std::vector<Step> steps;
  std::vector<ResultRecord> results;
  std::vector<Span> spans;  // by start
  std::vector<std::string> strings;
  std::vector<MemoryPoint> memory;
  std::vector<MemoryPoint> host_memory;
  std::vector<PredictedPoint> predicted_memory;
  std::vector<BudgetRecord> budgets;  // changes of the device's, by time
  std::optional<Peak> peak;
  std::vector<Residency> residency;  // by chunk, then start
  std::vector<OperatorRow> operators;
  std::vector<ModuleRow> modules;
  std::vector<ChunkRow> chunks;
  std::vector<BlockRow> blocks;
  std::vector<WaitRow> waits;
  std::optional<Summary> summary;
  std::optional<RefusalRecord> refusal;

  // The device's budget at a time: the run's, or what it was changed to last.
  int64_t BudgetAt(int64_t time_ns) const;
};

// `source` is the file's name, for people. Every TraceContents is accepted, not
// those of the reader alone: what is out of range counts as none.
// O(n log n) in the size of the contents; memory a small multiple of it.
TraceView BuildTraceView(const TraceContents& contents,
                         absl::string_view source);

// The views of all ranks of a run, in the order given. What a rank did that
// others waited for is known where its trace is among them.
std::vector<TraceView> BuildRankViews(const std::vector<TraceContents>& ranks,
                                      absl::string_view source);

// "hold", ...; and whether it is a state on the device.
inline constexpr int kNumResidencyStates = 7;
absl::string_view ResidencyStateName(TraceView::ResidencyState state);
constexpr bool OnDevice(TraceView::ResidencyState state) {
  return state < TraceView::ResidencyState::kReducing;
}

}  // namespace castor

#endif  // CASTOR_INSIGHT_TRACE_VIEW_H_
