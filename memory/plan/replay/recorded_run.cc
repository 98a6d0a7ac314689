#include "memory/plan/replay/recorded_run.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/median.h"
#include "base/status_macros.h"
#include "memory/plan/check/trace_check.h"
#include "memory/plan/policy/policies.h"
#include "memory/plan/replay/recorded_plan.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// Returns true if both records are of one plan, which is recorded again when
// durations were measured under it.
bool SameDecisions(const PlanRecord& a, const PlanRecord& b) {
  return a.policy == b.policy && a.warmup == b.warmup &&
         a.refused == b.refused && a.device_side == b.device_side &&
         a.initial == b.initial && a.actions == b.actions;
}

// The longest step that is accepted: sums of longer times could overflow.
constexpr double kYearsNs = 1e17;

double StepNs(const PlanRequest& request) {
  const BusModel& bus = request.bus;
  double ns = 0;
  for (const OpRecord& op : request.trace->ops) {
    ns += static_cast<double>(op.duration_ns) +
          static_cast<double>(op.host_duration_ns);
    // Each use may take a copy to the device and one from it.
    for (const ChunkUse& use : op.chunks) {
      const double bytes = static_cast<double>(
          request.trace->chunks[use.chunk.value].payload_bytes);
      ns += bytes * 1e9 / bus.h2d_bytes_per_s +
            bytes * 1e9 / bus.d2h_bytes_per_s +
            2.0 * bytes * 1e9 / bus.network_bytes_per_s +
            2.0 * static_cast<double>(bus.latency_ns);
    }
  }
  return ns;
}

// Names go to terminals.
void RemoveControls(StepTrace* trace) {
  for (OpRecord& op : trace->ops) {
    for (char& c : op.name) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
  }
}

// The index of the plan record to replay, or -1.
int64_t PlanToReplay(const TraceContents& contents) {
  int64_t settled = -1, refused = -1, warmup = -1;
  for (size_t i = 0; i < contents.plans.size(); ++i) {
    const PlanRecord& plan = contents.plans[i];
    const int64_t index = static_cast<int64_t>(i);
    if (plan.refused) {
      refused = index;
    } else if (contents.step_traces[plan.trace].training) {
      (plan.warmup ? warmup : settled) = index;
    }
  }
  return settled >= 0 ? settled : refused >= 0 ? refused : warmup;
}

struct Step {
  int64_t index = 0;  // of its StepRecord
  const ResultRecord* result = nullptr;
};

// Finds the finished steps on the plan. The first one after another plan or
// after an evaluation is left out if there are others: it begins with moves
// between the two, or on an idle device.
std::vector<Step> StepsOn(const TraceContents& contents,
                          const PlanRecord& plan) {
  const std::string& signature = contents.step_traces[plan.trace].signature;
  std::map<int64_t, const ResultRecord*> results;
  for (const ResultRecord& result : contents.results) {
    results[result.step] = &result;
  }
  std::vector<Step> first, later;
  bool on_plan = false;
  for (size_t i = 0; i < contents.steps.size(); ++i) {
    const StepRecord& step = contents.steps[i];
    const PlanRecord& followed = contents.plans[step.plan];
    const bool was_on_plan =
        i == 0 ? step.step > 1 : std::exchange(on_plan, false);
    on_plan = step.step > 0 && SameDecisions(followed, plan) &&
              contents.step_traces[followed.trace].signature == signature;
    if (!on_plan) continue;
    const auto result = results.find(step.step);
    if (result == results.end()) continue;
    (was_on_plan ? later : first)
        .push_back({static_cast<int64_t>(i), result->second});
  }
  return later.empty() ? first : later;
}

