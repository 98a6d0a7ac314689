#include "client/client_reporter.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace castor {
namespace {

// A wait that is shorter is the price of asking.
constexpr int64_t kShortestWaitNs = 1000;

}  // namespace

void ClientReporter::Open(const Device* device, const Arena* arena,
                          const ChunkStore* store, Communicator* ranks) {
  device_ = device;
  arena_ = arena;
  store_ = store;
  ranks_ = ranks;
}

void ClientReporter::SetObserver(RunObserver* observer) {
  observer_ = observer;
  timeline_.SetNext(observer);
  if (ranks_ != nullptr) {
    ranks_->SetObserver(observer == nullptr ? nullptr : &timeline_);
  }
}

void ClientReporter::BeginStep(uint16_t tag) {
  tag_ = tag;
  stall_ns_ = network_wait_ns_ = 0;
  began_h2d_bytes_ = store_->h2d_bytes();
  began_d2h_bytes_ = store_->d2h_bytes();
}

void ClientReporter::TellPlan(int64_t number,
                              const std::shared_ptr<const Plan>& plan,
                              const PlanRequest& request) {
  if (observer_ == nullptr) return;
  observer_->OnStep(
      {.step = number, .tag = tag_, .plan = plan, .request = &request});
}

void ClientReporter::TellOperator(Moment moment) {
  if (observer_ == nullptr) return;
  const ArenaStats& stats = arena_->stats();
  observer_->OnOperator(tag_, moment, stats.used, stats.used_bytes);
}

void ClientReporter::EndStep(int64_t number, bool warmup) {
  const int64_t now_ns = device_->NowNs();
  report_ = {
      .step = number,
      .loss = std::numeric_limits<double>::quiet_NaN(),
      .seconds = report_.end_ns == 0
                     ? 0
                     : static_cast<double>(now_ns - report_.end_ns) / 1e9,
      .end_ns = now_ns,
      .stall_seconds = static_cast<double>(stall_ns_) / 1e9,
      .h2d_bytes = store_->h2d_bytes() - began_h2d_bytes_,
      .d2h_bytes = store_->d2h_bytes() - began_d2h_bytes_,
      .device_peak_bytes = arena_->stats().peak_in_budget,
      .warmup = warmup};
  report_.network_wait_seconds = static_cast<double>(network_wait_ns_) / 1e9;
  TakeEvents();
  report_.network_sent_bytes = std::exchange(network_sent_bytes_, 0);
  report_.network_received_bytes = std::exchange(network_received_bytes_, 0);
}

void ClientReporter::BeginUse() {
  use_peak_ = {};
  NotePeak();
  use_began_ns_ = device_->NowNs();
}

void ClientReporter::NotePeak() {
  if (observer_ == nullptr) return;
  const ArenaStats& stats = arena_->stats();
  if (stats.used_bytes > use_peak_.used_bytes) use_peak_ = stats;
}

WorkRecord ClientReporter::UseWork(Moment moment, int64_t start_ns,
                                   int64_t end_ns) const {
  return {.stream = static_cast<int64_t>(StreamId::kCompute),
          .count =
              std::max<int64_t>(1, device_->NowAll().count(StreamId::kCompute)),
          .kind = WorkKind::kOperator,
          .moment = moment,
          .start_ns = start_ns,
          .end_ns = end_ns,
          .tag = tag_};
}

void ClientReporter::TellUse(Moment moment, int64_t duration_ns) {
  if (observer_ == nullptr) return;
  observer_->OnOperator(tag_, moment, use_peak_.used, use_peak_.used_bytes);
  observer_->OnWork(UseWork(moment, use_began_ns_, use_began_ns_ + duration_ns),
                    /*network=*/nullptr);
}

void ClientReporter::NoteWait(int64_t start_ns, const Fence& until,
                              std::optional<Moment> moment) {
  const int64_t end_ns = device_->NowNs();
  if (end_ns - start_ns < kShortestWaitNs) return;
  stall_ns_ += end_ns - start_ns;
  if (until.count(StreamId::kNetwork) > 0) {
    network_wait_ns_ += end_ns - start_ns;
  }
  if (observer_ == nullptr || !moment.has_value()) return;
  WaitRecord wait;
  wait.waiter = UseWork(*moment, start_ns, end_ns);
  for (int i = 0; i < kNumStreams; ++i) {
    const int64_t part = until.count(static_cast<StreamId>(i));
    if (part > 0) wait.until.push_back({i, part});
  }
  if (!wait.until.empty()) observer_->OnWait(wait);
}

void ClientReporter::NoteMeeting(int64_t start_ns) {
  const int64_t waited_ns = device_->NowNs() - start_ns;
  stall_ns_ += waited_ns;
  network_wait_ns_ += waited_ns;
}

void ClientReporter::NotePause(WorkKind kind, int64_t start_ns) {
  if (observer_ == nullptr) return;
  observer_->OnWork(PauseWork(kind, start_ns, device_->NowNs()),
                    /*network=*/nullptr);
}

void ClientReporter::NoteBudget(int64_t step, int64_t from_bytes,
                                int64_t to_bytes) {
  if (observer_ == nullptr || from_bytes == to_bytes) return;
  observer_->OnBudget({.time_ns = device_->NowNs(),
                       .step = step,
                       .from_bytes = from_bytes,
                       .to_bytes = to_bytes,
                       .asker = BudgetAsker::kProgram});
}

void ClientReporter::TakeEvents(
    absl::FunctionRef<void(const WorkRecord&)> each) {
  for (const TimelineEvent& event : timeline_.Take()) {
    if (event.network.has_value()) {
      network_sent_bytes_ += event.network->sent_bytes;
      network_received_bytes_ += event.network->received_bytes;
    }
    if (!event.wait) each(event.work);
  }
}

}  // namespace castor
