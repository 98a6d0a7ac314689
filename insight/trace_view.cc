#include "insight/trace_view.h"

#include <algorithm>
#include <utility>

#include "insight/block_bytes.h"
#include "insight/chunk_residency.h"
#include "insight/memory_curve.h"
#include "insight/names.h"
#include "insight/notes.h"
#include "insight/peers.h"
#include "insight/spans.h"
#include "insight/steps.h"
#include "insight/summary.h"
#include "insight/tables.h"
#include "insight/trace_index.h"
#include "insight/wait_causes.h"

namespace castor {
namespace {

bool IsEmpty(const TraceContents& contents) {
  return !contents.run.has_value() && contents.step_traces.empty() &&
         contents.plans.empty() && contents.steps.empty() &&
         contents.works.empty() && contents.results.empty();
}

void SetStatus(const TraceContents& contents, TraceView* view) {
  view->truncated = contents.truncated;
  if (contents.refusal.has_value()) {
    view->status = "refused";
    view->message = contents.refusal->message;
  } else if (contents.end.has_value()) {
    view->status = contents.end->status;
    view->message = contents.end->message;
  } else {
    view->status = IsEmpty(contents) ? "empty" : "running or killed";
  }
  if (contents.truncated && view->message.empty()) {
    view->message =
        "The file ends within a record, which is left out: its writer was "
        "stopped, or is still writing.";
  }
}

void SetPrograms(const TraceIndex& index, TraceView* view) {
  for (int64_t p = 0; p < index.num_programs(); ++p) {
    const StepTrace& trace = *index.Trace(p);
    TraceView::Program& program = view->programs.emplace_back();
    program.signature = trace.signature;
    program.training = trace.training;
    program.micro_batches = trace.micro_batches;
    program.ops = trace.ops;
    for (size_t c = 0; c < trace.chunks.size(); ++c) {
      const ChunkInfo& chunk = trace.chunks[c];
      program.chunks.push_back(
          {chunk.payload_bytes, chunk.optimizer_bytes, chunk.parameters,
           index.Uses(p, static_cast<int64_t>(c)), chunk.block});
    }
    program.kept_bytes = KeptBytes(trace);
  }
  for (size_t i = 0; i < index.contents().plans.size(); ++i) {
    PlanRecord record = index.contents().plans[i];
    TraceView::Plan& plan = view->plans.emplace_back();
    plan.program = index.ProgramOfPlan(static_cast<int64_t>(i));
    plan.moments = static_cast<int64_t>(record.predicted.op_start_ns.size());
    if (const StepTrace* const trace = index.Trace(plan.program)) {
      plan.activation_bytes = ActivationBytes(*trace, record);
    }
    record.initial = {};
    record.initial_dirty = {};
    record.actions = {};
    record.predicted.op_start_ns = {};
    record.predicted.device_bytes = {};
    plan.record = std::move(record);
  }
}

void SetNames(const TraceIndex& index, TraceView* view) {
  constexpr const char* kUsualStreams[] = {"compute", "host_to_device",
                                           "device_to_host", "host_compute"};
  const auto& run = index.contents().run;
  if (run.has_value()) {
    view->run = run;
    view->categories = run->categories;
  }
  for (int64_t i = 0; i < index.num_streams(); ++i) {
    std::string name;
    if (run.has_value() && i < static_cast<int64_t>(run->streams.size())) {
      name = run->streams[i];
    } else if (i < 4) {
      name = kUsualStreams[i];
    } else {
      name = "stream_" + std::to_string(i);
    }
    std::string label = StreamLabel(name);
    view->streams.push_back({std::move(name), std::move(label)});
  }
  if (!view->categories.empty()) return;
  // Hand-made, without a run: as many as are counted.
  size_t categories = 0;
  for (const IssueRecord& issue : index.contents().issues) {
    categories = std::max(categories, issue.bytes.size());
  }
  categories = std::min<size_t>(categories, kMaxTraceCategories);
  for (size_t i = 0; i < categories; ++i) {
    view->categories.push_back("category " + std::to_string(i));
  }
}

TraceView Build(const TraceContents& contents, absl::string_view source,
                const Peers& peers) {
  TraceView view;
  view.source = std::string(source);
  const TraceIndex index(contents);
  SetStatus(contents, &view);
  SetNames(index, &view);
  SetPrograms(index, &view);
  view.results = contents.results;
  for (const ClockRecord& clock : contents.clocks) {
    view.clock_error_ns = std::max(view.clock_error_ns, clock.error_ns);
  }
  view.refusal = contents.refusal;

  StringTable strings;
  SpanList list = BuildSpans(index, strings);
  const WaitCauses causes = FindWaitCauses(index, list);
  WriteNotes(index, causes, list, strings, peers);
  view.steps = BuildSteps(index, list, causes);
  view.memory = DeviceCurve(index, list, view.categories.size());
  view.host_memory = HostCurve(index, view.categories.size());
  view.predicted_memory = PredictedCurve(index, list, view.steps);
  view.budgets = BudgetChanges(index);
  view.peak = FindPeak(index, view.memory);
  view.residency = BuildResidency(index, list, view.steps);
  view.operators = OperatorTable(index, list);
  view.modules = ModuleTable(view.operators, view.programs, view.steps);
  view.chunks =
      ChunkTable(index, list, view.residency, WindowOf(list, view.steps),
                 SettledPlan(index, view.steps));
  view.blocks = BlockTable(index, view.chunks, SettledPlan(index, view.steps));
  view.waits = WaitTable(index, list, causes);
  view.summary =
      Summarize(index, list, causes, view.steps, view.host_memory, view.blocks);
  view.spans = std::move(list.spans);
  view.strings = strings.Take();
  return view;
}

}  // namespace

TraceView BuildTraceView(const TraceContents& contents,
                         absl::string_view source) {
  return Build(contents, source, Peers());
}

std::vector<TraceView> BuildRankViews(const std::vector<TraceContents>& ranks,
                                      absl::string_view source) {
  const Peers peers(ranks);
  std::vector<TraceView> views;
  for (const TraceContents& contents : ranks) {
    views.push_back(Build(contents, source, peers));
  }
  return views;
}

int64_t TraceView::BudgetAt(int64_t time_ns) const {
  int64_t bytes = !budgets.empty()  ? budgets.front().from_bytes
                  : run.has_value() ? run->device_budget_bytes
                                    : kUnlimitedBytes;
  for (const BudgetRecord& change : budgets) {
    if (change.time_ns > time_ns) break;
    bytes = change.to_bytes;
  }
  return bytes;
}

absl::string_view ResidencyStateName(TraceView::ResidencyState state) {
  constexpr absl::string_view kNames[kNumResidencyStates] = {
      "arriving", "hold",     "compute", "gradients",
      "leaving",  "reducing", "updating"};
  return kNames[static_cast<int>(state)];
}

}  // namespace castor