MeasuredSteps Measure(const TraceContents& contents,
                      const std::vector<Step>& steps) {
  std::vector<int64_t> length, stall, h2d, d2h;
  std::set<int64_t> indices;
  for (const Step& step : steps) {
    indices.insert(step.index);
    length.push_back(step.result->duration_ns);
    stall.push_back(step.result->stall_ns);
    h2d.push_back(step.result->h2d_bytes);
    d2h.push_back(step.result->d2h_bytes);
  }
  MeasuredSteps measured = {.steps = static_cast<int64_t>(steps.size()),
                            .step_ns = Median(length),
                            .stall_ns = Median(stall),
                            .h2d_bytes = Median(h2d),
                            .d2h_bytes = Median(d2h)};
  for (const IssueRecord& issue : contents.issues) {
    if (indices.count(issue.step) == 0) continue;
    measured.device_peak_bytes =
        std::max(measured.device_peak_bytes, issue.used_bytes);
  }
  return measured;
}

std::set<int64_t> TypicalSteps(std::vector<Step> steps) {
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    return a.result->duration_ns < b.result->duration_ns;
  });
  std::set<int64_t> typical;
  if (steps.empty()) return typical;
  const size_t middle = (steps.size() - 1) / 2;  // the median
  const size_t beside = steps.size() / 6;
  for (size_t i = middle - beside; i <= middle + beside; ++i) {
    typical.insert(steps[i].index);
  }
  return typical;
}

// Sums over the typical steps, indexed by moment.
class Durations {
 public:
  // The steps are of `trace`.
  Durations(const TraceContents& contents, std::set<int64_t> steps,
            const StepTrace& trace)
      : contents_(contents),
        steps_(std::move(steps)),
        device_(trace.ops.size(), 0),
        host_(trace.ops.size(), 0),
        moved_(trace.ops.size(), 0),
        waited_for_(trace.ops.size()),
        issued_(trace.ops.size()) {
    AddCompute(Stream("compute"));
    AddRest(Stream("host_compute"), Stream("network"), trace);
    AddIssues();
    for (const WorkRecord& work : contents.works) {
      ends_[{work.stream, work.count}] = work.end_ns;
    }
  }

  void Fill(StepTrace* trace, BusModel* bus, Overheads* overheads) const {
    if (steps_.empty()) return;
    overheads->moves.resize(trace->ops.size());
    const double n = static_cast<double>(steps_.size());
    for (size_t t = 0; t < trace->ops.size(); ++t) {
      OpRecord& op = trace->ops[t];
      if (device_[t] > 0) op.duration_ns = std::llround(device_[t] / n);
      if (host_[t] > 0) op.host_duration_ns = std::llround(host_[t] / n);
      BlockMoves& at = overheads->moves[t];
      at.duration_ns = std::llround(moved_[t] / n);
      for (const auto& [direction, chunk] : waited_for_[t]) {
        if (chunk < 0 || chunk >= static_cast<int64_t>(trace->chunks.size())) {
          continue;
        }
        (direction == CopyDirection::kToDevice ? at.after_fetches
                                               : at.after_copies_back)
            .push_back(ChunkId(chunk));
      }
    }
    for (const std::vector<int64_t>& issued : issued_) {
      overheads->issue_ns.push_back(Median(issued));
    }
    overheads->compute_handoff_ns = HandoffNs("compute");
    overheads->h2d_handoff_ns = HandoffNs("host_to_device");
    overheads->d2h_handoff_ns = HandoffNs("device_to_host");
    overheads->host_handoff_ns = HandoffNs("host_compute");
    double* const speeds[2] = {&bus->h2d_bytes_per_s, &bus->d2h_bytes_per_s};
    for (int direction = 0; direction < 2; ++direction) {
      double bytes = 0;
      for (const auto& [chunk, copies] : copies_[direction]) {
        if (chunk >= static_cast<int64_t>(trace->chunks.size())) continue;
        bytes += static_cast<double>(copies) *
                 static_cast<double>(direction == 0
                                         ? trace->chunks[chunk].home_bytes()
                                         : trace->chunks[chunk].payload_bytes) /
                 static_cast<double>(trace->chunks[chunk].pieces);
      }
      if (bytes > 0 && copy_ns_[direction] > 0) {
        *speeds[direction] = bytes * 1e9 / copy_ns_[direction];
      }
    }
  }

