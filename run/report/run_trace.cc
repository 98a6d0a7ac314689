#include "run/report/run_trace.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/host_name.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"
#include "device/comm/clock_sync.h"
#include "memory/plan/policy/policies.h"
#include "memory/plan/replay/recorded_plan.h"
#include "memory/plan/simulate/simulator.h"
#include "run/report/trace_merge.h"
#include "tracer/append_file.h"
#include "tracer/rank_traces.h"
#include "tracer/trace_names.h"

namespace castor {
namespace {

// The number of steps after the warm-up that a trace shows in full.
constexpr int64_t kTracedSteps = 12;

// Records the names of things that are recorded as numbers. Alone, a rank has
// no network.
void NameParts(bool several_ranks, RunRecord* run) {
  for (int i = 0; i < kNumCategories; ++i) {
    run->categories.emplace_back(CategoryName(static_cast<Category>(i)));
  }
  static_assert(static_cast<int>(StreamId::kNetwork) == kNumStreams - 1);
  for (int i = 0; i < (several_ranks ? kNumStreams : kNumStreams - 1); ++i) {
    run->streams.emplace_back(StreamName(static_cast<StreamId>(i)));
  }
}

// Removes the parts that a killed run with this file has left: they would pass
// for this run's until they are written anew. Parts of a run that still goes on
// stay.
void RemoveOldParts(const std::string& path) {
  std::error_code error;
  for (int64_t rank = 1;; ++rank) {
    const std::string part = RankFileName(path, rank);
    if (IsBeingAppended(part)) continue;
    if (!std::filesystem::remove(part, error)) return;
  }
}

// The most bytes of one rank's file. All of them together are to be one file
// that can be read, and each is to have room for its plans.
int64_t MaxBytes(int64_t world_size) {
  return std::max(kMaxTraceBytes / world_size, int64_t{8} << 20);
}

// A number for this run's files; also, nobody goes on before rank 0 does.
absl::StatusOr<int64_t> NewGroup(Communicator& ranks) {
  const int64_t now_ns = absl::ToUnixNanos(absl::Now());
  int64_t group =
      ranks.rank() == 0
          ? std::clamp<int64_t>(now_ns % kMaxTraceNumber, 1, kMaxTraceNumber)
          : 0;
  CASTOR_RETURN_IF_ERROR(Await(
      ranks,
      ranks.AllReduce("number of the trace", 0, ReduceOp::kMax, {&group, 1})));
  return group;
}

// Collectives are numbers in the file.
static_assert(static_cast<int>(CollectiveKind::kAllGather) == 0 &&
              static_cast<int>(CollectiveKind::kReduceScatter) == 2 &&
              static_cast<int>(CollectiveKind::kLeave) ==
                  trace_names::kNumCollectives - 1);

}  // namespace

absl::StatusOr<TraceWindow> WindowOf(const std::string& steps, int64_t first,
                                     int64_t warmup_steps) {
  if (steps.empty()) {
    return TraceWindow{first, first - 1 + warmup_steps + kTracedSteps};
  }
  const std::vector<std::string> parts = absl::StrSplit(steps, ':');
  TraceWindow window = {first, 0};
  const bool numbers =
      parts.size() <= 2 && absl::SimpleAtoi(parts.back(), &window.last) &&
      (parts.size() == 1 || absl::SimpleAtoi(parts[0], &window.first));
  if (!numbers || window.first < 1 || window.last < window.first) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", steps,
                     "\" is not FIRST:LAST, two steps from 1, such as "
                     "100:104"));
  }
  return window;
}

absl::StatusOr<std::unique_ptr<RunTrace>> RunTrace::Create(
    const std::string& path, RunRecord run, TraceWindow window,
    ObservedRun* observed, bool streams_data) {
  Communicator* const ranks = observed->communicator();
  NameParts(ranks != nullptr, &run);
  const int64_t data_stream =
      streams_data ? static_cast<int64_t>(run.streams.size()) : -1;
  if (streams_data) run.streams.emplace_back(trace_names::kDataStream);
  if (ranks == nullptr) {
    CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer,
                            TraceWriter::Create(path));
    writer->Append(run);
    std::unique_ptr<RunTrace> trace(
        new RunTrace(std::move(writer), path, window, observed));
    trace->data_stream_ = data_stream;
    observed->SetObserver(trace.get());
    return trace;
  }
  const std::string own_path = RankFileName(path, ranks->rank());
  if (ranks->rank() == 0) RemoveOldParts(path);
  CASTOR_ASSIGN_OR_RETURN(run.group, NewGroup(*ranks));
  run.rank = ranks->rank();
  run.world_size = ranks->world_size();
  run.host = HostName();
  auto writer =
      TraceWriter::Create(own_path, run.world_size, MaxBytes(run.world_size));
  if (writer.ok()) (*writer)->Append(run);
  CASTOR_RETURN_IF_ERROR(AgreeOnStatus(*ranks, "trace files", writer.status()));
  std::unique_ptr<RunTrace> trace(
      new RunTrace(*std::move(writer), own_path, window, observed));
  trace->data_stream_ = data_stream;
  CASTOR_RETURN_IF_ERROR(trace->WriteClock());
  observed->SetObserver(trace.get());
  return trace;
}

