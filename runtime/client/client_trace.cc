// What a client's run tells its observer.
#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/client/client_run.h"

namespace castor {
namespace {

// A wait that is shorter is the price of asking.
constexpr int64_t kShortestWaitNs = 1000;

}  // namespace

void ClientRun::SetObserver(RunObserver* observer) {
  const std::lock_guard lock(mutex_);
  Await(device_->NowAll()).IgnoreError();  // it is in failure_
  observer_ = observer;
  timeline_.SetNext(observer);
  if (shared()) {
    managed_.ranks()->SetObserver(observer == nullptr ? nullptr : &timeline_);
  }
}

void ClientRun::TellStep() {
  if (observer_ == nullptr) return;
  const PlanRequest request = Request(program_->trace);
  observer_->OnStep({.step = script_->training() ? steps_ + 1 : 0,
                     .tag = tag_step_,
                     .plan = program_->told,
                     .request = &request});
}

void ClientRun::TellOperator(Moment moment) {
  if (observer_ == nullptr) return;
  const ArenaStats& stats = arena_->stats();
  observer_->OnOperator(tag_step_, moment, stats.used, stats.used_bytes);
}

void ClientRun::NoteUsePeak() {
  if (observer_ == nullptr) return;
  const ArenaStats& stats = arena_->stats();
  if (stats.used_bytes > use_peak_.used_bytes) use_peak_ = stats;
}

void ClientRun::TellUse(int64_t index) {
  if (observer_ == nullptr) return;
  const Moment moment = program_->script.MomentOf(index);
  observer_->OnOperator(tag_step_, moment, use_peak_.used,
                        use_peak_.used_bytes);
  // The stream has no item for it: it stands behind those that are there.
  const int64_t count =
      std::max<int64_t>(1, device_->NowAll().count(StreamId::kCompute));
  observer_->OnWork({.stream = static_cast<int64_t>(StreamId::kCompute),
                     .count = count,
                     .kind = WorkKind::kOperator,
                     .moment = moment,
                     .start_ns = use_began_ns_,
                     .end_ns = use_began_ns_ + script_->last().duration_ns,
                     .tag = tag_step_},
                    /*network=*/nullptr);
}

absl::Status ClientRun::AwaitForUse(const Fence& fence) {
  if (on_stream()) {
    device_->Wait(StreamId::kCompute, fence,
                  Tag(WorkKind::kOperator, ChunkId()).Pack());
    return absl::OkStatus();
  }
  const int64_t start_ns = device_->NowNs();
  const absl::Status over = Await(fence);
  const int64_t end_ns = device_->NowNs();
  if (end_ns - start_ns < kShortestWaitNs) return over;
  step_stall_ns_ += end_ns - start_ns;
  if (fence.count(StreamId::kNetwork) > 0) {
    step_network_wait_ns_ += end_ns - start_ns;
  }
  if (observer_ == nullptr || !following()) return over;
  const auto index = static_cast<int64_t>(script_->uses().size()) - 1;
  WaitRecord wait;
  wait.waiter = {.stream = static_cast<int64_t>(StreamId::kCompute),
                 .count = std::max<int64_t>(
                     1, device_->NowAll().count(StreamId::kCompute)),
                 .kind = WorkKind::kOperator,
                 .moment = program_->script.MomentOf(index),
                 .start_ns = start_ns,
                 .end_ns = end_ns,
                 .tag = tag_step_};
  for (int i = 0; i < kNumStreams; ++i) {
    const int64_t part = fence.count(static_cast<StreamId>(i));
    if (part > 0) wait.until.push_back({i, part});
  }
  if (!wait.until.empty()) observer_->OnWait(wait);
  return over;
}

// What is left over of a step is taken with the next one.
void ClientRun::TakeEvents(DurationMeter* measured) {
  for (const TimelineEvent& event : timeline_.Take()) {
    if (event.network.has_value()) {
      network_sent_bytes_ += event.network->sent_bytes;
      network_received_bytes_ += event.network->received_bytes;
    }
    if (measured != nullptr && !event.wait && event.work.tag == tag_step_) {
      measured->Add(event.work);
    }
  }
}

void ClientRun::KeepReport() {
  const int64_t now_ns = device_->NowNs();
  report_ = {
      .step = steps_,
      .loss = std::numeric_limits<double>::quiet_NaN(),
      .seconds = report_.end_ns == 0
                     ? 0
                     : static_cast<double>(now_ns - report_.end_ns) / 1e9,
      .end_ns = now_ns,
      .stall_seconds = static_cast<double>(step_stall_ns_) / 1e9,
      .h2d_bytes = store_->h2d_bytes() - step_began_h2d_,
      .d2h_bytes = store_->d2h_bytes() - step_began_d2h_,
      .device_peak_bytes = arena_->stats().peak_bytes,
      .warmup = !following()};
  report_.network_wait_seconds =
      static_cast<double>(step_network_wait_ns_) / 1e9;
  TakeEvents(/*measured=*/nullptr);
  report_.network_sent_bytes = std::exchange(network_sent_bytes_, 0);
  report_.network_received_bytes = std::exchange(network_received_bytes_, 0);
}

}  // namespace castor