 private:
  using CopyOf = std::pair<CopyDirection, int64_t>;  // of the chunk
  static CopyDirection DirectionOf(const WorkRecord& work) {
    return RowOf(work.kind).direction;
  }

  int64_t Stream(absl::string_view name) const {
    if (!contents_.run.has_value()) return -1;
    const std::vector<std::string>& names = contents_.run->streams;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return static_cast<int64_t>(i);
    }
    return -1;
  }

  // Returns the mean delay from the end of the work that was waited for to the
  // end of the wait, without the longest tenth: in those the thread had lost
  // its processor to another program, or to work that is in the trace itself.
  int64_t HandoffNs(absl::string_view name) const {
    const int64_t stream = Stream(name);
    std::vector<int64_t> handoffs;
    for (const WaitRecord& wait : contents_.waits) {
      if (wait.waiter.stream != stream || !Counts(wait.waiter)) continue;
      int64_t over_ns = -1;
      for (const WaitRecord::Until& until : wait.until) {
        // Waits are items too: the last work up to the count.
        const auto after = ends_.upper_bound({until.stream, until.count});
        if (after == ends_.begin()) continue;
        const auto last = std::prev(after);
        if (last->first.first == until.stream) {
          over_ns = std::max(over_ns, last->second);
        }
      }
      if (over_ns < wait.waiter.start_ns || over_ns > wait.waiter.end_ns) {
        continue;
      }
      handoffs.push_back(wait.waiter.end_ns - over_ns);
    }
    std::sort(handoffs.begin(), handoffs.end());
    handoffs.resize(handoffs.size() - handoffs.size() / 10);
    double sum = 0;
    for (const int64_t handoff : handoffs) sum += static_cast<double>(handoff);
    return handoffs.empty()
               ? 0
               : std::llround(sum / static_cast<double>(handoffs.size()));
  }

  void AddIssues() {
    for (const IssueRecord& issue : contents_.issues) {
      const int64_t t = issue.moment.value;
      if (steps_.count(issue.step) == 0 || t < 0 ||
          t >= static_cast<int64_t>(issued_.size())) {
        continue;
      }
      issued_[t].push_back(std::max<int64_t>(
          0, issue.time_ns - contents_.steps[issue.step].time_ns));
    }
  }

  bool Counts(const WorkRecord& work) const {
    return steps_.count(work.step) > 0;
  }
  bool AtMoment(const WorkRecord& work) const {
    return work.moment.value >= 0 &&
           work.moment.value < static_cast<int64_t>(device_.size());
  }

  // Walk work and waits of the compute stream in order: moves of blocks, which
  // belong to no operator, count for the operator after them.
  void AddCompute(int64_t stream) {
    struct Item {
      const WorkRecord* work;
      const WaitRecord* wait;  // null: it is work
    };
    std::map<std::pair<int64_t, int64_t>, const WorkRecord*> copies;
    for (const WorkRecord& work : contents_.works) {
      if (DirectionOf(work) != CopyDirection::kNone) {
        copies[{work.stream, work.count}] = &work;
      }
    }
    std::vector<Item> items;
    for (const WorkRecord& work : contents_.works) {
      if (work.stream == stream) items.push_back({&work, nullptr});
    }
    for (const WaitRecord& wait : contents_.waits) {
      if (wait.waiter.stream == stream) items.push_back({&wait.waiter, &wait});
    }
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::pair(a.work->start_ns, a.work->count) <
             std::pair(b.work->start_ns, b.work->count);
    });
    double moved = 0;
    std::set<CopyOf> waited_for;
    const WorkRecord* before = nullptr;
    for (const auto& [work, wait] : items) {
      double pause = 0;
      if (before != nullptr && before->step == work->step) {
        pause = static_cast<double>(
            std::max<int64_t>(0, work->start_ns - before->end_ns));
      } else {
        moved = 0;
        waited_for.clear();
      }
      before = work;
      if (!Counts(*work)) continue;
      const double length = static_cast<double>(work->end_ns - work->start_ns);
      if (work->kind == WorkKind::kOther) {
        moved += pause;
        if (wait == nullptr) {
          moved += length;
          continue;
        }
        for (const WaitRecord::Until& until : wait->until) {
          const auto copy = copies.find({until.stream, until.count});
          if (copy == copies.end()) continue;
          waited_for.insert(
              {DirectionOf(*copy->second), copy->second->chunk.value});
        }
      } else if (wait != nullptr) {
        moved += pause;
      } else if (AtMoment(*work)) {
        const int64_t t = work->moment.value;
        device_[t] += length + pause;
        moved_[t] += std::exchange(moved, 0);
        waited_for_[t].merge(waited_for);
        waited_for.clear();
      }
    }
  }

  void AddRest(int64_t host_stream, int64_t network_stream,
               const StepTrace& trace) {
    for (const WorkRecord& work : contents_.works) {
      if (!Counts(work)) continue;
      const double length = static_cast<double>(work.end_ns - work.start_ns);
      if (DirectionOf(work) != CopyDirection::kNone) {
        const int direction =
            DirectionOf(work) == CopyDirection::kToDevice ? 0 : 1;
        if (direction == 1 &&
            MayBeSum(trace, work.moment.value, work.chunk.value)) {
          continue;
        }
        copy_ns_[direction] += length;
        ++copies_[direction][work.chunk.value];
      } else if (work.stream == host_stream && AtMoment(work) &&
                 (work.kind == WorkKind::kReduce ||
                  work.kind == WorkKind::kUpdate)) {
        host_[work.moment.value] += length;
      } else if (work.stream == network_stream && AtMoment(work) &&
                 work.chunk.value >= 0 &&
                 (work.kind == WorkKind::kReduce ||
                  work.kind == WorkKind::kUpdate)) {
        device_[work.moment.value] += length;  // no collective: they have none
      }
    }
  }

  const TraceContents& contents_;
  const std::set<int64_t> steps_;
  // Indexed by moment. The copies that moves waited for in any step: a copy
  // that is over in time makes no difference.
  std::vector<double> device_, host_, moved_;
  std::vector<std::set<CopyOf>> waited_for_;
  std::vector<std::vector<int64_t>> issued_;  // after the step's beginning
  std::map<std::pair<int64_t, int64_t>, int64_t> ends_;  // by stream and count
  double copy_ns_[2] = {0, 0};
  std::map<int64_t, int64_t> copies_[2];  // of each chunk
};