RunTrace::RunTrace(std::unique_ptr<TraceWriter> writer, std::string path,
                   TraceWindow window, ObservedRun* observed)
    : writer_(std::move(writer)),
      path_(std::move(path)),
      window_(window),
      observed_(observed),
      origin_ns_(observed->NowNs()) {}

RunTrace::~RunTrace() { observed_->SetObserver(nullptr); }

absl::Status RunTrace::WriteRefused(const std::string& path, RunRecord run,
                                    const RefusedRun& refused,
                                    const std::string& message) {
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<TraceWriter> writer,
                          TraceWriter::Create(path));
  NameParts(/*several_ranks=*/false, &run);
  writer->Append(run);
  PlanRequest request = refused.request;
  request.trace = &refused.trace;
  CASTOR_ASSIGN_OR_RETURN(const PlacementPolicy* policy,
                          PolicyNamed(run.policy));
  writer->Append(RecordRequest(policy, request, writer->Append(refused.trace)));
  const Refusal& why = refused.refusal;
  writer->Append(RefusalRecord{
      .message = message,
      .tier = why.tier,
      .op = why.op,
      .peak_bytes = why.peak_bytes,
      .resident_bytes = why.resident_bytes,
      .smallest_device_budget_bytes = why.smallest_device_budget_bytes,
      .smallest_host_budget_bytes = why.smallest_host_budget_bytes});
  return writer->status();
}

int64_t RunTrace::RecordOf(const StepStart& start) {
  const auto known = plans_.find(start.plan);
  if (known != plans_.end()) return known->second;
  const StepTrace& trace = *start.request->trace;
  auto [written, is_new] = traces_.try_emplace(trace.signature);
  if (is_new || !(trace == written->second.second)) {
    written->second = {writer_->Append(trace), trace};
  }
  const int64_t index = writer_->Append(RecordPlan(
      *start.plan, *start.request, SimulatePlan(*start.plan, *start.request),
      written->second.first, start.warmup));
  plans_[start.plan] = index;
  return index;
}

void RunTrace::OnStep(const StepStart& start) {
  const bool training = start.step > 0;
  if (training) {
    open_ = start.step >= window_.first && start.step <= window_.last;
  } else if (observed_->step() >= window_.last) {
    open_ = false;  // an evaluation after the last step
  }
  if (!open_) {
    marks_[0].store(kIgnored);
    return;
  }
  // Its chunks are known before the first work that names one: what moves
  // between two plans may still be on its way.
  const int64_t plan = RecordOf(start);
  marks_[0].store(kTraced);
  const BytesByCategory host = observed_->host_bytes();
  const int64_t now = FromOrigin(observed_->NowNs());
  if (host != host_) {
    host_ = host;
    writer_->Append(HostRecord{
        .time_ns = now, .bytes = {host.bytes.begin(), host.bytes.end()}});
  }
  writer_->Append(StepRecord{
      .tag = start.tag, .step = start.step, .plan = plan, .time_ns = now});
  // There is one record for each shape of step: another plan of that shape
  // takes the place of the one before.
  const bool measured = training && !start.warmup &&
                        (measured_plan_ == nullptr ||
                         measured_plan_->signature == start.plan->signature ||
                         (start.shape > 0 && start.shape == measured_shape_));
  if (measured && measured_plan_ != start.plan) {
    for (std::atomic<Mark>& mark : marks_) {
      Mark before = kMeasured;
      mark.compare_exchange_strong(before, kTraced);
    }
    const std::lock_guard<std::mutex> lock(meter_mutex_);
    meter_ = DurationMeter();
  }
  if (measured) {
    measured_plan_ = start.plan;
    measured_shape_ = start.shape;
    measured_request_ = *start.request;
    measured_trace_ = *start.request->trace;
  }
  marks_[start.tag].store(measured ? kMeasured : kTraced);
}

void RunTrace::OnOperator(uint16_t tag, Moment moment,
                          const BytesByCategory& device, int64_t used_bytes) {
  if (marks_[tag].load() == kIgnored) return;
  writer_->AppendOp(tag, moment, FromOrigin(observed_->NowNs()), used_bytes,
                    device.bytes);
}

void RunTrace::OnWork(const WorkRecord& work, const NetworkRecord* network) {
  const Mark mark = marks_[work.tag].load();
  if (mark == kIgnored) return;
  writer_->Append(FromOrigin(work));
  if (network != nullptr) {
    NetworkRecord record = *network;
    record.ready_ns = FromOrigin(record.ready_ns);
    writer_->Append(record);
  }
  if (mark != kMeasured) return;
  const std::lock_guard<std::mutex> lock(meter_mutex_);
  meter_.Add(work);
}