absl::StatusOr<AskedStep> AskedOf(const TraceContents& contents,
                                  const PlanRecord& plan) {
  AskedStep asked;
  asked.trace = contents.step_traces[plan.trace];
  asked.request = RequestOf(plan, &asked.trace);
  CASTOR_RETURN_IF_ERROR(CheckRequest(asked.request));
  asked.request.trace = nullptr;
  // Training's sides are always chosen; an evaluation's matter only for chunks
  // with optimizer states.
  if (asked.trace.training) asked.request.fixed_side.clear();
  for (size_t c = 0; c < asked.request.fixed_side.size(); ++c) {
    if (asked.trace.chunks[c].optimizer_bytes == 0) {
      asked.request.fixed_side[c] = Side::kHost;
    }
  }
  RemoveControls(&asked.trace);
  return asked;
}

bool TakesYears(const Overheads& overheads) {
  double ns = 0;
  for (const BlockMoves& moves : overheads.moves) {
    ns += static_cast<double>(moves.duration_ns);
  }
  for (const int64_t issue : overheads.issue_ns) {
    ns = std::max(ns, static_cast<double>(issue));
  }
  const double waits = 4.0 * static_cast<double>(overheads.moves.size() + 1);
  return ns + waits * static_cast<double>(overheads.compute_handoff_ns +
                                          overheads.h2d_handoff_ns +
                                          overheads.d2h_handoff_ns +
                                          overheads.host_handoff_ns) >
         kYearsNs;
}

}  // namespace

absl::Status CheckRequest(const PlanRequest& request) {
  CASTOR_RETURN_IF_ERROR(CheckTrace(*request.trace));
  const BusModel& bus = request.bus;
  for (const double speed :
       {bus.h2d_bytes_per_s, bus.d2h_bytes_per_s, bus.network_bytes_per_s}) {
    if (!std::isfinite(speed) || speed <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a bus of ", speed, " bytes/s; must be above 0"));
    }
  }
  if (!(request.gpu_margin_mem_ratio >= 0 &&
        request.gpu_margin_mem_ratio <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("a gpu_margin_mem_ratio of ",
                                                   request.gpu_margin_mem_ratio,
                                                   "; must be from 0 to 1"));
  }
  if (bus.latency_ns < 0 || StepNs(request) > kYearsNs) {
    return absl::InvalidArgumentError(
        "a step of these sizes would take years on this bus");
  }
  return absl::OkStatus();
}

std::optional<ActivationCheckpointing> CheckpointingNamed(
    absl::string_view name) {
  for (size_t i = 0; i < std::size(kActivationCheckpointings); ++i) {
    if (kActivationCheckpointings[i] == name) {
      return static_cast<ActivationCheckpointing>(i);
    }
  }
  return std::nullopt;
}

PlanRequest RequestFor(const AskedStep& asked) {
  PlanRequest request = asked.request;
  request.trace = &asked.trace;
  return request;
}

absl::StatusOr<RecordedRun> ReadRecordedRun(const TraceContents& contents) {
  const int64_t index = PlanToReplay(contents);
  if (index < 0) {
    return absl::FailedPreconditionError(
        "it has no plan of a training step to replay: the run was stopped "
        "before its first step, or no training step was in the traced window");
  }
  const PlanRecord& record = contents.plans[index];
  RecordedRun run;
  CASTOR_ASSIGN_OR_RETURN(run.training, AskedOf(contents, record));
  CASTOR_ASSIGN_OR_RETURN(run.policy, PolicyNamed(record.policy));
  if (contents.run.has_value()) {
    run.tokens_per_step = contents.run->tokens_per_step;
    run.checkpointing =
        CheckpointingNamed(contents.run->activation_checkpointing);
    // The careful plan of the warm-up has a policy of its own.
    if (record.warmup) {
      CASTOR_ASSIGN_OR_RETURN(run.policy, PolicyNamed(contents.run->policy));
    }
  }
  if (!record.refused && !record.warmup) {
    CASTOR_ASSIGN_OR_RETURN(run.plan, PlanOf(record, run.training.trace));
    const std::vector<Step> steps = StepsOn(contents, record);
    run.measured = Measure(contents, steps);
    const Durations durations(contents, TypicalSteps(steps),
                              run.training.trace);
    durations.Fill(&run.training.trace, &run.training.request.bus,
                   &run.overheads);
    if (TakesYears(run.overheads)) run.overheads = {};
    CASTOR_RETURN_IF_ERROR(CheckRequest(RequestFor(run.training)));
  }
  // Evaluations have no activations that move.
  const auto model_chunks = [](const StepTrace& trace) {
    return std::count_if(
        trace.chunks.begin(), trace.chunks.end(),
        [](const ChunkInfo& chunk) { return !chunk.holds_activations(); });
  };
  std::set<std::string> seen;
  for (auto plan = contents.plans.rbegin(); plan != contents.plans.rend();
       ++plan) {
    const StepTrace& trace = contents.step_traces[plan->trace];
    if (trace.training || plan->refused ||
        !seen.insert(trace.signature).second ||
        model_chunks(trace) != model_chunks(run.training.trace)) {
      continue;
    }
    CASTOR_ASSIGN_OR_RETURN(AskedStep asked, AskedOf(contents, *plan));
    run.evaluations.push_back(std::move(asked));
  }
  return run;
}

}  // namespace castor