void RunTrace::OnWait(const WaitRecord& wait) {
  const Mark mark = marks_[wait.waiter.tag].load();
  if (mark == kIgnored) return;
  writer_->Append(
      WaitRecord{.waiter = FromOrigin(wait.waiter), .until = wait.until});
  if (mark != kMeasured) return;
  const std::lock_guard<std::mutex> lock(meter_mutex_);
  meter_.AddWait(wait.waiter);
}

void RunTrace::OnBudget(const BudgetRecord& change) {
  BudgetRecord record = change;
  record.time_ns = FromOrigin(record.time_ns);
  writer_->Append(record);
}

// Writes the request with which the planner would be asked if it knew how long
// operators and copies take under this plan: for replaying the run.
void RunTrace::WriteMeasured() {
  if (wrote_measured_ || measured_plan_ == nullptr) return;
  wrote_measured_ = true;
  StepTrace trace = measured_trace_;
  PlanRequest request = measured_request_;
  {
    const std::lock_guard<std::mutex> lock(meter_mutex_);
    meter_.Fill(DurationMeter::Statistic::kMedian, &trace, &request.bus);
  }
  request.trace = &trace;
  const int64_t index = writer_->Append(trace);
  writer_->Append(RecordPlan(*measured_plan_, request,
                             SimulatePlan(*measured_plan_, request), index,
                             /*warmup=*/false));
}

// Tags come again after 2^16 steps.
void RunTrace::Close() {
  WriteMeasured();
  for (std::atomic<Mark>& mark : marks_) mark.store(kIgnored);
}

void RunTrace::OnDataWait(int64_t begin_ns, int64_t end_ns) {
  if (!open_ || data_stream_ < 0 || writer_ == nullptr) return;
  writer_->Append(FromOrigin(WorkRecord{.stream = data_stream_,
                                        .count = ++data_waits_,
                                        .kind = WorkKind::kInput,
                                        .moment = Moment(-1),
                                        .chunk = ChunkId(-1),
                                        .start_ns = begin_ns,
                                        .end_ns = end_ns}));
}

void RunTrace::OnResult(const StepReport& report) {
  if (writer_ == nullptr) return;  // merged
  writer_->Append(ResultRecord{
      .step = report.step,
      .end_ns = FromOrigin(report.end_ns),
      .duration_ns = static_cast<int64_t>(report.seconds * 1e9),
      .stall_ns = static_cast<int64_t>(report.stall_seconds * 1e9),
      .h2d_bytes = report.h2d_bytes,
      .d2h_bytes = report.d2h_bytes,
      .device_peak_bytes = report.device_peak_bytes,
      .loss = report.loss,
      .network_sent_bytes = report.network_sent_bytes,
      .network_received_bytes = report.network_received_bytes,
      .network_wait_ns =
          static_cast<int64_t>(report.network_wait_seconds * 1e9)});
  writer_->Check();
  // All of its work is over, so the window is complete.
  if (report.step == window_.last) Close();
}

void RunTrace::Finish(const std::string& status, const std::string& message) {
  if (writer_ == nullptr) return;
  Close();
  writer_->Append(EndRecord{.status = status,
                            .message = message,
                            .time_ns = FromOrigin(observed_->NowNs())});
  writer_->Check();
  // Somebody may have renamed it.
  path_ = writer_->Place().value_or(path_);
}

absl::Status RunTrace::WriteClock() {
  Communicator& ranks = *observed_->communicator();
  std::vector<int64_t> origins(ranks.world_size());
  origins[ranks.rank()] = origin_ns_;
  CASTOR_RETURN_IF_ERROR(Await(
      ranks, ranks.AllGather("origins of traces", 0, &origins[ranks.rank()],
                             origins.data(), sizeof(int64_t))));
  CASTOR_ASSIGN_OR_RETURN(const ClockOffset clock,
                          MeasureClockOffset(ranks, "clocks of traces", [this] {
                            return observed_->NowNs();
                          }));
  writer_->Append(
      ClockRecord{.time_ns = FromOrigin(observed_->NowNs()),
                  .offset_ns = clock.offset_ns + origin_ns_ - origins[0],
                  .error_ns = clock.error_ns});
  return absl::OkStatus();
}

absl::Status RunTrace::Merge() {
  Communicator* const ranks = observed_->communicator();
  if (ranks == nullptr || writer_ == nullptr) return absl::OkStatus();
  observed_->SetObserver(nullptr);
  CASTOR_RETURN_IF_ERROR(WriteClock());
  writer_->Check();
  written_ = writer_->status();
  const absl::StatusOr<std::string> place = writer_->Place();
  if (place.ok()) path_ = *place;
  written_.Update(place.status());
  writer_ = nullptr;
  return MergeTraceFiles(*ranks, path_, written_);
}

}  // namespace castor
